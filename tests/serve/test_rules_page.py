"""Rules on their page: what each looks for, switching them, and trying one on what is in the log."""

from __future__ import annotations

import html
import json
from datetime import UTC, datetime

import httpx
import pytest

from riverrun.river import River
from riverrun.runtime.rule_topic import newest_rules, open_rules
from serve.conftest import order
from serve.test_pages import look

RULE = {
    "rule_id": "growing",
    "pattern": "small -> large",
    "define": {"small": "amount < 10", "large": "amount > small.amount * 5"},
    "within": "1 hour",
    "measures": {"times": "large.amount / small.amount"},
}


@pytest.fixture
def rules(river: River) -> River:
    own = {**RULE, "define": json.dumps(RULE["define"]), "measures": json.dumps(RULE["measures"])}
    open_rules(river, "rules").append([{**own, "enabled": True}])
    return river


def test_no_rules(http: httpx.Client) -> None:
    page = look(http, "/ui/rules")
    assert "No topic has rules yet" in page.text and "riverrun rules put FILE" in page.text


def test_a_rule_is_listed_and_switched_off_and_on(http: httpx.Client, rules: River) -> None:
    assert "growing ▲ not yet taken in small -> large 1 hour" in look(http, "/ui/rules").text
    changed = http.post("/ui/rules", data={"rules": "rules", "id": "growing", "do": "off"})
    assert changed.status_code == 303
    assert newest_rules(rules.topic("rules"))["growing"]["enabled"] is False
    assert "growing ▲ off small -> large" in look(http, "/ui/rules").text
    http.post("/ui/rules", data={"rules": "rules", "id": "growing", "do": "on"})
    assert newest_rules(rules.topic("rules"))["growing"]["enabled"] is True


def test_what_cannot_be_done_is_refused(http: httpx.Client, rules: River) -> None:
    assert http.post("/ui/rules", data={"id": "growing", "do": "paint"}).status_code == 404
    assert http.post("/ui/rules", data={"id": "nobody", "do": "off"}).status_code == 404
    refused = http.post("/ui/rules", data={"do": "put", "rule": '{"rule_id": "x", "pattern": "a ("}'})
    assert refused.status_code == 400 and "ends where a variable is expected" in refused.text
    assert list(newest_rules(rules.topic("rules"))) == ["growing"]


def test_a_rule_is_tried_on_the_log_and_nothing_is_written(http: httpx.Client, rules: River) -> None:
    now = datetime.now(UTC).isoformat()
    amounts = [("ada", 2), ("bob", 3), ("ada", 50), ("bob", 4)]
    rules.topic("orders").append([order(user, amount, now) for user, amount in amounts])
    before = rules.topic("rules").ends()
    form = {"rule": json.dumps(RULE), "topic": "orders", "by": "user", "last": "1 hour", "do": "try"}
    tried = http.post("/ui/rules", data=form)
    assert tried.status_code == 200
    assert "Matches: 1, in 4 rows" in tried.text and "25.0" in tried.text
    assert rules.topic("rules").ends() == before
    wrong = {**form, "rule": json.dumps({**RULE, "define": {"small": "amont < 10"}})}
    assert "there is no column" in http.post("/ui/rules", data=wrong).text
    assert "there is no column &#39;usr&#39;" in http.post("/ui/rules", data={**form, "by": "usr"}).text.replace(
        "&#x27;", "&#39;"
    )


def test_a_rule_is_put(http: httpx.Client, rules: River) -> None:
    put = http.post("/ui/rules", data={"do": "put", "rules": "rules", "rule": json.dumps({**RULE, "rule_id": "two"})})
    assert put.status_code == 303
    assert sorted(newest_rules(rules.topic("rules"))) == ["growing", "two"]


def test_what_a_topic_has_no_column_for_is_not_dropped_in_silence(http: httpx.Client, river: River) -> None:
    topic = river.topic("rules", "rule_id string, pattern string", key="rule_id")
    topic.append({"rule_id": "pair", "pattern": "a b"})
    off = http.post("/ui/rules", data={"rules": "rules", "id": "pair", "do": "off"})
    assert off.status_code == 400 and "has no column 'enabled', so its rules are on" in html.unescape(off.text)
    put = http.post("/ui/rules", data={"do": "put", "rule": '{"rule_id": "x", "pattern": "a b", "within": "1 hour"}'})
    assert put.status_code == 400 and "has no column within" in put.text
    assert http.post("/ui/rules", data={"rules": "rules", "id": "pair", "do": "on"}).status_code == 303
