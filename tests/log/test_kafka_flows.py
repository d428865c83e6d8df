"""Flows whose log is Kafka, on Spark: what others write is counted, results are there for others, nothing is lost."""

from __future__ import annotations

import builtins
import json
import shutil
import subprocess
import uuid
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import riverrun as rr
from kafka_server import shared_kafka
from riverrun.flow import Flow
from riverrun.flow.aggregates import count, sum
from riverrun.flow.windows import tumbling
from riverrun.river import River
from waiting import until

pytestmark = pytest.mark.spark

AT = datetime(2026, 1, 31, 12, tzinfo=UTC)
SCHEMA = "user string, n bigint, at timestamp"


@pytest.fixture
def prefix() -> str:
    return f"flows-{uuid.uuid4().hex[:8]}."


@pytest.fixture
def river(prefix: str, tmp_path: Path, spark_session: Any) -> Iterator[River]:
    with River(tmp_path / "river", log=f"{shared_kafka().url}?prefix={prefix}") as opened:
        yield opened


def produce(topic: str, *lines: str) -> None:
    """As anybody would, with Kafka's own means."""
    command = ["kcat", "-P", "-b", shared_kafka().brokers, "-t", topic, "-K", "|"]
    subprocess.run(command, input="\n".join(lines) + "\n", text=True, check=True, timeout=60)


def consume(topic: str) -> list[dict[str, Any]]:
    command = [
        "kcat",
        "-C",
        "-b",
        shared_kafka().brokers,
        "-t",
        topic,
        "-e",
        "-q",
        "-X",
        "isolation.level=read_committed",
    ]
    found = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    return [json.loads(line) for line in found.stdout.splitlines()]


def row(user: str, n: int, seconds: float = 0) -> dict[str, Any]:
    return {"user": user, "n": n, "at": AT + timedelta(seconds=seconds)}


def counting(format: str = "json") -> Flow:
    flow = Flow("counting")
    spec = rr.TopicSpec("orders", SCHEMA, key="user", time="at", partitions=3, format=format)
    orders = flow.stream(spec)
    flow.view("totals", orders.group("user").agg(rows=count(), total=sum("n")))
    flow.view("minutes", orders.window(tumbling("1 minute")).agg(rows=count()))
    flow.topic("large", orders.where("n > 10").select("user", "n"), key="user")
    flow.topic("sums", orders.group("user").agg(total=sum("n")), key="user")
    return flow


def totals(river: River) -> dict[str, tuple[int, int]]:
    return {one["user"]: (one["rows"], one["total"]) for one in river.view("totals").rows()}


@pytest.mark.skipif(shutil.which("kcat") is None, reason="there is no kcat")
def test_what_kcat_produces_is_counted_and_what_a_flow_derives_kcat_reads(river: River, prefix: str) -> None:
    with river.run(counting()) as run:
        lines = [f"u{i % 3}|{json.dumps({'user': f'u{i % 3}', 'n': i, 'at': AT.isoformat()})}" for i in range(30)]
        produce(f"{prefix}orders", *lines, "u1|no JSON at all")
        run.process("60 s")
        assert totals(river) == {f"u{k}": (10, builtins.sum(range(k, 30, 3))) for k in range(3)}
        (bad,) = river.topic("orders.quarantine").read().to_pylist()
        assert (bad["_message"], bad["_message_key"]) == (b"no JSON at all", b"u1")
        assert "JSON" in bad["_error"] and bad["_position"].startswith("orders@")
        (counted,) = (entry for entry in run.ledger() if entry["input"] == "topic")
        assert (counted["read"], counted["quarantined"]) == (31, 1)
    assert sorted(one["n"] for one in consume(f"{prefix}large")) == list(range(11, 30))
    newest = {one["user"]: one["total"] for one in consume(f"{prefix}sums")}
    assert newest == {f"u{k}": builtins.sum(range(k, 30, 3)) for k in range(3)}


@pytest.mark.parametrize("format", ["json", "avro", "arrow"])
def test_it_goes_on_where_it_stopped_in_every_format(river: River, format: str) -> None:
    flow = counting(format)
    with river.run(flow) as run:
        position = river.topic("orders").append([row("ada", 1), row("bob", 2)])
        assert len(river.view("totals").rows(at_least=position, timeout="60 s")) == 2
        run.process("60 s")
    river.topic("orders").append([row("ada", 30, 90)])
    with river.run(flow) as run:
        run.process("60 s")
        assert totals(river) == {"ada": (2, 31), "bob": (1, 2)}
        run.drain("60 s")
    assert [one["rows"] for one in river.view("minutes").rows()] == [2, 1]
    assert river.topic("large").read().select(["user", "n"]).to_pylist() == [{"user": "ada", "n": 30}]


def test_windows_close_with_what_was_heard(river: River) -> None:
    with river.run(counting()) as run:
        orders = river.topic("orders")
        for user in ("ada", "bob", "eve", "joe", "sue", "tom"):  # in every partition
            orders.append([row(user, 1, 10)])
        orders.append([row(user, 1, 100) for user in ("ada", "bob", "eve", "joe", "sue", "tom")])
        run.process("60 s")
        minutes = river.view("minutes")
        until(minutes.rows)
        assert [one["rows"] for one in minutes.rows()] == [6]
        assert run.observe().sources[0].watermark == AT + timedelta(seconds=100)


def test_a_backlog_is_read_in_epochs(river: River, tmp_path: Path) -> None:
    from riverrun.spark.run import Run

    topic = river.topic("orders", SCHEMA, key="user", time="at", partitions=3)
    for part in range(10):
        topic.append([row(f"u{i % 7}", 1, part * 10 + i / 100) for i in range(500)])
    run = Run(river, counting(), max_rows=1000)
    with run:
        run.process("120 s")
        assert builtins.sum(rows for rows, _ in totals(river).values()) == 5000
        assert run.observe().epoch >= 5
