"""Rules that cannot be read, and what is said of them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from riverrun.errors import RiverrunError
from riverrun.flow.schema import Schema
from riverrun.rules.columns import RuleColumns
from riverrun.rules.faults import reason_of
from riverrun.rules.rule import RuleReader, WrittenRule

READER = RuleReader(Schema.parse("user string, kind string, amount double, n bigint, at timestamp"), 3_600_000_000)


def written(pattern: str | None = "a b", **more: Any) -> WrittenRule:
    texts = {name: json.dumps(value) if isinstance(value, dict) else value for name, value in more.items()}
    return WrittenRule("r", pattern, **texts)


@pytest.mark.parametrize(
    ("rule", "said"),
    [
        (WrittenRule(None, "a"), "rule_id is empty"),
        (written(None), "pattern is empty"),
        (written("a (b"), "this bracket is not closed\n    a (b\n      ^"),
        (written("a*"), "can match no row at all"),
        (written("a ^"), "a stream has no first and no last row"),
        (written("a -> b"), "-> needs within"),
        (written("a b+", define={"a": "n = 1"}), "a loop over b, which every row is, needs within"),
        (written("a !b"), "!b at the end needs within"),
        (written(within="soon"), "within: not a duration: 'soon'"),
        (written(within="2 hours"), "within is 2 h, and match_rules allows 1 h. Raise within= of s.match_rules"),
        (written(after="skip"), "after is 'skip'"),
        (written(after="skip to first a"), "is the row that the match began with"),
        (written(after="skip to last c"), "after: no row of a match is 'c'"),
        (written(define="[]"), "define is no JSON object of texts"),
        (written(define={"c": "n = 1"}), "define: the pattern has no variable 'c'"),
        (written(define={"b": "amont > 1"}), "there is no column 'amont' in 'amont > 1'. Did you mean 'amount'?"),
        (written(define={"b": "amount + 1"}), "is double, not boolean"),
        (written(define={"b": "next(n) > 1"}), "a stream has no next row yet"),
        (written(define={"b": "rand() > 0.5"}), "is not deterministic"),
        (written(define={"b": "xpath(kind, '/a') is not null"}), "cannot be used in a rule"),
        (written(measures={"x": "sum(kind)"}), "measure x: sum over the rows of a match adds up"),
        (written(measures={"x": "c.amount"}), "measure x: "),
    ],
)
def test_a_rule_that_cannot_be_read_says_why(rule: WrittenRule, said: str) -> None:
    with pytest.raises(RiverrunError) as refused:
        READER.read(rule, RuleColumns(READER.schema))
    assert said in reason_of(refused.value)


def test_conditions_are_shared() -> None:
    columns = RuleColumns(READER.schema)
    for number in range(10):
        define = {"a": "kind = 'payment'", "b": f"kind  =  'payment' and amount > {number % 2}"}
        READER.read(WrittenRule(f"r{number}", "a b", json.dumps(define)), columns)
    assert len(columns.truths) == 3
    assert len({one for asked in columns.asked.values() for one in asked.comparisons}) == 3


def test_where_a_rule_can_begin() -> None:
    def read(pattern: str, **define: str) -> tuple[Any, bool]:
        rule = READER.read(written(pattern, define=define, within="1 minute"), RuleColumns(READER.schema))
        return rule.starts, rule.needs_rows

    assert read("a b", a="n = 1") == (("_t0",), True)
    assert read("(a | b) c", a="n = 1", b="n = 2") == (("_t0", "_t1"), True)
    assert read("a b", b="n = 1") == (None, True)
    assert read("a b?", a="n = 1") == (("_t0",), False)
    assert read("a b !c", a="n = 1") == (("_t0",), False)
