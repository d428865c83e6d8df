"""A share of the keys: all of their rows, always the same keys, about as many as asked for."""

from __future__ import annotations

from typing import Any

import pytest

import riverrun as rr
from riverrun.errors import Invalid
from riverrun.testing import run_flow

ROWS = [{"user": f"user {n % 2000}", "n": n} for n in range(6000)]


def sampled(fraction: float, epochs: int = 1, shards: int = 1) -> list[dict[str, Any]]:
    flow = rr.Flow("f")
    flow.view("some", flow.stream("rows", "user string, n int").sample(fraction, by="user"))
    size = len(ROWS) // epochs
    script = [{"rows": ROWS[i : i + size]} for i in range(0, len(ROWS), size)]
    return run_flow(flow, script, shards=shards).views["some"]


@pytest.mark.parametrize("fraction", [0, 0.1, 0.5, 1])
def test_all_rows_of_a_share_of_the_keys(fraction: float) -> None:
    rows = sampled(fraction)
    users = {row["user"] for row in rows}
    assert abs(len(users) / 2000 - fraction) < 0.03
    assert len(rows) == 3 * len(users)
    assert sorted(row["n"] for row in sampled(fraction, epochs=3, shards=4)) == sorted(row["n"] for row in rows)


def test_a_larger_share_has_the_keys_of_a_smaller_one() -> None:
    small, large = ({row["user"] for row in sampled(fraction)} for fraction in (0.2, 0.4))
    assert small < large


@pytest.mark.parametrize("fraction", [-0.1, 1.5, True, "half"])
def test_what_is_no_share(fraction: Any) -> None:
    with pytest.raises(Invalid, match="a share lies between 0 and 1"):
        rr.Flow("f").stream("rows", "user string").sample(fraction, by="user")
