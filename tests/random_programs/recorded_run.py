"""A program run in the testing kit, with a record of its log and of what each epoch read."""

from __future__ import annotations

import itertools
import json
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from random_programs.oracle.facts import Epoch, Fact
from random_programs.program import Program
from random_programs.values import micros
from riverrun.testing import Advance, Result
from riverrun.testing.local import LocalRun
from riverrun.testing.script import Step
from riverrun.views.columns import rows_of


class RecordedRun(LocalRun):
    """A run that remembers promises, and does not mind if no epoch comes past a failpoint."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.promises: dict[str, list[tuple[str, int, int]]] = defaultdict(list)

    def take(self, step: Step) -> None:
        if isinstance(step, Advance):
            said = (str(step.producer), micros(step.time), self._clock.now + 1)
            self.promises[step.topic].append(said)
        super().take(step)

    def result(self) -> Result:
        self._crash = None
        return super().result()

    def log(self) -> dict[str, list[tuple[Fact, bool]]]:
        """The rows of every topic that is read, and whether each is a tombstone."""
        found: dict[str, list[tuple[Fact, bool]]] = {}
        for name, topic in self._inputs.items():
            table = topic.read()
            places = rows_of(table.select(["_partition", "_offset", "_received", "_deleted"]))
            rows = rows_of(table.select(topic.schema.names))
            found[name] = [(_fact(name, row, at), at["_deleted"]) for row, at in zip(rows, places, strict=True)]
        return found

    def plans(self) -> list[dict[str, Any]]:
        return [json.loads(text) for text in self._plans]


def _fact(topic: str, row: Mapping[str, Any], at: Mapping[str, Any]) -> Fact:
    place = (at["_partition"], at["_offset"])
    return Fact((topic, *place), row, 0, place, micros(at["_received"]))


@dataclass(frozen=True)
class Recording:
    """What came of a program, and what its epochs read."""

    result: Result
    epochs: list[Epoch]
    ids: Mapping[str, str]
    unread: int


def run(program: Program) -> Recording:
    """Run a program once."""
    declared = program.declared()
    flow, script = declared["flow"], declared["script"]
    shape = (program.now, program.shards, program.partitions, program.max_rows)
    with RecordedRun(flow, (), *shape) as running:
        for step in script:
            running.take(step)
        if program.drain:
            running.drain()
        named = [part.name for part in (*program.reads, *program.operations)]
        result = running.result()
        epochs, unread = _epochs(running.plans(), running.log(), running.promises)
        return Recording(result, epochs, {name: _id(declared[name].node) for name in named}, unread)


def _id(node: Any) -> str:
    """The node that a line of a program is about: columns may be dropped behind it."""
    while node.kind in ("drop", "with_columns", "select") and node.inputs[0].kind in (
        "match",
        "with_columns",
        "select",
    ):
        node = node.inputs[0]
    return str(node.id)


def _epochs(
    plans: list[dict[str, Any]],
    log: Mapping[str, list[tuple[Fact, bool]]],
    promises: Mapping[str, list[tuple[str, int, int]]],
) -> tuple[list[Epoch], int]:
    """What each plan reads, and how many rows of the topics it reads no plan does."""
    epochs, read = [], 0
    for before, plan in itertools.pairwise(plans):
        rows: dict[str, list[Fact]] = {}
        gone: dict[str, list[Fact]] = {}
        for topic, parts in plan["positions"].items():
            for fact, deleted in log[topic]:
                partition, offset = fact.place
                if before["positions"][topic][str(partition)] <= offset < parts[str(partition)]:
                    (gone if deleted else rows).setdefault(topic, []).append(fact)
                    read += 1
        said = {
            topic: [one for one in lines if before["received"] < one[2] <= plan["received"]]
            for topic, lines in promises.items()
        }
        epochs.append(Epoch(plan["epoch"], plan["received"], plan["final"], rows, gone, said))
    return epochs, sum(len(log[topic]) for topic in plans[-1]["positions"]) - read
