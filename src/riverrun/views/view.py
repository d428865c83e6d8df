"""A view as people read it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import product
from typing import Any

import pyarrow as pa

from riverrun.calls import answering
from riverrun.durations import Duration, seconds, to_micros
from riverrun.errors import Invalid, NotFound, OutOfRange, TimedOut, Transient, Unavailable, did_you_mean
from riverrun.habits import VIEW_METHODS
from riverrun.position import Position
from riverrun.views.changelog import Change, Cursor
from riverrun.views.columns import equal_to, rows_of, scalar
from riverrun.views.epoch import Positions, ViewProgress, as_position
from riverrun.views.selection import check_count
from riverrun.views.spec import ViewSpec
from riverrun.views.store import Store

_SHORTEST, _LONGEST = 0.002, 0.1
_SIDES = (0, 1, 2)  # what the side of a full join can be in a key

# Rebuilds a view of a flow, within a time.
Rebuild = Callable[[str, str, Duration | None], None]


@answering("view", VIEW_METHODS)
class View:
    """Reads one view of a store; cheap to make, may be kept, usable from any thread.

    A read sees whole epochs only. `at_least` waits until the input up to a position has been processed.
    """

    def __init__(self, store: Store, name: str, rebuild: Rebuild | None = None) -> None:
        self._store = store
        self._rebuild = rebuild
        self.name = store.spec(name).name

    @property
    def spec(self) -> ViewSpec:
        """The view's declaration; a rebuild may change it."""
        return self._store.spec(self.name)

    def get(
        self, key: Any, *, at_least: Positions | str | None = None, timeout: Duration | None = "30 seconds"
    ) -> dict[str, Any] | None:
        """The row with this key, or None. A composite key is a list in the key's order, or a dict by column."""
        self._wait_for(at_least, timeout)
        spec = self.spec
        parts = _key_parts(spec, key)
        untold = [name for name in spec.key if name not in parts]
        for sides in product(_SIDES, repeat=len(untold)):
            whole = parts | {name: pa.array([side], pa.int8()) for name, side in zip(untold, sides, strict=True)}
            rows = rows_of(self._store.lookup(self.name, [whole[name] for name in spec.key]))
            if rows:
                return rows[0]
        return None

    def rows(
        self,
        where: str | None = None,
        limit: int | None = None,
        at_least: Positions | str | None = None,
        timeout: Duration | None = "30 seconds",
    ) -> list[dict[str, Any]]:
        """The rows, in key order. `where` is an SQL condition over the columns."""
        return rows_of(self.arrow(where, limit, at_least, timeout))

    def arrow(
        self,
        where: str | None = None,
        limit: int | None = None,
        at_least: Positions | str | None = None,
        timeout: Duration | None = "30 seconds",
    ) -> pa.Table:
        """The same rows as an Arrow table."""
        self._wait_for(at_least, timeout)
        return self._store.fetch(self.name, where, limit, seconds(timeout))

    def sql(
        self,
        query: str,
        parameters: Sequence[Any] | Mapping[str, Any] = (),
        *,
        at_least: Positions | str | None = None,
        timeout: Duration | None = "30 seconds",
    ) -> list[dict[str, Any]]:
        """One read-only query in the store's SQL; every view of the store is a table under its own name."""
        if not isinstance(query, str):
            raise Invalid(f"a query is a string, not {query!r}", hint='Write "select … from view"')
        if isinstance(parameters, str | bytes) or not isinstance(parameters, Sequence | Mapping):
            raise Invalid(f"parameters are a list or a dict, not {parameters!r}")
        self._wait_for(at_least, timeout)
        return self._store.query(query, parameters, seconds(timeout), self.name)

    def search(
        self,
        query: str,
        limit: int = 10,
        where: str | None = None,
        highlight: bool = False,
        *,
        at_least: Positions | str | None = None,
        timeout: Duration | None = "30 seconds",
    ) -> list[dict[str, Any]]:
        """The rows in which the words are, best first; of a view with `to="search:"`. The language is that of stored
        searches: `rain* AND NOT "rubber boots" price:<50`. `where` is an SQL condition over the columns.

        With `highlight` each row has `_highlight` too: for each column that met the search, its text as HTML with the
        words in `<mark>`.
        """
        if not isinstance(query, str):
            raise Invalid(f"a search is a string, not {query!r}", hint='Write "rain boots"')
        check_count("limit", limit)
        self._wait_for(at_least, timeout)
        found, marks = self._store.search(self.name, query, limit, where, highlight)
        rows = rows_of(found)
        return [{**row, "_highlight": mark} for row, mark in zip(rows, marks, strict=True)] if highlight else rows

    def changes(self, since: str | None = None, timeout: Duration | None = None) -> Iterator[Change]:
        """The changes after a cursor, then new ones as they come. Without `since`: from the oldest that is kept.

        The loop ends after `timeout` without a change; without one it goes on until it is left. `OutOfRange` when
        changes after the cursor are no longer kept.
        """
        return self._follow(None if since is None else Cursor.parse(since), seconds(timeout))

    def _follow(self, after: Cursor | None, patience: float | None) -> Iterator[Change]:
        quiet_since = time.monotonic()
        while True:
            seen = self._store.progress(self.name).commit
            for change in self._store.changes(self.name, after):
                yield change
                after = Cursor.parse(change.cursor)
                quiet_since = time.monotonic()
            left = None if patience is None else quiet_since + patience - time.monotonic()
            if not self._commits_after(seen, left):
                return

    def _commits_after(self, commit: int, patience: float | None) -> bool:
        return self._until(lambda progress: progress.commit > commit, patience) is not None

    @property
    def cursor(self) -> str:
        """The place after the newest change: `changes(since=view.cursor)` gives only what comes from now on."""
        return str(Cursor(self._store.progress(self.name).commit))

    @property
    def progress(self) -> ViewProgress:
        """How far the view is."""
        return self._store.progress(self.name)

    def reached(self, wanted: Position, progress: ViewProgress) -> bool:
        """Whether a view that is so far has processed this much; `OutOfRange` when it never will."""
        if wanted <= progress.positions:
            return True
        if not progress.kept_up:
            raise OutOfRange(
                f"flow {self.spec.flow!r} no longer keeps up view {self.name!r}: it stays at"
                f" {progress.positions or 'nothing'} and will not come to {wanted}",
                hint="Read it without at_least, or put the view into the flow again",
            )
        return False

    @property
    def position(self) -> Position:
        """How far the view's topics have been processed."""
        return self.progress.positions

    def has_processed(self, position: Positions | str) -> bool:
        """Whether the input up to a position has been processed, now. `Invalid` for a topic the view does not read,
        `OutOfRange` when it never will be, because the flow no longer has the view."""
        wanted = as_position(position)
        self._check_topics(wanted)
        return self.reached(wanted, self.progress)

    def as_of(self, at: Positions | str | datetime) -> Snapshot:
        """The view as it was when a position had been processed, or at a time of commit; needs `history`."""
        if isinstance(at, datetime):
            wanted: Position | int = to_micros(at)
        else:
            wanted = as_position(at)
            self._check_topics(wanted)
        return Snapshot(self._store, self.spec, *self._store.version(self.name, wanted))

    def rebuild(self, timeout: Duration | None = None) -> None:
        """Compute all views of the flow from the log again, beside the running ones, and switch at once; by the run of
        the flow in this process. Readers see the old rows until then, and followers of `changes` the difference."""
        if self._rebuild is None:
            raise Unavailable(f"view {self.name!r} was opened without a river", hint="Open it with river.view(…)")
        self._rebuild(self.name, self.spec.flow, timeout)

    def __len__(self) -> int:
        return self._store.count(self.name)

    def __bool__(self) -> bool:
        return True

    def _wait_for(self, at_least: Positions | str | None, timeout: Duration | None) -> None:
        if at_least is None:
            return
        wanted = as_position(at_least)
        self._check_topics(wanted)
        if self._until(lambda progress: self.reached(wanted, progress), seconds(timeout)) is None:
            raise TimedOut(
                f"view {self.name!r} has processed {self.position or 'nothing'} and not yet {wanted}",
                hint="Wait longer, or see whether the flow is running",
            )

    def _check_topics(self, wanted: Position) -> None:
        topics = self.spec.topics
        for topic in wanted:
            if topics and topic not in topics:
                raise Invalid(f"view {self.name!r} does not read topic {topic!r}; it reads {', '.join(topics)}")

    def _until(self, reached: Callable[[ViewProgress], bool], patience: float | None) -> ViewProgress | None:
        """Look until it is so: at once, after 2 ms, then less and less often, at most every 100 ms."""
        deadline = None if patience is None else time.monotonic() + patience
        pause = _SHORTEST
        while True:
            progress = self._store.progress(self.name)
            if reached(progress):
                return progress
            if deadline is not None:
                pause = min(pause, deadline - time.monotonic())
                if pause <= 0:
                    return None
            self._store.pause(pause)
            pause = min(pause * 1.5, _LONGEST)


