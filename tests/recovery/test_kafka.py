"""A flow on Kafka killed anywhere, and brokers that are stopped, killed and away: every row counts once."""

from __future__ import annotations

import json
import random
import signal
import subprocess
import threading
import time

import pytest

from recovery.conftest import KafkaShop
from riverrun.errors import RiverrunError, Transient

pytestmark = [pytest.mark.spark, pytest.mark.recovery]

STEPS = ["plan.done", "host.stepped", "commit.begin", "commit.topics", "commit.aside", "views.applied", "commit.store"]
IN_OTHERS = ("plan.", "host.")


@pytest.mark.timeout(1800)
def test_killed_at_every_step(a_kafka_shop: KafkaShop) -> None:
    shop = a_kafka_shop
    shop.feed()
    shop.complete()
    for place in STEPS:
        shop.feed()
        if place.startswith(IN_OTHERS):
            shop.outlived(place)
        else:
            run = shop.start(failpoints=f"{place}=kill")
            assert run.ends() == -signal.SIGKILL, f"{place}: {run.errors}"
    shop.drain()


class Load:
    """Appends orders until it is stopped, each batch once, whatever happens to the broker."""

    def __init__(self, shop: KafkaShop) -> None:
        self._shop = shop
        self._over = threading.Event()
        self.failed: list[str] = []
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        with self._shop.river() as river:
            orders = river.topic("orders")
            batch = 0
            while not self._over.is_set():
                rows = self._shop.orders(batch)
                try:
                    orders.append(rows, producer="load", sequence=batch + 1)
                except Transient as error:  # whether it is there, the next try finds out
                    self.failed.append(error.message)
                    time.sleep(0.2)
                    continue
                except RiverrunError as error:
                    self.failed.append(f"{type(error).__name__}: {error}")
                    return
                self._shop.rows += rows
                batch += 1
                time.sleep(0.05)

    def stop(self) -> None:
        self._over.set()
        self._thread.join(120)
        assert not self._thread.is_alive()


@pytest.mark.timeout(1800)
def test_three_minutes_of_load_with_flow_and_broker_killed(a_kafka_shop: KafkaShop) -> None:
    shop, dice = a_kafka_shop, random.Random(7)
    load = Load(shop)
    server, until = shop.server, time.monotonic() + 180
    flow = shop.start("--follow")
    deeds = ["flow", "stop", "flow", "kill", "flow", "kill", "flow", "pause", "flow"]
    for number, deed in enumerate(deeds):
        time.sleep(max(until - (len(deeds) - number) * 180 / len(deeds) - time.monotonic(), dice.uniform(1, 4)))
        if deed == "flow":
            flow.kill()
            flow = shop.start("--follow")
        elif deed == "pause":
            server.pause()
            time.sleep(10)
            server.resume()
        else:
            server.stop(signal.SIGKILL if deed == "kill" else signal.SIGTERM)
            time.sleep(dice.uniform(0, 3))
            server.start()
    time.sleep(max(until - time.monotonic(), 0))
    load.stop()
    assert not [why for why in load.failed if ": " in why and why.split(":")[0].endswith("Error")], load.failed
    flow.kill()
    assert len(shop.rows) > 5000
    shop.drain()
    # As anybody sees it who reads what is committed.
    command = [
        "kcat",
        "-C",
        "-b",
        server.brokers,
        "-t",
        "large-orders",
        "-e",
        "-q",
        "-X",
        "isolation.level=read_committed",
    ]
    lines = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout.splitlines()
    found = sorted((row["n"], row["more"]) for row in map(json.loads, lines))
    assert found == sorted((row["n"], float(row["amount"]) + 1) for row in shop.rows if float(row["amount"]) >= 9)
