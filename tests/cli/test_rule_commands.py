"""`riverrun rules …` as people type it."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from conftest import Riverrun
from riverrun.river import River
from riverrun.runtime.rule_topic import newest_rules

RULE: dict[str, Any] = {
    "rule_id": "abroad",
    "pattern": "abroad -> large",
    "define": {"abroad": "country <> prev(country)", "large": "amount > 500"},
    "within": "5 minutes",
    "measures": {"amount": "large.amount"},
}


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "rules.json"
    path.write_text(json.dumps([RULE, {"rule_id": "pair", "pattern": "a b"}]))
    return str(path)


def test_rules_are_put_listed_and_switched_off(riverrun: Riverrun, file: str) -> None:
    assert riverrun("rules", "put", file).out == "put 2 rules into rules: abroad, pair\n"
    assert "abroad   on" in riverrun("rules", "list").out
    assert riverrun("rules", "off", "abroad").out == "switched off abroad\n"
    listed = json.loads(riverrun("rules", "list", "--json").out)
    assert [(one["rule_id"], one["state"]) for one in listed] == [("abroad", "off"), ("pair", "on")]
    with River("river") as river:
        row = newest_rules(river.topic("rules"))["abroad"]
    assert row["enabled"] is False and json.loads(row["define"]) == RULE["define"]


def test_a_file_with_a_mistake_puts_nothing(riverrun: Riverrun, file: str) -> None:
    riverrun("rules", "put", file)
    for text, said in (
        ('{"rule_id": "x", "pattern": "a ("}', "rule x: pattern: ends where a variable is expected"),
        ('{"rule_id": "x", "patern": "a b"}', "there is no 'patern' in a rule. Did you mean 'pattern'?"),
        ('{"rule_id": "x", "pattern": "a b", "define": {"c": "x = 1"}}', "the pattern has no variable 'c'"),
        ('{"rule_id": "x", "pattern": "a -> b"}', "-> needs within"),
        ('[{"rule_id": "x", "pattern": "a b"}, {"rule_id": "x", "pattern": "b a"}]', "rule 'x' is there twice"),
        ("pattern: a b", "not JSON"),
        ("[]", "there is no rule in the file"),
    ):
        Path(file).write_text(text)
        assert said in riverrun("rules", "put", file).error
    assert [one["rule_id"] for one in json.loads(riverrun("rules", "list", "--json").out)] == ["abroad", "pair"]
    assert "there is no rule 'nope'" in riverrun("rules", "off", "nope").error


def test_nothing_is_made_for_a_file_that_is_refused(riverrun: Riverrun, file: str) -> None:
    Path(file).write_text('{"rule_id": "x", "pattern": "a ("}')
    assert "rule x: pattern" in riverrun("rules", "put", file).error
    assert not Path("river").exists()
    with River("river") as river:
        river.topic("events", "k string")
    assert "rule x: pattern" in riverrun("rules", "put", file).error
    with River("river") as river:
        assert river.topics() == ["events"]


def test_a_topic_without_rules_is_named(orders: Riverrun, file: str) -> None:
    with River("river") as river:
        river.topic("orders").append({"id": 1, "user": "ada", "at": datetime.now(UTC)})
    for command in (("list",), ("off", "r1"), ("put", file)):
        said = orders("rules", *command, "--rules", "orders").error
        assert said.startswith(
            "topic orders has no rules: it has no column rule_id and no column pattern. Name the topic"
        )
        assert '"rule_id string, pattern string,' in said


def test_a_rule_is_tried_on_what_is_in_the_log(riverrun: Riverrun, file: str) -> None:
    Path(file).write_text(json.dumps(RULE))
    now = datetime.now(UTC)
    rows = [
        {"user": "ada", "country": country, "amount": amount, "at": now - timedelta(seconds=ago)}
        for country, amount, ago in (("de", 1.0, 30), ("fr", 1.0, 20), ("fr", 900.0, 10))
    ]
    with River("river") as river:
        river.topic("events", "user string, country string, amount double, at timestamp", time="at").append(rows)
    tried = riverrun("rules", "try", file, "--topic", "events", "--by", "user").out
    assert '{"amount":900.0}' in tried and "1 match in 3 rows of events" in tried
    found = json.loads(riverrun("rules", "try", file, "--topic", "events", "--by", "user", "--json").out)
    assert [one["user"] for one in found["matches"]] == ["ada"] and found["rows"] == 3
    assert "0 matches in 0 rows" in riverrun("rules", "try", file, "--topic", "events", "--last", "1 second").out
    assert "there is no column 'usr'" in riverrun("rules", "try", file, "--topic", "events", "--by", "usr").error
    with River("river") as river:
        assert river.topics() == ["events"]


def test_rules_of_a_topic_without_enabled_are_on_and_cannot_be_switched_off(riverrun: Riverrun, file: str) -> None:
    with River("river") as river:
        columns = "rule_id string, pattern string, define string, within string, measures string"
        river.topic("rules", columns, key="rule_id")
    assert riverrun("rules", "put", file).out == "put 2 rules into rules: abroad, pair\n"
    assert "pair     on" in riverrun("rules", "list").out
    refused = riverrun("rules", "off", "pair").error
    assert refused.startswith(
        "topic rules has no column 'enabled', so its rules are on, and cannot be switched off. Add"
    )
    assert 'river.topic("rules").delete("pair")' in refused
    Path(file).write_text(json.dumps({"rule_id": "later", "pattern": "a b", "enabled": False}))
    assert "has no column 'enabled'" in riverrun("rules", "put", file).error
    Path(file).write_text(json.dumps({"rule_id": "later", "pattern": "a b", "after": "skip to next"}))
    assert "topic rules has no column after. Add it to the end" in riverrun("rules", "put", file).error
    assert len(riverrun("rules", "list", "--json").json) == 2
    # as it is advised
    made = riverrun("topic", "create", "rules", "--schema", f"{columns}, enabled boolean", "--key", "rule_id")
    assert made.code == 0, made
    assert riverrun("rules", "off", "pair").out == "switched off pair\n"


def test_a_flow_that_leaves_enabled_out_is_refused(riverrun: Riverrun, file: str) -> None:
    """Or else rules would be on for it that were switched off."""
    riverrun("rules", "put", file)
    Path("fraud.py").write_text(
        "import riverrun as rr\n"
        'flow = rr.Flow("fraud")\n'
        'rules = flow.table("rules", "rule_id string, pattern string, define string, within string", key="rule_id")\n'
        'events = flow.stream("events", "user string, country string, amount double, at timestamp", time="at")\n'
        'flow.view("hits", events.match_rules(rules, by="user"))\n'
    )
    said = (
        "fraud.py:3: rules in topic rules have measures, after, enabled, which the flow leaves out: they would not do what"
        " they say. Add to the schema of the table: measures string, after string, enabled boolean"
    )
    assert riverrun("plan", "fraud.py", "--json").json["reason"] == said
    assert riverrun("run", "fraud.py", "--once").error == said
