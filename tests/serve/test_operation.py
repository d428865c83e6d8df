"""Metrics, flows, health: what operators and Prometheus see."""

from __future__ import annotations

import os
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest
from prometheus_client.parser import text_string_to_metric_families

from riverrun.errors import Transient
from riverrun.river import River
from riverrun.runtime.ledger import LedgerEntry
from riverrun.runtime.status import Lag, SourceStatus, StateSize
from riverrun.serve.server import Background
from serve.conftest import CommittedFlow, order
from serve.telling_run import TellingRun

WINDOW = LedgerEntry("window-1", "in", read=30, accepted=27, late_dropped=3)
LEDGER = (LedgerEntry("orders", "topic", read=30, accepted=30), WINDOW)
STORED = msgspec.to_builtins(list(LEDGER))


class BusyRun(TellingRun):
    """At epoch 7, and a little behind."""

    def __init__(self, **said: Any) -> None:
        watermark = datetime(2026, 1, 1, 0, 0, 1, tzinfo=UTC)
        usual = {
            "epoch": 7,
            "lag": Lag(5, 1.5, {"orders": 5}),
            "sources": (SourceStatus("orders", "orders", watermark, behind=2.5), SourceStatus("users", "users")),
            "state_size": StateSize(100, 1),
            "rows_per_second": 12.5,
            "ledger": LEDGER,
        }
        super().__init__(**{**usual, **said})


def samples(http: httpx.Client) -> dict[tuple[str, ...], float]:
    """Value by name and labels, those in the order of their names."""
    answer = http.get("/metrics")
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("text/plain")
    return {
        (sample.name, *sample.labels.values()): sample.value
        for family in text_string_to_metric_families(answer.text)
        for sample in family.samples
    }


def test_metrics_of_a_river(http: httpx.Client, river: River, totals: CommittedFlow) -> None:
    http.post("/topics/orders", json=[order("a"), order("b"), order("c")])
    http.request("BREW", "/topics")
    for _ in river.topic("orders").consumer("billing", timeout=0.1):
        break
    totals.commit(("a", 1, 1.0, 1), offset=1, ledger=STORED)
    found = samples(http)
    assert found["riverrun_topic_rows", "orders"] == 3
    assert found["riverrun_topic_appended_rows_total", "orders"] == 3
    assert found["riverrun_rows_total", "shop", "in", "late_dropped", "window-1"] == 3
    assert found["riverrun_rows_total", "shop", "topic", "read", "orders"] == 30
    assert found["riverrun_lag_rows", "consumer", "billing", "orders"] == 3
    assert found["riverrun_lag_rows", "flow", "shop", "orders"] == 2
    assert found["riverrun_lag_seconds", "consumer", "billing"] > 0
    assert found["riverrun_epochs_total", "shop"] == 1
    assert found["riverrun_view_rows", "totals"] == 1
    assert found["riverrun_http_appended_rows_total", "orders"] == 3
    assert found["riverrun_http_requests_total", "POST", "/topics/{topic}", "202"] == 1
    assert found["riverrun_http_append_seconds_count",] == 1
    assert found["riverrun_http_requests_total", "other", "/topics", "405"] == 1
    assert found["riverrun_http_held_bytes",] == found["riverrun_scrape_errors",] == 0


def test_metrics_of_a_run(serve: Callable[..., Background]) -> None:
    with httpx.Client(base_url=serve(BusyRun()).url) as http:
        found = samples(http)
    assert found["riverrun_flow_running", "shop"] == 1
    assert found["riverrun_watermark_seconds", "shop", "orders"] == 1767225601
    assert found["riverrun_watermark_behind_seconds", "shop", "orders"] == 2.5
    assert found["riverrun_lag_seconds", "flow", "shop"] == 1.5
    assert found["riverrun_state_bytes", "shop"] == 100
    assert found["riverrun_flow_rows_per_second", "shop"] == 12.5
    assert ("riverrun_watermark_seconds", "shop", "users") not in found  # it has none yet


