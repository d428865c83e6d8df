"""The process in which the shop happens: `python -m riverrun.demo.shop.sending RIVER RATE SEED`, until SIGTERM.

What was acknowledged is counted in a file of the river. A batch that fails for a moment is sent again with the same
sequence, so it is there once.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time

import pyarrow as pa

from riverrun.demo.shop.events import SLOT, TOPICS, Shop
from riverrun.demo.shop.news import SENT, tell
from riverrun.durations import wall_clock
from riverrun.errors import Transient
from riverrun.log.topic import Topic
from riverrun.river import River


def send(river: River, shop: Shop, ended: threading.Event) -> dict[str, int]:
    """Append what happens, as it happens, until it is ended; and give how many rows that were, by topic."""
    topics = {name: river.topic(name) for name in TOPICS}
    sent = dict.fromkeys(topics, 0)
    sequences = dict.fromkeys(topics, 0)
    parent = os.getppid()
    while not ended.is_set() and os.getppid() == parent:
        for name, rows in shop.until(wall_clock()).items():
            sequences[name] += 1
            _append(topics[name], rows, sequences[name])
            sent[name] += rows.num_rows
        tell(f"{river.path}/{SENT}", {"rows": sent, "ended": False})
        ended.wait(SLOT / 1e6)
    tell(f"{river.path}/{SENT}", {"rows": sent, "ended": True})
    return sent


def _append(topic: Topic, rows: pa.Table, sequence: int) -> None:
    while True:
        try:
            topic.append(rows, producer="shop", sequence=sequence)
            return
        except Transient:
            time.sleep(0.2)


def main(path: str, rate: str, seed: str) -> None:
    ended = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: ended.set())
    with River(path) as river:
        send(river, Shop(wall_clock(), int(seed), float(rate)), ended)


if __name__ == "__main__":
    main(*sys.argv[1:])
