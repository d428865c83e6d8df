"""The flow that the recovery tests kill: windows with late rows aside, groups, two depths, derived topics of a stream and
of a table."""

from riverrun.flow import Flow
from riverrun.flow.aggregates import count
from riverrun.flow.aggregates import sum as total
from riverrun.flow.windows import side, tumbling

ORDERS = "n bigint, user string, amount string, at timestamp"


def shop(factor: int = 1) -> Flow:
    """With another factor, another flow: sums per user are so many times what they are."""
    flow = Flow("shop")
    texts = flow.stream("orders", ORDERS, time="at", key="user", lateness="10 seconds")
    orders = texts.with_columns(amount="cast(amount as double)")  # fails for an amount that is no number
    windows = orders.where("amount > 0").window(tumbling("1 minute"), by="user", late=side("late-orders"))
    minutes = windows.agg(n=count(), total=total("amount * 2"))
    flow.view("revenue", minutes)
    flow.view("best", minutes.group("user").agg(minutes=count(), total=total("total")))
    totals = orders.group("user").agg(n=count(), total=total(f"amount * {factor}"))
    flow.view("totals", totals)
    flow.view("large", orders.where("amount >= 9"))
    flow.topic("large-orders", orders.where("amount >= 9").select("n", "user", "amount + 1 as more"), key="user")
    flow.topic("totals-log", totals, key="user")
    return flow
