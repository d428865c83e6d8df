"""A login from another country than before, and within five minutes a large payment."""

import riverrun as rr

ACTIONS = rr.TopicSpec(
    "actions", "user string, kind string, country string, amount double, at timestamp", key="user", time="at"
)

flow = rr.Flow("abroad")
actions = flow.stream(ACTIONS, lateness="1 minute")

abroad = actions.match(
    "abroad -> large",
    by="user",
    within="5 minutes",
    define={"abroad": "country <> prev(country)", "large": "kind = 'payment' and amount > 500"},
    measures={"country": "abroad.country", "before": "prev(abroad.country)", "amount": "large.amount"},
    late=rr.correct("10 minutes"),
)
flow.view("payments_abroad", abroad)
