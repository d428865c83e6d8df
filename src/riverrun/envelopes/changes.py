"""What a batch of messages comes to: rows and deletions of a table, and what is wrong with messages that are neither."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from riverrun import ddl
from riverrun.envelopes.envelope import Envelope
from riverrun.envelopes.wire import BAD_VALUE, Wire
from riverrun.json_faults import json_fault

KEPT = pa.list_(pa.string())


@dataclass(frozen=True)
class MessageChanges:
    """Rows of the table and deletions, in the order of the messages.

    `at` is the message that each is of: most have one, those that change nothing have none, those that change a key have
    two. A deletion has values in the key only. `times` are microseconds, null where the message does not say one. `kept`
    names the columns of which a row was sent without the value, since it is as before; null in a row that is complete.
    `errors` has the messages that cannot be read, and why: nothing of them is among the rows.
    """

    at: npt.NDArray[np.int64]
    rows: pa.RecordBatch
    deleted: npt.NDArray[np.bool_]
    times: pa.Array
    kept: pa.Array
    errors: Mapping[int, str]


@dataclass
class Gathering:
    """MessageChanges on their way to columns. `rows` have an attribute `c0`, `c1` … for each column, in its order."""

    envelope: Envelope
    rows: list[Any] = field(default_factory=list)
    at: list[int] = field(default_factory=list)
    deleted: list[bool] = field(default_factory=list)
    times: list[int | None] = field(default_factory=list)
    kinds: list[int] = field(default_factory=list)
    wires: list[Mapping[str, Wire]] = field(default_factory=list)
    errors: dict[int, str] = field(default_factory=dict)

    def add(self, at: int, row: Any, deleted: bool, time: int | None, kind: int) -> None:
        """One row or deletion; `kind` says which of `wires` its values are written in."""
        self.at.append(at)
        self.rows.append(row)
        self.deleted.append(deleted)
        self.times.append(time)
        self.kinds.append(kind)

    def changes(self) -> MessageChanges:
        """Everything as columns. What does not fit into one is an error of its message."""
        columns, kept = self._columns()
        at = np.asarray(self.at, np.int64)
        deleted = np.asarray(self.deleted, np.bool_)
        times = pa.array(self.times, pa.int64())
        schema = ddl.arrow_schema([ddl.Column(column.name, column.type) for column in self.envelope.columns])
        rows = pa.RecordBatch.from_arrays(columns, schema=schema)
        if self.errors:
            good = ~np.isin(at, np.fromiter(self.errors, np.int64, len(self.errors)))
            chosen = pa.array(good)
            rows, times, kept = rows.filter(chosen), times.filter(chosen), kept.filter(chosen)
            at, deleted = at[good], deleted[good]
        return MessageChanges(at, rows, deleted, times, kept, self.errors)

    def _columns(self) -> tuple[list[pa.Array], pa.Array]:
        kinds = np.asarray(self.kinds, np.int64)
        present = np.unique(kinds)
        if len(present) < 2:
            return self._of_kind(int(present[0]) if len(present) else None, range(len(self.rows)))
        places = [np.flatnonzero(kinds == kind) for kind in present]
        parts = [self._of_kind(int(kind), where) for kind, where in zip(present, places, strict=True)]
        order = pa.array(np.argsort(np.concatenate(places)))
        columns = [pa.concat_arrays(parts).take(order) for parts in zip(*(part[0] for part in parts), strict=True)]
        return columns, pa.concat_arrays([part[1] for part in parts]).take(order)

    def _of_kind(
        self, kind: int | None, where: Sequence[int] | npt.NDArray[np.int64]
    ) -> tuple[list[pa.Array], pa.Array]:
        """The columns of rows that are written in the same way, and which of their values were left out."""
        rows = self.rows if len(where) == len(self.rows) else [self.rows[place] for place in where]
        wires = {} if kind is None else self.wires[kind]
        made: list[pa.Array] = []
        left_out: dict[int, list[str]] = {}
        for number, column in enumerate(self.envelope.columns):
            if column.name not in wires:  # there are no rows
                made.append(pa.nulls(0, ddl.to_arrow(column.type)))
                continue
            how, name = wires[column.name], f"c{number}"
            values = list(map(attrgetter(name), rows))
            if how.unavailable is not None and how.unavailable in values:
                missing = [place for place, value in enumerate(values) if value == how.unavailable]
                for place in missing:
                    values[place] = None
                    left_out.setdefault(place, []).append(column.name)
            array, bad = converted(how, values)
            for place, why in bad.items():
                self.errors.setdefault(self.at[int(where[place])], f"column {column.name!r}: {why}")
            made.append(array)
        return made, self._kept(left_out, where)

    def _kept(self, left_out: Mapping[int, list[str]], where: Sequence[int] | npt.NDArray[np.int64]) -> pa.Array:
        if not left_out:
            return pa.nulls(len(where), KEPT)
        for place, names in left_out.items():
            if any(name in self.envelope.key for name in names):
                self.errors.setdefault(self.at[int(where[place])], "the key's value is left out")
        return pa.array([left_out.get(place) for place in range(len(where))], KEPT)


def converted(how: Wire, values: list[Any]) -> tuple[pa.Array, dict[int, str]]:
    """The column of these values, with null for each that does not fit, and why it does not."""
    try:
        return how.arrow(values), {}
    except BAD_VALUE as error:
        if len(values) == 1:
            return how.arrow([None]), {0: str(error)}
    middle = len(values) // 2
    (left, wrong), (right, more) = converted(how, values[:middle]), converted(how, values[middle:])
    return pa.concat_arrays([left, right]), wrong | {middle + place: why for place, why in more.items()}


def why_not(error: Exception, text: bytes) -> str:
    """What is wrong with a message: where in it, if it is JSON."""
    what, _, path = str(error).partition(" - at ")
    if path:
        plain = what.replace(" | null`", "`").replace("`", "")
        return f"{path.strip('`').removeprefix('$.')}: {plain[0].lower()}{plain[1:]}"
    return json_fault(error, text).replace("`", "")
