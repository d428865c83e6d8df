"""Card testing: small payments that try a stolen card out, then a large one."""

import riverrun as rr

PAYMENTS = rr.TopicSpec("payments", "card string, amount double, at timestamp", key="card", time="at")

flow = rr.Flow("card-testing")
payments = flow.stream(PAYMENTS, lateness="1 minute")

# Three small payments or more, and within ten minutes of the first one that is ten times their average.
tested = payments.match(
    "small{3,} -> large",
    by="card",
    within="10 minutes",
    define={"small": "amount < 5", "large": "amount > 100 and amount > 10 * avg(small.amount)"},
    measures={"tries": "count(small.*)", "tried": "round(sum(small.amount), 2)", "amount": "large.amount"},
)
flow.view("tested_cards", tested)
flow.topic("cards-to-block", tested.select("card", "amount", "match_id"), key="card")
