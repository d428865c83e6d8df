"""A small shop for the dashboard: topics with producers that fall behind, and a flow that is really run, without Spark.

Planner, kernels and commits are the real ones; DuckDB stands in for Spark, as in `riverrun.testing`.
"""

from __future__ import annotations

import json
import os
import random
import threading
import time
from datetime import UTC, datetime, timedelta

import msgspec

import riverrun as rr
from riverrun.durations import wall_clock
from riverrun.flow import Flow
from riverrun.log.spec import TopicSpec
from riverrun.river import River
from riverrun.runtime.commit import Committer
from riverrun.runtime.compile.compiler import compile_flow
from riverrun.runtime.lag import measure_lag
from riverrun.runtime.outputs import declare_views, output_specs
from riverrun.runtime.plan import Limit, Plan
from riverrun.runtime.planner import Planner
from riverrun.runtime.status import AlertStatus, EpochTimes, FlowState, FlowStatus, TimeSplit
from riverrun.runtime.stored_status import read_status
from riverrun.runtime.task import Tasks
from riverrun.testing.local import LocalRun

ORDERS = "order_id string, user string, amount double, shop string, at timestamp"
CLICKS = "user string, page string, device string, at timestamp"
USERS = "user string, name string, city string"
NAMES = ("ada", "bob", "eve", "joe", "kim", "lea", "max", "ned", "ola", "pia")
CITIES = ("Berlin", "Lyon", "Oslo", "Porto", "Turin")
PAGES = ("/", "/shoes", "/hats", "/cart", "/help")


def shop_flow() -> Flow:
    """Windows, late rows aside, a join, a view, a derived topic and an alert."""
    flow = rr.Flow("shop")
    orders = flow.stream(
        "orders", ORDERS, time="at", key="user", lateness="5 seconds", producers="shop", idle="1 minute"
    )
    clicks = flow.stream("clicks", CLICKS, time="at", key="user", lateness="2 seconds")
    users = flow.table("users", USERS, key="user")
    paid = orders.where("amount > 0")
    revenue = paid.window(rr.tumbling("10 seconds"), by="shop", late=rr.side("orders.late")).agg(
        orders=rr.count(), revenue=rr.sum("amount")
    )
    known = orders.dedupe("order_id", within="10 minutes").join(users, on="user", how="left")
    by_city = known.group("city").agg(orders=rr.count(), revenue=rr.sum("amount"))
    pages = clicks.window(rr.hopping("20 seconds", "10 seconds"), by="page", late=rr.correct("20 seconds")).agg(
        clicks=rr.count(), people=rr.distinct("user")
    )
    flow.view("revenue", revenue)
    flow.view("cities", by_city)
    flow.view("pages", pages)
    flow.topic("gold-orders", orders.where("amount > 95"), key="user")
    flow.alert("large", orders.where("amount > 99"), to=["json://localhost/hook"], message="{user} spent {amount}")
    return flow


