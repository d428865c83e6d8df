"""The page of captures, and their metrics: what the registry says, whoever captures."""

from __future__ import annotations

import pytest

from riverrun.capture.status import CaptureStatus, TableStatus
from riverrun.log.captures import Captures


@pytest.fixture
def captures(river):
    return Captures(river._coordination)


def status(**changed):
    tables = {
        "public.orders": TableStatus("shop.public.orders", "snapshot", None, 5_000, 20_000, 5_000, 120.0),
        "public.<old>": TableStatus("", "stopped", "it has no primary key. Give it one", 0, None, 0, 0.0),
    }
    made = CaptureStatus("shop", "postgresql://ada@db/shop", "snapshot", None, "0/16B3748", 4096, 2.5, 20 << 30, tables)
    return {**made.plain(), **changed}


def test_without_captures_the_page_says_how_to_begin(http):
    assert "riverrun capture postgresql://" in http.get("/ui/captures").text


def test_what_a_capture_tells_is_there_for_everybody(http, river, captures):
    fence = captures.register("shop", "postgresql://ada@db/shop")
    assert captures.report("shop", fence, status())
    page = http.get("/ui/captures").text
    metrics = http.get("/metrics").text
    for text in ("0/16B3748", "of about", "public.orders", "it has no primary key. Give it one", "keeps its log"):
        assert text in page
    assert "<old>" not in page
    assert 'riverrun_capture_lag_bytes{capture="shop"} 4096.0' in metrics
    assert 'riverrun_capture_table_stopped{capture="shop",table="public.<old>"} 1.0' in metrics
    (one,) = river.captures()
    assert (one["name"], one["state"], one["lag_seconds"]) == ("shop", "snapshot", 2.5)


def test_who_was_taken_over_reports_nothing(river, captures):
    older = captures.register("shop", "x")
    newer = captures.register("shop", "x")
    assert newer == older + 1
    assert not captures.report("shop", older, status())
    assert river.captures()[0]["state"] == "starting"
    captures.forget("shop")
    assert river.captures() == []


def test_one_that_is_silent_for_long_is_gone(river, captures, monkeypatch):
    fence = captures.register("shop", "x")
    captures.report("shop", fence, status())
    now = river._coordination.now()
    monkeypatch.setattr(river._coordination, "now", lambda: now + 60_000_000)
    assert river.captures()[0]["state"] == "gone"
    monkeypatch.undo()
    captures.report("shop", fence, status(state="stopped"), alive=False)
    monkeypatch.setattr(river._coordination, "now", lambda: now + 60_000_000)
    assert river.captures()[0]["state"] == "stopped"
