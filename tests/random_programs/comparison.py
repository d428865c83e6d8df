"""A program's run compared with the oracle: every view, watermark and ledger entry of every epoch, every topic."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import Any

import riverrun as rr
from random_programs.oracle.evaluation import Evaluation
from random_programs.oracle.facts import END, NEVER
from random_programs.oracle.pattern_nodes import Match
from random_programs.oracle.sources import Source
from random_programs.oracle.stream_nodes import JoinStreams
from random_programs.oracle.windows import Window
from random_programs.program import Operation, Outlet, Program
from random_programs.recorded_run import Recording, run
from random_programs.values import FEW, canonical, moment
from riverrun.testing import END as END_OF_INPUT
from riverrun.testing import Rows, run_flow

Row = Mapping[str, Any]
_TOLERANCE = 1e-9
_NAMES = ("node", "input", "name")


class Difference(AssertionError):
    """Where a run and the oracle disagree."""


def check(program: Program) -> Counter[str]:
    """`Difference` unless the program comes to what the oracle says; how many things were compared."""
    recording = run(program)
    if recording.unread:
        raise Difference(f"{recording.unread} rows were not read")
    return Comparison(program, recording).compare()


class Comparison:
    """One run beside the oracle's."""

    def __init__(self, program: Program, recording: Recording) -> None:
        self._program, self._recording = program, recording
        self._oracle = Evaluation(program, self._is_sampled)
        self._compared: Counter[str] = Counter()
        self._folded: dict[str, Counter[Any]] = {one.name: Counter() for one in self._views}
        self._shown: dict[Any, Row] = {}
        self._written: Counter[str] = Counter()

    def _is_sampled(self, operation: Operation, key: Any) -> bool:
        (name,) = operation.options["by"]
        kind = self._oracle.shapes[operation.inputs[0]].columns[name]
        return key[0] in _share(operation.options["fraction"], kind)

    @property
    def _views(self) -> list[Outlet]:
        return [one for one in self._program.outlets if one.kind == "view"]

    def compare(self) -> Counter[str]:
        result = self._recording.result
        for at, epoch in enumerate(self._oracle.play(self._recording.epochs)):
            where = f"epoch {epoch.number}"
            self._compared["epochs"] += 1
            self._watermarks(where, result.epochs[at].watermarks)
            for outlet in self._views:
                self._fold(outlet, result.changes[outlet.name][at])
                self._view(where, outlet)
            self._ledger(where, result.epochs[at].ledger)
            for outlet in self._program.outlets:
                node = self._oracle.nodes[outlet.input]
                self._written[outlet.name] += len({row.id for row in (*node.came, *node.went)})
        for outlet in self._program.outlets:
            rows = (result.views if outlet.kind == "view" else result.topics)[outlet.name]
            (self._end_of_view if outlet.kind == "view" else self._topic)(outlet, rows)
        self._aside()
        return self._compared

    def _watermarks(self, where: str, found: Mapping[str, Any]) -> None:
        expected: dict[str, int] = {}
        used = self._used()
        for read in self._program.reads:
            if read.name in used:
                end = self._oracle.nodes[read.name].watermarks[1]
                expected[read.topic] = min(end, expected.get(read.topic, end))
        for topic, value in expected.items():
            self._compared["watermarks"] += 1
            shown = None if value <= NEVER else END_OF_INPUT if value >= END else moment(value)
            if found.get(topic) != shown:
                raise Difference(f"{where}: the watermark of {topic} is {found.get(topic)}, and should be {shown}")

    def _used(self) -> set[str]:
        """The nodes that some end is computed from."""
        inputs = {one.name: one.inputs for one in self._program.operations}
        used, open_ = set(), [one.input for one in self._program.outlets]
        while open_:
            name = open_.pop()
            if name not in used:
                used.add(name)
                open_ += inputs.get(name, ())
        return used

    def _fold(self, outlet: Outlet, changes: Iterable[Any]) -> None:
        rows = self._folded[outlet.name]
        changes = list(changes)
        for change in changes:
            if change.before is not None:
                text = canonical(dict(change.before))
                if not rows[text]:
                    raise Difference(f"view {outlet.name}: {change.before} goes, and was not there")
                rows[text] -= 1
        for change in changes:
            if change.after is not None:
                text = canonical(dict(change.after))
                rows[text] += 1
                self._shown[text] = change.after
        self._folded[outlet.name] = +rows

    def _view(self, where: str, outlet: Outlet) -> None:
        found = [self._shown[text] for text, times in self._folded[outlet.name].items() for _ in range(times)]
        self._same(f"{where}, view {outlet.name}", found, [row.values for row in self._oracle.shown(outlet)])

    def _end_of_view(self, outlet: Outlet, rows: Rows) -> None:
        self._same(f"at the end, view {outlet.name}", rows, [row.values for row in self._oracle.shown(outlet)])

    def _topic(self, outlet: Outlet, rows: Rows) -> None:
        """All rows that a stream has given, or the newest of each key; with their event time where that is certain."""
        shape = self._oracle.shapes[outlet.input]
        times = rows.arrow.column("_time").to_pylist()
        found = [{**row, "_time": time} for row, time in zip(rows, times, strict=True)]
        if shape.table or shape.retracts:
            assert outlet.key is not None
            newest = {canonical([row[name] for name in outlet.key]): row for row in found}
            found = [row for row in newest.values() if not row.get("_deleted")]
        expected = [{**row.values, "_time": moment(row.time)} for row in self._oracle.shown(outlet)]
        if not shape.timed:
            found, expected = ([{**row, "_time": None} for row in some] for some in (found, expected))
        if shape.full and outlet.key:
            expected = _one_per_key(expected, found, outlet.key)
        self._same(f"at the end, topic {outlet.name}", found, expected)
        wanted = self._written[outlet.name]
        if shape.table and shape.timed and len(rows) != wanted:
            raise Difference(f"topic {outlet.name} has {len(rows)} rows, and {wanted} keys have changed")

    def _aside(self) -> None:
        """Late rows and rows from the future, in the topics they go to."""
        expected: dict[str, list[Row]] = {}
        used = self._used()
        for operation in self._program.operations:
            node = self._oracle.nodes[operation.name]
            if operation.name not in used:
                continue
            if isinstance(node, Window | Match) and operation.options["late"][0] == "side":
                expected.setdefault(operation.options["late"][1], []).extend(node.aside)
            if isinstance(node, JoinStreams):
                for topic, rows in node.aside.items():
                    expected.setdefault(topic, []).extend(rows)
        for topic, rows in expected.items():
            self._same(f"at the end, topic {topic}", self._recording.result.topics[topic], rows)
        for read in self._program.reads:
            node = self._oracle.nodes[read.name]
            if isinstance(node, Source) and read.name in used and read.max_skew is not None:
                topic = f"{read.topic}.quarantine"
                found = [{name: row[name] for name in read.columns} for row in self._recording.result.topics[topic]]
                self._same(f"at the end, topic {topic}", found, [row.values for row in node.quarantined])

    def _ledger(self, where: str, entries: Sequence[Mapping[str, Any]]) -> None:
        found = {(entry["node"], entry["input"]): entry for entry in entries}
        for name, node in self._oracle.nodes.items():
            inputs = {one.name: one.inputs for one in self._program.operations}.get(name, ())
            for number, (input, counts) in enumerate(node.counts.items()):
                below = inputs[number] if inputs else name
                shape = self._oracle.shapes[below]
                entry = found.get((self._recording.ids[name], input))
                if entry is None or shape.table or shape.retracts:
                    continue
                self._compared["ledger entries"] += 1
                shown = {part: value for part, value in entry.items() if part not in _NAMES}
                if shown != {part: counts[part] for part in shown}:
                    raise Difference(
                        f"{where}: the ledger of {name} ({input}) is {shown}, and should be {dict(counts)}"
                    )

    def _same(self, what: str, found: Sequence[Row], expected: Sequence[Row]) -> None:
        self._compared["states of views and topics"] += 1
        lines = differences(found, expected)
        if lines:
            raise Difference("\n  ".join([f"{what} differs:", *lines[:8]]))


