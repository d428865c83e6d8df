"""Whether what flows have left in a river is whole and belongs together: the view store in a file, and checkpoints.

Looking changes nothing, and may be done in a copy.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing

from riverrun.errors import Conflict, RiverrunError
from riverrun.river import River
from riverrun.runtime.checkpoint import Checkpoint
from riverrun.runtime.manifest import Manifest, home_of
from riverrun.views import Store, open_store

_TOLD = 3  # of the faults that SQLite finds
_RESTORE = "Restore it from a copy together with RIVER/flows, or remove it: a run computes the views again from the log"


def file_faults(path: str) -> list[str]:
    """What SQLite finds wrong with the view store in a file; all of it is read."""
    try:
        with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as db:
            found = [str(row[0]) for row in db.execute(f"pragma integrity_check({_TOLD})")]
    except sqlite3.Error as error:
        return [str(error)]
    return [] if found == ["ok"] else found


_UNREADABLE = "disk I/O error"  # as SQLite says it where it has no room for what it needs to read, too


def store_trouble(river: River) -> tuple[str, str] | None:
    """What is wrong with the view store in a file, and what to do; None where nothing is."""
    path = os.path.abspath(river.views_address)
    faults = file_faults(path)
    if faults == [_UNREADABLE]:
        return f"{path} cannot be looked at: {_UNREADABLE}", "Is the disk full, or failing? Make room, then look again"
    if faults:
        return f"{path} is damaged: {'; '.join(faults)}", _RESTORE
    try:
        open_store(path, create=False).close()  # of the format that is known
    except RiverrunError as error:
        return error.message, error.hint or _RESTORE
    return None


def flow_states(river: River) -> Iterator[tuple[str, str | RiverrunError]]:
    """Every flow of the view store, and how far it is; or why a run could not go on with what is there."""
    with open_store(river.views_address, create=False) as store:
        for flow in store.flows():
            try:
                yield flow, _state(river, store, flow)
            except RiverrunError as error:
                yield flow, error


def ask_stores(river: River) -> Iterator[tuple[str, RiverrunError | None]]:
    """Every other store that views are in, and why it does not answer; None where it does."""
    from riverrun.views.derived.routed import RoutedStore

    if "//" not in river.views_address and not os.path.exists(river.views_address):
        return
    try:
        stores = river.store.derived_stores() if isinstance(river.store, RoutedStore) else []
    except RiverrunError:  # which is said of the home store
        return
    for store in stores:
        try:
            store.ping()
            yield store.place, None
        except RiverrunError as error:
            yield store.place, error


def _state(river: River, store: Store, flow: str) -> str:
    try:
        return _fits(river, store, flow)
    except Conflict:  # an epoch may have been committed between two looks
        return _fits(river, store, flow)


def _fits(river: River, store: Store, flow: str) -> str:
    last = store.last(flow)
    if last.manifest:
        Manifest.decode(last.manifest)
    home = home_of(river.checkpoints, flow, last)
    Checkpoint(home, flow).check(last)
    return f"epoch {last.epoch}, its checkpoint {home} fits"
