"""The topic that has the rules of `s.match_rules`: what is in it, and what became of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from riverrun.errors import Invalid, NotFound, did_you_mean
from riverrun.flow.operators.rule_match import RULE_COLUMNS, RULE_ID
from riverrun.log.spec import TopicSpec
from riverrun.log.topic import Topic
from riverrun.position import Position
from riverrun.river import River
from riverrun.runtime.quarantine import quarantine_topic

_DDL = ", ".join(f"{name} {kind}" for name, kind in RULE_COLUMNS.items())


def open_rules(river: River, name: str) -> Topic:
    """The topic of rules, made where there is none."""
    if name in river.topics():
        topic = river.topic(name)
        _check_rules(topic)
        return topic
    return river.topic(TopicSpec(name, _DDL, key=(RULE_ID,), compact=True))


def rule_columns(river: River, name: str) -> tuple[str, ...]:
    """The columns of the topic of rules, as far as there is one."""
    return tuple(open_rules(river, name).schema.names) if name in river.topics() else ()


def put_rules(topic: Topic, rows: Sequence[Mapping[str, Any]]) -> Position:
    """Add rules, or put them in the place of those of the same name. What a topic has no column for is left out where it
    says nothing: a rule is on where no column says otherwise."""
    there = topic.schema.names
    for row in rows:
        lacking = [name for name, value in row.items() if name not in there and value not in (None, True)]
        if "enabled" in lacking:
            raise Invalid(
                f"topic {topic.name} has no column 'enabled', so its rules are on, and cannot be switched off",
                hint=f'Add "enabled boolean" to the end of the schema, of flow.table("{topic.name}", …) and of the topic'
                f" (riverrun topic create {topic.name} --schema …); or delete the rule:"
                f' river.topic("{topic.name}").delete("{row[RULE_ID]}")',
            )
        if lacking:
            hint = f"Add it to the end of the topic's schema: riverrun topic create {topic.name} --schema …"
            raise Invalid(f"topic {topic.name} has no column {', '.join(lacking)}", hint=hint)
    return topic.append([{name: value for name, value in row.items() if name in there} for row in rows])


def switch_rules(topic: Topic, names: Sequence[str], on: bool) -> Position:
    """Switch rules on or off, as they are. What those had begun that are switched off is forgotten."""
    known = newest_rules(topic)
    for name in names:
        if name not in known:
            raise NotFound(f"there is no rule {name!r} in {topic.name}", hint=did_you_mean(name, list(known)))
    own = [{column: value for column, value in known[name].items() if not column.startswith("_")} for name in names]
    return put_rules(topic, [{**row, "enabled": on} for row in own])


def newest_rules(topic: Topic) -> dict[str, dict[str, Any]]:
    """The newest row of each rule; those that were deleted are not there."""
    _check_rules(topic)
    found: dict[str, dict[str, Any]] = {}
    for row in topic.read().sort_by([("_partition", "ascending"), ("_offset", "ascending")]).to_pylist():
        if row.get("_deleted"):
            found.pop(row[RULE_ID], None)
        else:
            found[row[RULE_ID]] = row
    return found


def _check_rules(topic: Topic) -> None:
    if lacking := [name for name in (RULE_ID, "pattern") if name not in topic.schema.names]:
        raise Invalid(
            f"topic {topic.name} has no rules: it has no column {' and no column '.join(lacking)}",
            hint=f'Name the topic of the rules with --rules; its schema is "{_DDL}", its key {RULE_ID}',
        )


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