def differences(found: Sequence[Row], expected: Sequence[Row]) -> list[str]:
    """Rows that only one of two lists has, as lines; floats agree within a tolerance."""
    names = set(found[0]) if found else set()
    if found and expected and names - {"_deleted"} != set(expected[0]):
        return [f"the columns are {sorted(names)}, and should be {sorted(expected[0])}"]
    here, there = (sorted(rows, key=_order) for rows in (found, expected))
    if len(here) == len(there) and all(close(one, other) for one, other in zip(here, there, strict=True)):
        return []
    left, missing = list(found), []
    for row in expected:
        same = next((at for at, other in enumerate(left) if close(other, row)), None)
        if same is None:
            missing.append(row)
        else:
            del left[same]
    return [*(f"missing: {dict(row)}" for row in missing), *(f"not expected: {dict(row)}" for row in left)]


def _one_per_key(rows: Sequence[Row], found: Sequence[Row], key: Sequence[str]) -> list[Row]:
    """Of rows with the same key, which a full join may have where it is null, one that was found."""
    chosen = {canonical([row[name] for name in key]): row for row in rows}
    for row in rows:
        if any(close(row, other) for other in found):
            chosen[canonical([row[name] for name in key])] = row
    return list(chosen.values())


def _order(row: Row) -> str:
    return repr([(name, _rounded(canonical(row[name]))) for name in sorted(row) if name != "_deleted"])


def _rounded(value: Any) -> Any:
    if isinstance(value, float | int) and not isinstance(value, bool):
        return f"{float(value):.6e}"
    return tuple(map(_rounded, value)) if isinstance(value, tuple) else str(value)


def close(one: Any, other: Any) -> bool:
    if isinstance(one, float) or isinstance(other, float):
        if one is None or other is None or isinstance(one, str) or isinstance(other, str):
            return False
        one, other = float(one), float(other)
        if math.isnan(one) or math.isnan(other):
            return math.isnan(one) and math.isnan(other)
        return math.isclose(one, other, rel_tol=_TOLERANCE, abs_tol=_TOLERANCE)
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return all(close(one.get(name), other.get(name)) for name in {*one, *other} - {"_deleted"})
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        return len(one) == len(other) and all(map(close, one, other))
    return bool(one == other)


@cache
def _share(fraction: float, kind: str) -> frozenset[Any]:
    """The keys of a type that a share has: they are the same in every flow, so another flow is asked."""
    flow = rr.Flow("share")
    flow.view("share", flow.stream("rows", f"key {kind}").sample(fraction, by="key"))
    pool = [*FEW[kind], *(float(one) for one in FEW["int"] if kind == "double"), None]
    kept = run_flow(flow, {"rows": [{"key": value} for value in pool]}).views["share"]
    return frozenset(canonical(row["key"]) for row in kept)
