"""Topics on Kafka, views in PostgreSQL, tasks on a cluster of two workers and checkpoints in a directory that all of them see:
the views are those of a run with everything in one directory, on one machine."""

from __future__ import annotations

import json
import shutil
import tempfile
import time
import uuid
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pytest
from bench.nexmark.answers import WEIGHT, batch, verify
from bench.nexmark.events import AUCTION, BID, PERSON, AuctionHouse
from bench.nexmark.queries import QUERIES

from kafka_server import KafkaServer, new_kafka
from postgres_server import Server
from recovery.conftest import Flowing
from riverrun.demo.shop.events import SECOND, Shop
from riverrun.demo.shop.shop_flow import TOPICS
from riverrun.log.spec import TopicSpec
from riverrun.river import River
from spark_cluster import SparkCluster

pytestmark = [
    pytest.mark.spark,
    pytest.mark.recovery,
    pytest.mark.timeout(600),
    pytest.mark.xdist_group("everything apart"),  # the servers are started once
]

ROOT = Path(__file__).parents[2]
HOUSE = AuctionHouse(rate=1000)
EVENTS, AT_ONCE = 20_000, 500
SECONDS, RATE = 60, 100  # of the demo
TABLES = ("profiles", "saved")  # looked up as they are now: all of them are there before anything else
Rows = Mapping[str, pa.Table]


@dataclass
class Place:
    """A river, and where the parts of it are."""

    path: Path
    environment: Mapping[str, str]
    log: str | None = None
    views: str | None = None

    def river(self) -> River:
        return River(self.path, log=self.log, views=self.views)

    def append(self, rows: Rows) -> None:
        with self.river() as river:
            for name, table in rows.items():
                river.topic(name).append(table)

    def start(self, flow: str, max_rows: int) -> Flowing:
        options = ["--max-rows", max_rows, *(["--views", self.views] if self.views else [])]
        run = self.path.parent / f"{self.path.name}-run"
        return Flowing("run_declared.py", run, self.path, flow, *options, environment=self.environment)


@dataclass
class Servers:
    """What everything apart needs."""

    kafka: KafkaServer
    postgres: Server
    cluster: SparkCluster


@pytest.fixture(scope="module")
def servers() -> Iterator[Servers]:
    kafka = new_kafka()
    postgres = Server(Path(tempfile.mkdtemp(prefix="rr-pg-")))
    cluster = SparkCluster()
    yield Servers(kafka, postgres, cluster)
    cluster.stop()
    postgres.remove()
    kafka.remove()


@pytest.fixture
def places(servers: Servers, tmp_path: Path, cache: Path | None) -> Iterator[tuple[Place, Place]]:
    """Everything in one directory, and everything apart."""
    paths = {"PYTHONPATH": f"{ROOT}/src:{ROOT}"}
    if cache is not None:
        paths["XDG_CACHE_HOME"] = str(cache)
    log = f"{servers.kafka.url}?prefix=apart-{uuid.uuid4().hex[:8]}."
    checkpoints = tmp_path / "checkpoints"
    environment = {
        **paths,
        **servers.cluster.environment,
        "RIVERRUN_LOG": log,
        "RIVERRUN_CHECKPOINTS": str(checkpoints),
    }
    yield Place(tmp_path / "here", paths), Place(tmp_path / "there", environment, log, servers.postgres.url)
    shutil.rmtree(tmp_path, ignore_errors=True)


def run_to_the_end(
    places: tuple[Place, Place], flow: str, topics: tuple[TopicSpec, ...], first: Rows, then: list[Rows], max_rows: int
) -> list[list[dict[str, object]]]:
    """The same rows into both, some before the flow begins, and the ledgers of both."""
    runs, ledgers = [], []
    try:
        for place in places:
            with place.river() as river:
                for spec in topics:
                    river.topic(spec)
            place.append(first)
            runs.append(place.start(flow, max_rows))
            runs[-1].says("processed")
            for rows in then:
                place.append(rows)
            runs[-1].finish()
            assert runs[-1].ends() == 0, runs[-1].errors
            ledgers.append(json.loads(runs[-1].says("drained").split(maxsplit=1)[1]))
    finally:
        for run in runs:
            run.kill_all()
    return ledgers


def same(name: str, found: pa.Table, expected: pa.Table) -> int:
    """How many rows both have."""
    assert found.schema.equals(expected.schema)
    return verify(name, [found.append_column(WEIGHT, pa.array([1] * found.num_rows))], expected)


@pytest.mark.parametrize("query", ["q4", "q5", "q7", "q18"])
def test_queries_of_nexmark(places: tuple[Place, Place], query: str) -> None:
    parts = [HOUSE.events(at, at + AT_ONCE) for at in range(0, EVENTS, AT_ONCE)]
    topics = (PERSON, AUCTION, BID)
    ledgers = run_to_the_end(places, query, topics, {}, parts, max_rows=4_000)
    with places[0].river() as here, places[1].river() as there:
        views = [river.view(query).arrow() for river in (here, there)]
    whole = {spec.name: pa.concat_tables([part[spec.name] for part in parts]) for spec in topics}
    expected = batch(whole, 1).sql(QUERIES[query].sql).to_arrow_table()
    assert same(query, views[1], views[0]) > 0
    for view in views:
        assert verify(query, [view.append_column(WEIGHT, pa.array([1] * view.num_rows))], expected) > 0
    for ledger in ledgers:
        assert sum(entry["late_dropped"] for entry in ledger) == 0


def test_the_demos_flow(places: tuple[Place, Place]) -> None:
    begin = int(time.time() - 3600) // 60 * 60 * SECOND
    shop = Shop(begin, rate=RATE)
    first = shop.until(begin + SECOND)
    parts = [shop.until(begin + second * SECOND) for second in range(2, SECONDS)]
    later = [{name: rows for name, rows in part.items() if name not in TABLES} for part in parts]
    ledgers = run_to_the_end(places, "demo", TOPICS, first, later, max_rows=1_500)
    with places[0].river() as here, places[1].river() as there:
        for name in ("events", "traffic", "queries", "bots", "wanted", "bestsellers"):
            assert same(name, there.view(name).arrow(), here.view(name).arrow()) > 0, name
        unclicked = [river.topic("searches-without-click").read() for river in (here, there)]
        names = unclicked[0].column_names[: unclicked[0].schema.get_field_index("_partition")]
        assert same("searches without a click", *(rows.select(names) for rows in unclicked[::-1])) > 0
        assert readings(here) == readings(there)
    inputs = [
        {entry["node"]: (entry["read"], entry["quarantined"]) for entry in ledger if entry["input"] == "topic"}
        for ledger in ledgers
    ]
    assert inputs[0] == inputs[1]


def readings(river: River) -> dict[str, tuple[int, float]]:
    """Of each device, how many there are in all windows or were too late for theirs, and the highest. In which window one is
    depends on when it was received, since that is how wrong clocks are known."""
    found: dict[str, list[tuple[int, float]]] = defaultdict(list)
    for row in river.view("climate").rows():
        found[row["device"]].append((row["readings"], row["highest"]))
    for row in river.topic("late-readings").read().to_pylist():
        found[row["device"]].append((1, row["celsius"]))
    return {device: (sum(n for n, _ in rows), max(high for _, high in rows)) for device, rows in found.items()}
