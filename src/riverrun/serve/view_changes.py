"""The changes of a view as a stream of events: before and after in JSON, the cursor after them as the id."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from itertools import chain, islice
from math import inf

from riverrun.serve.answers import encode
from riverrun.serve.sse import event
from riverrun.views import Change, Store
from riverrun.views.changelog import Cursor

_LARGE = 1 << 18  # bytes of events that are read at once
_PAUSE = 0.05  # seconds between two looks at a store that others write to


class ViewChanges:
    """Reads the changes after a cursor; without one, from the oldest that is kept."""

    def __init__(self, store: Store, view: str, start: Cursor | None) -> None:
        self._store = store
        self._view = view
        self._coming: Iterator[Change] | None = None
        self._seen = 0
        self._woken = threading.Event()
        self._start = start
        self.place = start or Cursor(-1)

    def open(self) -> Iterator[Change]:
        """Look at the first change, so that a cursor that cannot be followed is refused at once."""
        self._seen = self._store.progress(self._view).commit
        coming = self._store.changes(self._view, self._start)
        first = list(islice(coming, 1))
        self._coming = chain(first, coming)
        return self._coming

    def read(self, end: Cursor | None = None) -> list[bytes]:
        if self._coming is None:
            self._coming = self.open()
        events: list[bytes] = []
        size = 0
        for change in self._coming:
            data = {"op": change.op, "before": change.before, "after": change.after, "cursor": change.cursor}
            events.append(event(change.cursor, encode(data)))
            size += len(events[-1])
            self._start = self.place = Cursor.parse(change.cursor)
            if size > _LARGE or (end is not None and _order(self.place) >= _order(end)):
                self._coming = None  # the rest is read again: nobody knows when this will have been taken
                return events
        self._coming = None
        if _order(self.place) < _order(Cursor(self._seen)):
            self._start = self.place = Cursor(self._seen)  # commits that changed nothing here
        return events

    def compare(self, place: Cursor) -> int:
        mine, theirs = _order(self.place), _order(place)
        return (mine > theirs) - (mine < theirs)

    def wait(self, seconds: float) -> None:
        waited = 0.0
        while waited < seconds and not self._woken.is_set():
            if self._store.progress(self._view).commit > self.place.commit:
                return
            self._store.pause(_PAUSE)
            waited += _PAUSE

    def wake(self) -> None:
        self._woken.set()

    def close(self) -> None:
        self._coming = None


def _order(cursor: Cursor) -> tuple[int, float]:
    return cursor.commit, inf if cursor.done is None else cursor.done
