"""Rules of five shapes, and the payments, logins, prices and alarms of many users that they look at."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import polars as pl

from riverrun.flow.schema import Schema
from riverrun.kernels.rule_match import RuleMatchKernel
from riverrun.kernels.rulebook import Rulebook
from riverrun.rules.rule import RuleReader

STREAM = "user bigint, kind string, country string, amount double"
COLUMNS = {"user": pl.Int64(), "kind": pl.String(), "country": pl.String(), "amount": pl.Float64()}
RULES = {
    **dict.fromkeys(("rule_id", "pattern", "define", "within", "measures", "after"), pl.String()),
    "enabled": pl.Boolean(),
}
KINDS = ("payment", "login", "price", "alarm", "ack", "view")
SHARES = (0.3, 0.2, 0.2, 0.05, 0.05, 0.2)
COUNTRIES = tuple(f"c{number:02}" for number in range(50))
_HIDDEN = {"_weight": pl.Int8(), "_partition": pl.Int32()}
_SECOND = 1_000_000
ROWS_PER_SECOND = 5000


def kernel() -> RuleMatchKernel:
    """The kernel that runs them, by user."""
    return RuleMatchKernel(("user",), COLUMNS, Rulebook(RULES, RuleReader(Schema.parse(STREAM), 600 * _SECOND)))


def rule(number: int) -> dict[str, Any]:
    """Rule number so and so: five shapes in turn, each time with other countries and amounts."""
    country, nth = COUNTRIES[number % len(COUNTRIES)], number // 5
    low = 1 + nth % 40 / 10
    high = 400 + 7 * (nth % 100)
    shapes = [
        (
            "abroad -> large",
            {"abroad": f"kind = 'login' and country = '{country}'", "large": f"kind = 'payment' and amount > {high}"},
            {"country": "abroad.country", "amount": "large.amount"},
        ),
        (
            "small{2,} large",
            {
                "small": f"kind = 'payment' and country = '{country}' and amount < {low}",
                "large": f"kind = 'payment' and amount > {high}",
            },
            {"many": "count(small.*)", "amount": "large.amount"},
        ),
        (
            "alarm !ack",
            {"alarm": f"kind = 'alarm' and country = '{country}' and amount > {high / 2}", "ack": "kind = 'ack'"},
            {"amount": "alarm.amount"},
        ),
        (
            "start down+ up",
            {
                "start": f"country = '{country}' and amount > {high}",
                "down": "amount < prev(amount)",
                "up": f"amount > prev(amount) * {low}",
            },
            {"bottom": "last(down.amount)", "rows": "count(*)"},
        ),
        (
            "first -> more",
            {
                "first": f"kind = 'payment' and country = '{country}' and amount > {high / 2}",
                "more": f"kind = 'payment' and amount > {low} * first.amount and country <> first.country",
            },
            {"ratio": "more.amount / first.amount"},
        ),
    ]
    pattern, define, measures = shapes[number % 5]
    return {
        "rule_id": f"rule {number}",
        "pattern": pattern,
        "define": json.dumps(define),
        "within": "1 minute",
        "measures": json.dumps(measures),
        "after": None,
        "enabled": True,
    }


def changes(rules: list[dict[str, Any]]) -> pl.DataFrame:
    """Rules as changes of their table."""
    rows = [{**row, "_time": 0, "_weight": 1, "_partition": 0, "_offset": at} for at, row in enumerate(rules)]
    return pl.DataFrame(rows, schema={**RULES, "_time": pl.Int64(), **_HIDDEN, "_offset": pl.Int64()})


def events(epoch: int, rows: int, keys: int) -> pl.DataFrame:
    """The rows of an epoch; half of them are of a tenth of the users."""
    rng = np.random.default_rng(epoch)
    user = np.where(rng.random(rows) < 0.5, rng.integers(0, max(keys // 10, 1), rows), rng.integers(0, keys, rows))
    at = epoch * rows + np.arange(rows)
    return pl.DataFrame(
        {
            "user": user,
            "kind": rng.choice(KINDS, rows, p=SHARES),
            "country": rng.choice(COUNTRIES, rows),
            "amount": np.round(rng.lognormal(3.0, 1.5, rows), 2),
            "_time": at * (_SECOND // ROWS_PER_SECOND),
            "_weight": np.ones(rows, np.int8),
            "_partition": np.zeros(rows, np.int32),
            "_offset": at,
        }
    )
