"""Histories of tables: rows that come, change and go over some epochs, and what SQL says of the tables after each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

from riverrun import ddl
from riverrun.expressions.statement import database
from riverrun.flow import Flow
from riverrun.testing import Crash, Result, run_flow

Row = dict[str, Any]
Epoch = dict[str, list[Row]]
"""What comes in one epoch, by topic. A row with `_deleted` is a tombstone."""

FAILPOINTS = ("host.stepped", "host.committed", "commit.begin", "commit.topics", "views.applied", "commit.store")
CRASHES = st.dictionaries(st.integers(0, 4), st.sampled_from(FAILPOINTS), max_size=2)
"""In which epochs a run dies, and where."""


@dataclass(frozen=True)
class Kept:
    """A table: its columns as DDL, its key, and where its values come from."""

    schema: str
    key: tuple[str, ...]
    values: Mapping[str, st.SearchStrategy[Any]]

    @property
    def rows(self) -> st.SearchStrategy[Row]:
        """Versions; every fifth or so is a tombstone."""
        row = st.fixed_dictionaries(dict(self.values))
        return st.tuples(st.integers(0, 4), row).map(lambda pair: self._gone(pair[1]) if pair[0] == 0 else pair[1])

    def _gone(self, row: Row) -> Row:
        return {**{name: row[name] for name in self.key}, "_deleted": True}


def histories(tables: Mapping[str, Kept], epochs: int = 5, size: int = 5) -> st.SearchStrategy[list[Epoch]]:
    """Some epochs, in each at least one row."""
    ops = st.sampled_from(sorted(tables)).flatmap(lambda name: tables[name].rows.map(lambda row: (name, row)))
    return st.lists(st.lists(ops, min_size=1, max_size=size).map(_by_topic), min_size=2, max_size=epochs)


def _by_topic(ops: Sequence[tuple[str, Row]]) -> Epoch:
    found: Epoch = {}
    for name, row in ops:
        found.setdefault(name, []).append(row)
    return found


def crashing(epochs: Sequence[Epoch], crashes: Mapping[int, str]) -> list[Any]:
    """A script of these epochs, with crashes in the middle of some."""
    script: list[Any] = []
    for number, epoch in enumerate(epochs):
        if number in crashes:
            script.append(Crash(at=crashes[number]))
        script.append(epoch)
    return script


@dataclass
class Tables:
    """The tables as they are now."""

    kept: Mapping[str, Kept]
    rows: dict[str, dict[tuple[Any, ...], Row]] = field(default_factory=dict)

    def take(self, epoch: Epoch) -> None:
        for name, rows in epoch.items():
            here, key = self.rows.setdefault(name, {}), self.kept[name].key
            for row in rows:
                place = tuple(row[part] for part in key)
                if row.get("_deleted"):
                    here.pop(place, None)
                else:
                    here[place] = row

    def ask(self, sql: str) -> Counter[str]:
        """What DuckDB says of them."""
        opened = database().cursor()
        opened.execute("set TimeZone = 'UTC'")
        for name, table in self.kept.items():
            columns = ddl.arrow_schema(ddl.parse(table.schema))
            opened.register(name, pa.Table.from_pylist(list(self.rows.get(name, {}).values()), schema=columns))
        found = opened.execute(sql)
        names = [column[0] for column in found.description or ()]
        rows = found.fetchall()
        opened.close()
        return Counter(shown(dict(zip(names, row, strict=True))) for row in rows)


def shown(row: Row) -> str:
    """A row as text, whatever the order of its columns and the zone its times are in."""
    return repr({name: _plain(row[name]) for name in sorted(row)})


def _plain(value: Any) -> Any:
    if isinstance(value, float):
        return round(value, 9) + 0.0
    if isinstance(value, Decimal) and value == int(value):
        return int(value)  # so DuckDB gives a sum of whole numbers
    return value.timestamp() if isinstance(value, datetime) else value


def counted(rows: Sequence[Row]) -> Counter[str]:
    return Counter(map(shown, rows))


def after_each(result: Result, view: str) -> list[Counter[str]]:
    """What a view held after each epoch, by its changes; they take away only what is there."""
    held: Counter[str] = Counter()
    found = []
    for changes in result.changes[view]:
        gone = counted([change.before for change in changes if change.before is not None])
        assert gone <= held, f"taken away without being there: {gone - held}"
        held = held - gone + counted([change.after for change in changes if change.after is not None])
        found.append(held)
    return found


def check_every_epoch(
    flow: Flow,
    kept: Mapping[str, Kept],
    epochs: Sequence[Epoch],
    sql: Mapping[str, str],
    crashes: Mapping[int, str] | None = None,
    **options: Any,
) -> Result:
    """Each view named in `sql` equals that query over the tables as they are, after every epoch of one run."""
    at = {number: place for number, place in (crashes or {}).items() if number < len(epochs)}
    result = run_flow(flow, crashing(epochs, at), partitions=2, **options)
    tables = Tables(kept)
    seen = {name: after_each(result, name) for name in sql}
    for number, epoch in enumerate(epochs):
        tables.take(epoch)
        for name, query in sql.items():
            found, wanted = seen[name][number], tables.ask(query)
            assert found == wanted, f"{name}, epoch {number + 1}: {found - wanted} instead of {wanted - found}"
    for name in sql:
        assert counted(result.views[name]) == seen[name][-1], f"{name}: the view is not the sum of its changes"
    return result
