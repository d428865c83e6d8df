"""The topic that has the rules of `s.match_rules`: what is in it, and what became of it."""

from __future__ import annotations

from typing import Any

from riverrun.flow.operators.rule_match import RULE_COLUMNS, RULE_ID
from riverrun.log.spec import TopicSpec
from riverrun.log.topic import Topic
from riverrun.river import River
from riverrun.runtime.quarantine import quarantine_topic

_DDL = ", ".join(f"{name} {kind}" for name, kind in RULE_COLUMNS.items())


def open_rules(river: River, name: str) -> Topic:
    """The topic of rules, made where there is none."""
    if name in river.topics():
        return river.topic(name)
    return river.topic(TopicSpec(name, _DDL, key=(RULE_ID,), compact=True))


def newest_rules(topic: Topic) -> dict[str, dict[str, Any]]:
    """The newest row of each rule; those that were deleted are not there."""
    found: dict[str, dict[str, Any]] = {}
    for row in topic.read().sort_by([("_partition", "ascending"), ("_offset", "ascending")]).to_pylist():
        if row.get("_deleted"):
            found.pop(row[RULE_ID], None)
        else:
            found[row[RULE_ID]] = row
    return found


def rule_errors(river: River, name: str, rules: dict[str, dict[str, Any]]) -> dict[str, str]:
    """Why rules are not in force: what was said of them since they were put."""
    aside = quarantine_topic(name)
    if aside not in river.topics():
        return {}
    errors: dict[str, str] = {}
    for row in river.topic(aside).read().to_pylist():
        rule = rules.get(row[RULE_ID])
        if rule is not None and row["_received"] >= rule["_received"]:
            errors[row[RULE_ID]] = row["_error"]
    return errors
