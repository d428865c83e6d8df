"""All views, and a box for read-only SQL over them."""

from __future__ import annotations

import time

from riverrun.errors import RiverrunError
from riverrun.serve.guard import QUERIES
from riverrun.serve.pages.history import History
from riverrun.serve.pages.markup import Html, join, tag
from riverrun.serve.pages.quantities import ago, number, span_text
from riverrun.serve.pages.shell import Asked, Drawn, address, empty, notice, summary, table
from riverrun.serve.pages.table_cells import cell, heads, is_number
from riverrun.views import Store, ViewSpec
from riverrun.views.view import counted

_MOST, _PATIENCE = 200, 5.0  # rows of an answer, and seconds a query may take


def draw(history: History, asked: Asked) -> Drawn:
    regions = {"summary": summary(history, asked)}
    specs = history.backend.store().views() if history.backend.has_views() else []
    if not specs:
        regions["views"] = empty("There are no views yet; a flow makes them", "riverrun run FLOW.py")
        return Drawn("Views", regions)
    store = history.backend.store()
    names = ["View", "Rows", "Fresh as of", "Key", "Columns", "Flow"]
    regions["views"] = table(
        f"{len(specs)} views", heads(names, ["Rows"]), [_row(history, store, spec) for spec in specs]
    )
    if not asked.is_live:
        regions["ask"] = _ask(store, specs, asked)
        if asked.get("sql").strip():
            regions["answer"] = (
                _answer(store, asked.get("sql")) if asked.is_posted else empty("Press Run for its answer")
            )
    return Drawn("Views", regions, still=("ask", "answer"))


def count_rows(history: History, store: Store, view: str) -> int | None:
    """How many rows a view has; of a large one, how many it had a moment ago. None where its store does not answer."""
    return history.remember(("count", view), None, lambda: counted(store, view))


def rows_text(rows: int | None) -> Html:
    """The same as people read it."""
    return tag("span", "unknown", class_="unknown") if rows is None else number(rows)


def _row(history: History, store: Store, spec: ViewSpec) -> Html:
    progress = store.progress(spec.name)
    fresh = ago(progress.committed) if progress.epoch else tag("span", "nothing committed yet", class_="quiet")
    return tag(
        "tr",
        tag("th", tag("a", spec.name, href=address("views", spec.name)), scope="row"),
        tag("td", rows_text(count_rows(history, store, spec.name)), class_="n", data_flash=True),
        tag("td", fresh),
        tag("td", ", ".join(spec.told_key or ()) or "–", class_="wide"),
        tag("td", ", ".join(spec.visible), class_="wide"),
        tag("td", spec.flow),
        id=f"view-{spec.name}",
    )


def _ask(store: Store, specs: list[ViewSpec], asked: Asked) -> Html:
    try:
        store.admit_strangers()
    except RiverrunError as error:
        return join(tag("h2", "Ask"), notice("stopped", "Not here.", error.message, tag("p", error.hint)))
    return _form(specs, asked)


def _form(specs: list[ViewSpec], asked: Asked) -> Html:
    first = f'select * from "{specs[0].name}" limit 20'
    area = tag("textarea", asked.get("sql") or first, name="sql", rows=3, spellcheck="false", maxlength=4000)
    said = f"Read-only SQL over {', '.join(spec.name for spec in specs[:8])}{' …' if len(specs) > 8 else ''}"
    return join(
        tag("h2", "Ask"),
        tag(
            "form",
            tag("label", said, area, class_="grow"),
            tag("button", "Run", type="submit"),
            method="post",
            action=f"{QUERIES}#answer",
        ),
    )


def _answer(store: Store, sql: str) -> Html:
    """At most so many rows, in at most so many seconds; what cannot be answered says why."""
    wrapped = f"select * from (\n{sql.strip().rstrip(';')}\n) as answer limit {_MOST + 1}"
    begun = time.monotonic()
    try:
        store.admit_strangers()
        rows = store.query(wrapped, timeout=_PATIENCE)
    except RiverrunError as error:
        return notice("stopped", "Not answered.", error.message, tag("p", error.hint) if error.hint else None)
    took = span_text(max(time.monotonic() - begun, 0.001))
    if not rows:
        return empty(f"No rows, in {took}")
    names = list(rows[0])
    numbers = [name for name in names if all(row[name] is None or is_number(row[name]) for row in rows)]
    more = f"the first {_MOST} rows; there are more" if len(rows) > _MOST else f"{len(rows)} rows"
    body = [tag("tr", *(cell(row[name]) for name in names)) for row in rows[:_MOST]]
    return table(f"{more}, in {took}, as it was when this page was loaded", heads(names, numbers), body)
