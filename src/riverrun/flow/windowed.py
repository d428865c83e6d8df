"""Windows of a stream, on their way to a table."""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

from riverrun.errors import Invalid
from riverrun.flow.aggregates import Aggregate
from riverrun.flow.operators.window import END, START, Window
from riverrun.flow.place import declaration
from riverrun.flow.relation import unfinished
from riverrun.flow.table import Table
from riverrun.flow.windows import Late, Session, Side, Sliding, WindowKind

if TYPE_CHECKING:
    from riverrun.flow.stream import Stream


class Windowed:
    """Windows, on their way to `.agg(…)`."""

    def __init__(self, rows: Stream, window: WindowKind, by: tuple[str, ...], late: Late, emit: str) -> None:
        self._rows = rows
        self._window = window
        self._by = by
        self._late = late
        self._emit = emit

    def __getattr__(self, name: str) -> NoReturn:
        raise unfinished("window(…)", name)

    @declaration
    def agg(self, **aggregates: Aggregate) -> Table:
        """One row per window: the columns `by`, `window_start`, `window_end`, then one per aggregate."""
        rows = self._rows
        keys = (*self._by, *(self._window.keep if isinstance(self._window, Sliding) else ()))
        for name in keys:
            if name.lower() in (START, END):
                raise Invalid(f"by: {name!r} is a column of the window itself", hint="Rename it with select")
        measures = rows._measures(aggregates, (*keys, START, END))
        for made in measures:
            if made.kind == "rate" and isinstance(self._window, Session):
                hint = "Use rr.tumbling, rr.hopping or rr.sliding"
                raise Invalid(f"{made.name}: rate needs a window of fixed length, and sessions have none", hint=hint)
        if isinstance(self._late, Side):
            rows._write_late(self._late)
        fields = {"window": self._window, "by": self._by, "late": self._late, "emit": self._emit}
        return rows._table(Window, measures=measures, **fields)
