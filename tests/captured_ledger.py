"""The ledger in a database of any kind, two processes that write to it, and captures of it that are killed."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import ledger
from captured_shop import CapturedRiver

PROGRAMS = Path(__file__).parent / "programs"


class CapturedLedger:
    """Accounts, a ledger and tags, as their source has them and as topics have them."""

    def __init__(self, shop: CapturedRiver) -> None:
        self.shop = shop
        self.steps = 0
        self._writers = 1  # this process
        self._dice = random.Random(1)
        for statement in ledger.made(shop.dialect):
            shop.sql(statement)

    def write(self) -> None:
        """One transaction, from here."""
        self.shop.sql("; ".join(ledger.transaction(self.shop.dialect, self._dice, 1, self.steps)))
        self.steps += 1

    def writers(self, *options: str) -> list[subprocess.Popen[str]]:
        """Two processes that write at the same time."""
        self._writers += 2
        command = [sys.executable, str(PROGRAMS / "write_ledger.py"), self.shop.url]
        return [
            subprocess.Popen([*command, str(number), *options], stderr=subprocess.PIPE, text=True)
            for number in (self._writers - 1, self._writers)
        ]

    def start(self, *options: str, failpoints: str = "") -> subprocess.Popen[str]:
        """A process that captures the tables."""
        command = [sys.executable, str(PROGRAMS / "capture.py"), str(self.shop.path / "river"), self.shop.url]
        return subprocess.Popen(
            [*command, self.shop.name, *ledger.TABLES, *options],
            env={**os.environ, "RIVERRUN_FAILPOINTS": failpoints},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )

    def killed_at(self, place: str) -> bool:
        """Capture with this failpoint what was written before, while two processes write; whether it was killed there."""
        for _ in range(12):  # one of them is larger than what is appended at once
            self.write()
        writers = self.writers("--rounds", "12")
        process = self.start("--once", failpoints=f"{place}=kill")
        _, errors = process.communicate(timeout=120)
        assert process.returncode in (0, -signal.SIGKILL), errors
        for writer in writers:
            _, told = writer.communicate(timeout=120)
            assert writer.returncode == 0, told
        return process.returncode != 0

    def complete(self) -> None:
        """Capture up to now, undisturbed."""
        process = self.start("--once")
        _, errors = process.communicate(timeout=240)
        assert process.returncode == 0, errors

    def source(self, table: str) -> list[dict[str, Any]]:
        columns = ledger.TABLES[table]
        found = self.shop.sql(f"select {', '.join(columns)} from {table}")
        return [dict(zip(columns, row, strict=True)) for row in found]

    def topic(self, table: str) -> str:
        """As the capture calls the table."""
        return f"{self.shop.schema}{table}"

    def check(self) -> None:
        """The topics are the tables, have no change twice, and agree with each other at every end that was told."""
        sources = {table: self.source(table) for table in ledger.TABLES}
        assert ledger.disagreement(sources["accounts"], sources["ledger"]) is None, "the source itself is wrong"
        for table, rows in sources.items():
            assert self.shop.replica(self.topic(table)) == {row["id"]: row for row in rows}, table
        self._check_once()
        self._check_ends()

    def _check_once(self) -> None:
        """Entries are written once and for ever, so the stream has one row of each."""
        rows = self.shop.rows(self.topic("ledger"))
        streamed = [row["id"] for row in rows if row["_transaction"] and not row["_deleted"] and row["delta"]]
        assert len(streamed) == len(set(streamed))

    def _check_ends(self) -> None:
        told = self.shop.told()
        done = next(number for number, row in enumerate(told) if row["kind"] == "snapshot_done")
        replayed = {table: Replayed(self.shop.rows(self.topic(table))) for table in ("accounts", "ledger")}
        for row in told[done:]:
            if row["kind"] != "part":
                ends = json.loads(row["ends"])
                accounts, entries = (
                    one.up_to(ends[f"{self.shop.name}.{self.topic(table)}"]) for table, one in replayed.items()
                )
                assert ledger.disagreement(accounts, entries) is None, row


class Replayed:
    """A table as its topic has it, from one end to the next."""

    def __init__(self, rows: Iterable[Mapping[str, Any]]) -> None:
        self._kept: dict[Any, Mapping[str, Any]] = {}
        self._left: dict[int, deque[Mapping[str, Any]]] = {}
        for row in sorted(rows, key=lambda row: (row["_partition"], row["_offset"])):
            self._left.setdefault(row["_partition"], deque()).append(row)

    def up_to(self, ends: Sequence[int]) -> list[Mapping[str, Any]]:
        """Its rows at these offsets, which are not before those of the last call."""
        for partition, left in self._left.items():
            while left and left[0]["_offset"] < ends[partition]:
                row = left.popleft()
                self._kept.pop(row["id"], None)
                if not row["_deleted"]:
                    self._kept[row["id"]] = row
        return list(self._kept.values())
