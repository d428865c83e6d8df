"""One view: its rows, searched, sorted and paged; what changed; how fresh it is."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import islice, takewhile
from typing import Any

import pyarrow as pa

from riverrun.errors import Invalid, NotFound, OutOfRange, RiverrunError
from riverrun.serve.pages.history import History
from riverrun.serve.pages.markup import Html, join, tag
from riverrun.serve.pages.quantities import ago, clock
from riverrun.serve.pages.shell import ROOT, Asked, Drawn, empty, figure, figures, notice, summary, table
from riverrun.serve.pages.table_cells import cell, heads, pairs, row_id
from riverrun.serve.pages.view_usage import describe_usage
from riverrun.serve.pages.views_page import count_rows, rows_text
from riverrun.store_address import StoreAddress
from riverrun.views import Condition, Selection, Store, ViewSpec
from riverrun.views.changelog import Change, Cursor
from riverrun.views.columns import is_nested, rows_of
from riverrun.views.epoch import ViewProgress

_PAGE = 50
_START = "window_start"
_CHANGES = 15
_BACK = (1, 4, 16)  # commits to look back for changes
_READ = 2000  # changes that are read to find the newest
_ELSEWHERE = 10.0  # seconds for which rows from another store are shown
_SORTED = 100_000  # rows up to which a view is sorted without being asked to
_SIGNS = {"insert": "+ insert", "update": "~ update", "delete": "− delete"}


def draw(history: History, asked: Asked) -> Drawn:
    store = history.backend.store()
    spec = store.spec(asked.name)
    progress = store.progress(spec.name)
    # A look that finds the same commit shows the same rows: nothing is read again. From another store it is not read with
    # every commit.
    version = (asked.path, tuple(sorted(asked.query.items())), progress.commit if spec.to is None else None)
    recent = history.remember(("changes", spec.name), 60, RecentChanges)
    order = asked.get("order") or _first_order(spec, count_rows(history, store, spec.name))
    grid, changes = history.remember(
        version,
        3600 if spec.to is None else _ELSEWHERE,
        lambda: (_grid(store, spec, asked, order), _recent(recent, store, spec, progress)),
    )
    regions = {
        "summary": summary(history, asked),
        "figures": _numbers(history, store, spec, progress),
        "search": _form(spec, asked),
        "grid": grid,
        "changes": changes,
        "usage": describe_usage(spec, asked.host),
    }
    return Drawn(spec.name, regions, every=0.5)


def _numbers(history: History, store: Store, spec: ViewSpec, progress: ViewProgress) -> Html:
    key = ", ".join(spec.told_key or ())
    committed = progress.epoch > 0
    return join(
        tag("h2", tag("span", "View ", class_="quiet"), spec.name),
        figures(
            figure(
                "Rows", rows_text(count_rows(history, store, spec.name)), f"one for each {key}" if key else "no key"
            ),
            figure(
                "Fresh as of",
                clock(progress.committed) if committed else tag("span", "never", class_="unknown"),
                join(ago(progress.committed), f", epoch {progress.epoch}") if committed else "nothing committed yet",
            ),
            figure("Flow", spec.flow, f"reads {', '.join(spec.topics)}" if spec.topics else None),
            figure("Kept in", StoreAddress.parse(spec.to).place) if spec.to else None,
        ),
        tag("p", "Processed up to ", tag("code", str(progress.positions) or "nothing yet"), class_="note"),
    )


def _form(spec: ViewSpec, asked: Asked) -> Html:
    if spec.is_searched:
        words = tag("input", name="q", value=asked.get("q"), type="search", placeholder='rain* AND NOT "rubber boots"')
        button = tag("button", "Search", type="submit")
        return tag("form", tag("label", "Search for", words), button, method="get", action=asked.path, role="search")
    columns = [name for name in spec.visible if not is_nested(spec.arrow.field(name).type)]
    options = [tag("option", name, value=name, selected=name == asked.get("in")) for name in columns]
    kept = [tag("input", type="hidden", name="order", value=asked.get("order"))] if asked.get("order") else []
    return tag(
        "form",
        tag("label", "Search for", tag("input", name="q", value=asked.get("q"), type="search")),
        tag("label", "in", tag("select", *options, name="in")),
        tag("button", "Search", type="submit"),
        *kept,
        tag("a", "SQL over all views", href=f"{ROOT}/views#ask"),
        method="get",
        action=asked.path,
        role="search",
    )


def _first_order(spec: ViewSpec, rows: int | None) -> str:
    """Of windows, people want the newest; where sorting all of them at every commit would take too long, by key."""
    return f"-{_START}" if _START in spec.visible and rows is not None and rows <= _SORTED else ""


def _grid(store: Store, spec: ViewSpec, asked: Asked, order: str) -> Html:
    page = asked.whole("page", 0, 1_000_000)
    try:
        if spec.is_searched and asked.get("q"):
            selected, _ = store.search(spec.name, asked.get("q"), _PAGE)
        else:
            selected = store.select(spec.name, _selection(spec, asked, order, page))
    except RiverrunError as error:
        if not isinstance(error, Invalid | NotFound) and spec.to is None:
            raise
        return notice("stopped", "Not shown.", error.message, tag("p", error.hint) if error.hint else None)
    rows = rows_of(selected.slice(0, _PAGE))
    more = selected.num_rows > _PAGE
    if not rows:
        said = "No row fits the search" if asked.get("q") else "No rows yet; a window appears when it closes"
        return empty(said if not page else "There is no such page")
    names = spec.visible
    body = [
        tag("tr", *(cell(row[name]) for name in names), id=id, data_fresh=True)
        for row, id in zip(rows, _row_ids(rows, spec.told_key or ()), strict=True)
    ]
    first = page * _PAGE + 1
    newest = ", the newest windows first" if order == f"-{_START}" else ""
    caption = f"Rows {first} to {first + len(rows) - 1}{newest}"
    grid = table(caption, [_head(spec, name, asked, order) for name in names], body, class_="grid")
    links = [
        tag("a", "← previous", href=asked.link(page=page - 1 or None)) if page else None,
        tag("a", "next →", href=asked.link(page=page + 1)) if more else None,
    ]
    return join(grid, tag("p", *(join(link, " ") for link in links if link), class_="tabs") if any(links) else None)


def _row_ids(rows: Sequence[Mapping[str, Any]], key: Sequence[str]) -> Iterator[str | None]:
    """Names for rows, if they have a key. A full join may have two with one key, where it is null."""
    seen = Counter[str]()
    for row in rows:
        id = row_id([row[name] for name in key]) if key else None
        if id is not None:
            seen[id] += 1
            id = id if seen[id] == 1 else f"{id}-{seen[id]}"
        yield id


def _selection(spec: ViewSpec, asked: Asked, order: str, page: int) -> Selection:
    conditions: tuple[Condition, ...] = ()
    text, column = asked.get("q"), asked.get("in")
    if text and column:
        kind = spec.arrow.field(column).type if column in spec.visible else None
        conditions = (Condition(column, "has" if kind is not None and pa.types.is_string(kind) else "eq", text),)
    falling = order.startswith("-") and order not in spec.visible
    wanted = ((order.removeprefix("-") if falling else order, falling),) if order else ()
    return Selection(conditions, wanted, _PAGE + 1, page * _PAGE)


def _head(spec: ViewSpec, name: str, asked: Asked, current: str) -> Html:
    """A heading that sorts: rising, falling, then as at first."""
    kind = spec.arrow.field(name).type
    right = "n" if _is_number(kind) else None
    if is_nested(kind):
        return tag("th", name, scope="col")
    following = {name: f"-{name}", f"-{name}": None}.get(asked.get("order"), name)
    arrow = {name: " ↑", f"-{name}": " ↓"}.get(current, "")
    sorting = {name: "ascending", f"-{name}": "descending"}.get(current)
    link = tag("a", name, arrow, href=asked.link(order=following, page=None))
    return tag("th", link, scope="col", class_=right, aria_sort=sorting)


def _is_number(kind: Any) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind))


def _recent(recent: RecentChanges, store: Store, spec: ViewSpec, progress: ViewProgress) -> Html:
    try:
        return _changes(recent.look(store, spec.name, progress.commit))
    except RiverrunError as error:
        if spec.to is None:
            raise
        return join(tag("h2", "Changes"), empty(error.message))


def _changes(newest: list[Change]) -> Html:
    head = join(tag("div", tag("h2", "Changes"), _pause(), class_="row"))
    if not newest:
        return join(head, empty("No change is kept of the last commits"))
    rows = []
    for change in newest:
        row = change.after or change.before or {}
        rows.append(
            tag(
                "tr",
                tag("td", tag("span", _SIGNS[change.op], class_=f"op {change.op}")),
                pairs(_different(change) if change.op == "update" else row),
                tag("td", change.cursor, class_="quiet"),
                id=f"change-{change.cursor}",
                data_fresh=True,
            )
        )
    return join(head, table("What changed last, newest first", heads(["Change", "Row", "Cursor"]), rows))


class RecentChanges:
    """The newest changes of a view, of which every look reads only those that are new."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._commit = 0
        self._changes: list[Change] = []

    def look(self, store: Store, view: str, commit: int) -> list[Change]:
        """The newest first."""
        with self._lock:
            if commit > self._commit:
                commits = commit - self._commit
                new: list[Change] | None = None
                if len(self._changes) == _CHANGES and commits <= _BACK[-1]:
                    with suppress(OutOfRange):  # the view was made anew
                        new = _read_back(store, view, commit, commits)
                changes = _read_enough(store, view, commit) if new is None else [*self._changes, *new]
                self._changes = changes[-_CHANGES:]
                self._commit = commit
            return self._changes[::-1]


def _read_enough(store: Store, view: str, commit: int) -> list[Change]:
    """Enough changes, if the last few commits have so many."""
    changes: list[Change] = []
    for commits in _BACK:
        try:
            changes = _read_back(store, view, commit, commits)
        except OutOfRange:
            break
        if len(changes) >= _CHANGES:
            break
    return changes


def _read_back(store: Store, view: str, commit: int, commits: int) -> list[Change]:
    """The changes of so many commits, up to this one."""
    every = islice(store.changes(view, Cursor(max(commit - commits, 0))), _READ)
    return list(takewhile(lambda change: Cursor.parse(change.cursor).commit <= commit, every))


def _different(change: Change) -> dict[str, Any]:
    """The row, with old and new where they differ."""
    before, after = change.before or {}, change.after or {}
    return {
        name: value if before.get(name) == value else _Both(before.get(name), value) for name, value in after.items()
    }


class _Both:
    def __init__(self, before: Any, after: Any) -> None:
        self._both = before, after

    def __str__(self) -> str:
        return " → ".join("null" if one is None else str(one) for one in self._both)


def _pause() -> Html:
    return tag("button", "Pause", type="button", data_pause=True, data_scripted=True, aria_pressed="false")