class ShopRun(LocalRun):
    """A run of a flow over the topics and the store of a river, in a thread."""

    def __init__(self, river: River, flow: Flow, every: float = 0.4) -> None:
        super().__init__(flow, [], None, shards=2, partitions=2, max_rows=100_000)
        self.flow = flow
        self.name = flow.name
        self._river = river
        self._clock = wall_clock  # type: ignore[assignment]
        self._home = f"{river.checkpoints}/{flow.name}"
        os.makedirs(f"{self._home}/state", exist_ok=True)
        self._inputs = {}
        for name, said in flow.topics().items():
            more = {"time": said.time, "producers": said.producers, "key": said.key}
            kept = {key: value for key, value in more.items() if value}
            self._inputs[name] = river.topic(TopicSpec(name, said.schema, partitions=2, fsync="os", **kept))
        self.state: FlowState = "running"
        self.reason: str | None = None
        self._epochs: list[EpochTimes] = []
        self._every = every
        self._stopping = threading.Event()
        self._working = threading.Lock()
        self._start()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def _start(self) -> None:
        flow, river = self.flow, self._river
        self._store = river.store
        self._job = compile_flow(flow, 2)
        self._tasks = Tasks(self._job)
        self._fence = self._store.take_fence(flow.name)
        declare_views(self._store, flow, self._job, self._fence)
        self._outputs = {}
        for spec in output_specs(flow, self._job, self._inputs, ""):
            self._outputs[spec.name] = river.topic(spec)
            self._outputs[spec.name].raise_fence(flow.name, self._fence)
        self._committer = Committer(flow, self._job, self._store, self._outputs, self._home, "", self._fence)
        read = {reading.topic: self._inputs[reading.topic] for reading in self._job.readings}
        self._planner = Planner(self._job, read, f"{self._home}/planner", Limit(self._max_rows), wall_clock)
        if not self._plans:
            self._plans.append(json.dumps(self._planner.first().to_json()))

    def __enter__(self) -> ShopRun:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        self._thread.join(20)

    def _run(self) -> None:
        while not self._stopping.wait(self._every):
            with self._working:
                if self.state == "running":
                    self._process()

    def _epoch(self, before: Plan, plan: Plan) -> None:
        begun = time.monotonic()
        super()._epoch(before, plan)
        took = time.monotonic() - begun
        rows = sum(entry["read"] for entry in self._computed.ledger if entry["input"] == "topic")
        times = TimeSplit(*(round(took * part * random.uniform(0.8, 1.2), 3) for part in (0.15, 0.1, 0.5, 0.25)))
        self._epochs.append(EpochTimes(plan.epoch, datetime.now(UTC), rows, times))
        del self._epochs[:-100]

    def epochs(self) -> list[EpochTimes]:
        return list(self._epochs)

    def observe(self) -> FlowStatus:
        lag = measure_lag(self._inputs, self._committer.last.positions)
        recent = self._epochs[-20:]
        stateful = [node.id for node in self.flow.nodes if node.stateful]
        return FlowStatus(
            **msgspec.structs.asdict(read_status(self.name, self._committer.last, lag, self._home)),
            state=self.state,
            reason=self.reason,
            rows_per_second=round(sum(one.rows or 0 for one in recent) / (self._every * max(len(recent), 1)), 1),
            times=recent[-1].times if recent else None,
            nodes={node: round(0.004 * (5 - number % 4), 3) for number, node in enumerate(stateful)},
            alerts=(self._told("large"),),
        )

    def _told(self, alert: str) -> AlertStatus:
        """As a run says of its alerts; nothing is sent from here."""
        topic = self._outputs[f"{self.name}.alerts.{alert}"]
        fired = sum(topic.ends().values())
        return AlertStatus(alert, sent=fired // 2, rows=fired, last_sent=datetime.now(UTC) if fired else None)

    def take_over(self) -> None:
        """What happens when another run of the same flow starts: the next fence."""
        with self._working:
            self._plans = self._plans[-2:]
            self._start()


class Customers:
    """They buy and click. One shop's clock is slow, and now and then a row comes very late."""

    def __init__(self, river: River, seed: int = 7) -> None:
        self._random = random.Random(seed)
        self._orders = river.topic("orders")
        self._clicks = river.topic("clicks")
        self._number = 0
        users = river.topic("users")
        users.append([{"user": name, "name": name.title(), "city": self._random.choice(CITIES)} for name in NAMES])

    def act(self, orders: int = 20, clicks: int = 40, now: datetime | None = None) -> None:
        """Some of each, now."""
        pick, at = self._random, now or datetime.now(UTC)
        made = []
        for _ in range(orders):
            shop = pick.choice(("Berlin", "Lyon", "Oslo", "Porto"))
            behind = pick.expovariate(1.2) + (6 if shop == "Oslo" else 0)
            if pick.random() < 0.02:
                behind += pick.uniform(15, 40)
            self._number += 1
            made.append(
                {
                    "order_id": f"o-{self._number if pick.random() > 0.02 else max(self._number - 3, 1)}",
                    "user": pick.choice(NAMES),
                    "amount": round(pick.uniform(-2, 100), 2),
                    "shop": shop,
                    "at": at - timedelta(seconds=behind),
                }
            )
        self._orders.append(made)
        self._clicks.append(
            [
                {
                    "user": pick.choice(NAMES),
                    "page": pick.choice(PAGES),
                    "device": pick.choice(("phone", "laptop")),
                    "at": at - timedelta(seconds=pick.expovariate(2)),
                }
                for _ in range(clicks)
            ]
        )
