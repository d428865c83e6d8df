"""Orders: random rows for whole flows, with null items and odd amounts, over about a minute of event time."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st

SCHEMA = "user string, item string, amount double, n bigint, at timestamp"
START = datetime(2026, 1, 1, tzinfo=UTC)


def examples(number: int) -> settings:
    """So many examples of whole flows, which take long."""
    return settings(max_examples=number, deadline=None)


def at(seconds: float) -> datetime:
    """A moment so many seconds after the start."""
    return START + timedelta(seconds=seconds)


def order(
    user: str, seconds: float, n: int | None = 1, item: str | None = "tea", amount: float | None = 1.5
) -> dict[str, Any]:
    return {"user": user, "item": item, "amount": amount, "n": n, "at": at(seconds)}


ORDERS = st.lists(
    st.builds(
        order,
        st.sampled_from(["ada", "bob", "eve"]),
        st.one_of(st.integers(0, 60), st.integers(0, 6000).map(lambda hundredths: hundredths / 100)),
        st.one_of(st.none(), st.integers(-5, 5)),
        st.sampled_from(["tea", "rye", None]),
        st.sampled_from([0.1, 0.2, 2.5, -7.25, 1e6, None]),
    ),
    max_size=24,
)
