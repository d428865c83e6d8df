"""Whatever dies where: topics are the tables, row by row, and at every recorded end all transactions are whole."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oracles.scripted_source import ScriptedDatabase, ScriptedSource, replica
from riverrun import failpoints
from riverrun.capture.captured import Captured, CaptureRequest
from riverrun.capture.debezium import UNAVAILABLE
from riverrun.failpoints import Crashed
from riverrun.log.captures import Captures
from riverrun.river import River
from riverrun.settings import Settings

TABLES = ("left", "right")
PLACES = (
    "capture.progress",
    "capture.noted",
    "capture.fenced",
    "capture.append",
    "capture.appended",
    "capture.record",
    "capture.recorded",
    "capture.chunk",
    "capture.chunked",
    "capture.finished",
    "capture.confirm",
    "capture.versions",
    "append.written",
    "append.published",
)
SETTINGS = replace(Settings(), capture_chunk_rows=2, capture_transaction_rows=4)


class Story:
    """A database, a river, and captures that come and go."""

    def __init__(self, path: Any, dice: random.Random, form: str = "rows") -> None:
        self.dice = dice
        self.path = path
        rows = {
            table: {key: {"id": key, "amount": 0, "note": f"n{key}"} for key in range(dice.randrange(7))}
            for table in TABLES
        }
        self.database = ScriptedDatabase(rows)
        self.request = CaptureRequest("scripted://", TABLES, "shop", "initial", form, {}, None, None)

    def write(self) -> None:
        """A transaction that moves an amount from one table to the other, and perhaps more."""
        dice = self.dice
        left, right, amount = dice.randrange(8), dice.randrange(8), dice.randrange(1, 9)
        tables = self.database.tables
        steps: list[tuple[Any, ...]] = [
            ("put", "left", left, tables["left"].get(left, {"amount": 0})["amount"] - amount, self._note()),
            ("put", "right", right, tables["right"].get(right, {"amount": 0})["amount"] + amount, self._note()),
        ]
        if dice.random() < 0.3:
            table = dice.choice(TABLES)
            steps.append(("move", table, dice.randrange(8), dice.randrange(8, 12)))
            steps.append(("move", table, dice.randrange(8, 12), dice.randrange(8)))
        if dice.random() < 0.1:
            steps += [("truncate", table) for table in TABLES]
            steps += [("put", "left", 3, -5, "again"), ("put", "right", 4, 5, "again")]
        if dice.random() < 0.1:  # so large that it is cut
            keys = dice.sample(range(20, 40), 4)
            steps += [("put", "left", key, 0, self._note()) for key in keys]
            steps += [("delete", "left", key) for key in keys]
        self.database.commit(*steps)

    def _note(self) -> str | None:
        return None if self.dice.random() < 0.5 else f"note {self.dice.randrange(1000)}"

    def capture(self, rounds: int, crash: str = "", again: tuple[str, ...] = ()) -> bool:
        """Some rounds of a capture; whether it survived them."""
        failpoints.arm(crash)
        try:
            with River(self.path, settings=SETTINGS) as river:
                source = ScriptedSource(self.database, self.dice.randrange(1, 5))
                with Captured(river, Captures(river._coordination), source, self.request, again) as captured:
                    captured._due["health"] = captured._due["report"] = 0.0
                    captured.start(lambda: False)
                    for _ in range(rounds):
                        if self.dice.random() < 0.5:
                            captured._due["confirm"] = 0.0
                        captured.step()
                        if self.dice.random() < 0.3:
                            self.write()
                        if self.dice.random() < 0.7:
                            self.database.visible = self.dice.randint(self.database.visible, len(self.database.log))
            return True
        except Crashed:
            return False
        finally:
            failpoints.arm("")

    def complete(self) -> None:
        self.database.visible = len(self.database.log)
        with River(self.path, settings=SETTINGS) as river:
            source = ScriptedSource(self.database)
            with Captured(river, Captures(river._coordination), source, self.request, ()) as captured:
                captured.start(lambda: False)
                for _ in range(1000):
                    if captured.has_all(lambda now: now):
                        return
                    captured.step()
        raise AssertionError("it does not come to an end")

    def check(self) -> None:
        with River(self.path) as river:
            rows = {table: river.topic(f"shop.{table}").read().to_pylist() for table in TABLES}
            for table in TABLES:
                assert replica(_in_order(rows[table])) == self.database.tables[table]
            self._check_ends(river, rows)

    def _check_ends(self, river: River, rows: dict[str, list[dict[str, Any]]]) -> None:
        """At every end from the last snapshot on, the replicas are what the source had after some transaction."""
        told = river.topic("shop.transactions").read().to_pylist()
        done = max((i for i, row in enumerate(told) if row["kind"] == "snapshot_done"), default=None)
        assert done is not None
        for row in told[done:]:
            if row["kind"] == "part":
                continue
            ends = json.loads(row["ends"])
            seen = {
                table: replica(
                    _in_order([r for r in rows[table] if r["_offset"] < ends[f"shop.{table}"][r["_partition"]]])
                )
                for table in TABLES
            }
            assert seen in self.database.states
            assert seen == self.database.states[int(row["position"])]


def _in_order(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(rows, key=lambda row: (row["_partition"], row["_offset"]))


@given(seed=st.integers(0, 10**9))
@settings(max_examples=15, deadline=None)
def test_killed_anywhere(tmp_path_factory: pytest.TempPathFactory, seed: int) -> None:
    dice = random.Random(seed)
    story = Story(str(tmp_path_factory.mktemp("river")), dice)
    for _ in range(dice.randrange(1, 6)):
        for _ in range(dice.randrange(4)):
            story.write()
        crash = f"{dice.choice(PLACES)}:{dice.randrange(1, 6)}=crash" if dice.random() < 0.8 else ""
        story.capture(dice.randrange(1, 12), crash)
    story.complete()
    story.check()


@pytest.mark.parametrize("place", [place for place in PLACES if place != "capture.versions"])
def test_killed_at_every_place(tmp_path: Any, place: str) -> None:
    dice = random.Random(7)
    story = Story(str(tmp_path / "river"), dice)
    survived = 0
    for number in range(1, 40):
        story.write()
        survived += story.capture(6, f"{place}:{number}=crash")
        if survived > 2:
            break
    assert survived
    story.complete()
    story.check()


def test_a_table_is_read_again(tmp_path: Any) -> None:
    """Rows that vanished while nobody looked get tombstones."""
    story = Story(str(tmp_path / "river"), random.Random(3))
    story.complete()
    story.database.commit(("put", "left", 1, 5, "x"), ("put", "left", 50, 5, "y"))
    story.complete()
    story.database.tables["left"].pop(50)  # behind the log's back: as if the log of that time were lost
    story.database.commit(("put", "left", 51, 5, "z"))
    story.database.visible = len(story.database.log)
    assert story.capture(30, again=("left",))
    story.complete()
    with River(story.path) as river:
        rows = river.topic("shop.left").read().to_pylist()
    assert replica(_in_order(rows)) == story.database.tables["left"]


def enveloped(rows: list[dict[str, Any]]) -> dict[int, dict[str, Any]]:
    """The table that envelopes leave; a value that was not sent is the one before it."""
    kept: dict[str, dict[str, Any]] = {}
    for row in rows:
        told = json.loads(row["json"]) if row["json"] is not None else {"after": None, "op": "d"}
        was = kept.pop(row["key"], {})
        if told["after"] is not None:
            kept[row["key"]] = {
                name: was.get(name) if value == UNAVAILABLE else value for name, value in told["after"].items()
            }
    return {row["id"]: row for row in kept.values()}


@pytest.mark.parametrize("seed", range(6))
def test_envelopes_of_captures_that_are_killed(tmp_path: Any, seed: int) -> None:
    """Without keys that change: of what was not sent then, an envelope tells nothing."""
    dice = random.Random(seed)
    story = Story(str(tmp_path / "river"), dice, "debezium")
    for _ in range(4):
        for _ in range(3):
            key = dice.randrange(9)
            step = (
                ("delete", "left", key) if dice.random() < 0.3 else ("put", "left", key, dice.randrange(99), f"n{key}")
            )
            story.database.commit(step)
        story.write = lambda: None  # type: ignore[method-assign]
        story.capture(dice.randrange(1, 9), f"{dice.choice(PLACES)}:{dice.randrange(1, 5)}=crash")
    story.complete()
    with River(story.path) as river:
        rows = river.topic("shop.left").read().to_pylist()
    assert enveloped(_in_order(rows)) == story.database.tables["left"]