def counted(store: Store, view: str) -> int | None:
    """How many rows a view has; None where another store has them, and does not answer."""
    try:
        return store.count(view)
    except (Transient, Unavailable):
        if store.spec(view).to is None:
            raise
        return None


def described(spec: ViewSpec, progress: ViewProgress, rows: int | None) -> dict[str, Any]:
    """A view as plain data, for people and programs: what readers see of it, and how far it is. `rows` is None where its
    store does not answer; `to` is that store, if it is not the home store."""
    return {
        "name": spec.name,
        "rows": rows,
        "schema": spec.shown_schema,
        "key": [part for part in spec.key if part not in spec.hidden],
        "flow": spec.flow,
        "topics": list(spec.topics),
        "epoch": progress.epoch,
        "position": str(progress.positions),
        "cursor": str(Cursor(progress.commit)),
        "kept_up": progress.kept_up,
        **({"to": spec.to} if spec.to is not None else {}),
    }


class Snapshot:
    """A version of a view: rows that no longer change."""

    def __init__(self, store: Store, spec: ViewSpec, progress: ViewProgress, table: pa.Table) -> None:
        self._store = store
        self._spec = spec
        self._table = table
        self.position = progress.positions
        self.epoch = progress.epoch

    def get(self, key: Any) -> dict[str, Any] | None:
        """The row with this key, or None."""
        table = self._table
        for name, part in _key_parts(self._spec, key).items():
            table = table.filter(equal_to(table.column(name), part[0]))
        rows = rows_of(table)
        return rows[0] if rows else None

    def rows(self, where: str | None = None, limit: int | None = None) -> list[dict[str, Any]]:
        """The rows, in key order. `where` is an SQL condition over the columns."""
        return rows_of(self.arrow(where, limit))

    def arrow(self, where: str | None = None, limit: int | None = None) -> pa.Table:
        """The same rows as an Arrow table."""
        check_count("limit", limit)
        rows = self._table if where is None else self._store.matching(self._spec, self._table, where)
        return rows.slice(0, limit)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return iter(self.rows())

    def __len__(self) -> int:
        return int(self._table.num_rows)


def _key_parts(spec: ViewSpec, key: Any) -> dict[str, pa.Array]:
    """The parts of a key by column. The side of a full join is not among them: it is one or the other."""
    told = spec.told_key
    if told is None:
        raise Invalid(
            f"view {spec.name!r} has no key to look up", hint="Use rows(where=…), or declare the view with key="
        )
    if isinstance(key, Mapping):
        unknown = [name for name in key if name not in told]
        missing = [name for name in told if name not in key]
        if unknown:
            raise NotFound(
                f"{unknown[0]!r} is not in the key of view {spec.name!r}", hint=did_you_mean(unknown[0], told)
            )
        if missing:
            raise Invalid(f"the key of view {spec.name!r} needs {missing[0]!r} too; it is {', '.join(told)}")
        parts = [key[name] for name in told]
    else:
        parts = list(key) if isinstance(key, list | tuple) else [key] if told else []
    if len(parts) != len(told):
        raise Invalid(f"the key of view {spec.name!r} has {len(told)} parts ({', '.join(told)}), got {len(parts)}")
    return {name: scalar(part, name, spec.arrow.field(name).type) for part, name in zip(parts, told, strict=True)}