def test_a_part_that_cannot_be_read_does_not_take_the_rest_with_it(
    http: httpx.Client, totals: CommittedFlow, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(*_: object) -> None:
        raise Transient("the store is away")

    monkeypatch.setattr(type(totals.river.store), "views", away)
    found = samples(http)
    assert found["riverrun_scrape_errors",] == 1
    assert found["riverrun_topic_rows", "orders"] == 0
    assert http.get("/readyz").status_code == http.get("/views").status_code == 503


def test_flows_of_other_processes(http: httpx.Client, totals: CommittedFlow) -> None:
    http.post("/topics/orders", json=[order("a"), order("b")])
    totals.commit(("a", 1, 1.0, 1), offset=1, ledger=STORED)
    [flow] = http.get("/flows").json()
    assert (flow["flow"], flow["here"], flow["state"], flow["epoch"]) == ("shop", False, None, 1)
    assert flow["positions"] == "orders@0:1"
    assert flow["ledger"] == STORED
    assert str(os.getpid()) in flow["run"]
    assert not {"rows_per_second", "times", "alerts"} & set(flow)  # only its own process knows


def test_flows_of_this_process(serve: Callable[..., Background], totals: CommittedFlow) -> None:
    totals.commit(("a", 1, 1.0, 1))
    CommittedFlow(totals.river, totals.spec.__class__("other", "audit", "n bigint", ()))
    found = httpx.get(serve(BusyRun()).url + "/flows").json()
    assert [(flow["flow"], flow["here"], flow["epoch"]) for flow in found] == [("audit", False, 0), ("shop", True, 7)]
    assert found[1]["ledger"] == STORED


def test_a_run_that_cannot_answer_is_shown_as_such(serve: Callable[..., Background]) -> None:
    run = BusyRun()
    run.fails = Transient("the store is away")
    url = serve(run).url
    [flow] = httpx.get(url + "/flows").json()
    assert flow == {"flow": "shop", "here": True, "state": "unknown", "reason": "the store is away", "ledger": []}
    with httpx.Client(base_url=url) as http:
        found = samples(http)
    assert found["riverrun_flow_running", "shop"] == 0
    assert ("riverrun_epochs_total", "shop") not in found  # a zero would be a lie


def test_health(http: httpx.Client, serve: Callable[..., Background]) -> None:
    assert http.get("/healthz").json() == http.get("/readyz").json() == {"status": "ok"}
    url = serve(BusyRun(state="failed")).url
    answer = httpx.get(url + "/readyz")
    assert (answer.status_code, answer.json()["error"]) == (503, "flow shop has failed")
    assert httpx.get(url + "/healthz").status_code == 200


def test_topics_and_their_groups(http: httpx.Client, river: River) -> None:
    http.post("/topics/orders", json=[order("a"), order("b")])
    for _ in river.topic("orders").consumer("billing", timeout=0.1):
        break
    [one] = http.get("/topics").json()
    assert (one["name"], one["offsets"], one["key"]) == ("orders", 2, ["user"])
    described = http.get("/topics/orders").json()
    [group] = described["groups"]
    assert (group["group"], group["kind"], group["rows"]) == ("billing", "consumer", 2)
    assert described["position"] == str(river.topic("orders").latest)
    assert http.get("/topics/ordrs").json()["hint"] == "Did you mean 'orders'?"


def test_a_topic_that_is_damaged_does_not_hide_the_others(http: httpx.Client, river: River) -> None:
    river.topic("bad", "a string").close()
    (Path(river.path) / "topics" / "bad" / "schema" / "1").write_text('`a"b` string')
    found = {one["name"]: one for one in http.get("/topics").json()}
    assert "not a name for a column" in found["bad"]["error"]
    assert found["orders"]["offsets"] == 0
    river.drop_topic("bad")
    assert river.topics() == ["orders"]


def test_a_river_that_is_moved_away_is_missed(http: httpx.Client, totals: CommittedFlow, river: River) -> None:
    """What a server has open of it would go on answering."""
    totals.commit(("ada", 1, 1.0, 1))
    asked = ("/readyz", "/views/totals", "/views/totals/ada", "/views")
    assert [http.get(path).status_code for path in asked] == [200] * 4
    os.rename(river.path, f"{river.path}.away")
    for path in asked:
        answer = http.get(path)
        assert answer.status_code == 503, path
        assert "is not there any more" in answer.json()["error"]
    os.rename(f"{river.path}.away", river.path)
    assert [http.get(path).status_code for path in asked] == [200] * 4
