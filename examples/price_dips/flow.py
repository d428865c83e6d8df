"""Prices that dip and recover: a V shape."""

import riverrun as rr

TICKS = rr.TopicSpec("ticks", "symbol string, price double, at timestamp", key="symbol", time="at")

flow = rr.Flow("dips")
ticks = flow.stream(TICKS, lateness="1 minute")

# The last row of a rise may be the first of the next fall.
shapes = ticks.match(
    "start down+ up+",
    by="symbol",
    after="skip to last up",
    define={"down": "price < prev(price)", "up": "price > prev(price)"},
    measures={"top": "start.price", "bottom": "last(down.price)", "recovered": "last(up.price)", "ticks": "count(*)"},
)
flow.view("dips", shapes.where("recovered >= top"))
