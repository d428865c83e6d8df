"""`riverrun view …`: what flows have computed."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any

import typer

from riverrun import figures
from riverrun.cli.flow_file import FlowArgument, load_flow
from riverrun.cli.options import DEFAULT_RIVER, JsonOption, RiverOption, open_river
from riverrun.cli.output import note, print_exact, print_fields, print_json, print_line, print_table
from riverrun.cli.run_command import rebuild_views
from riverrun.errors import Invalid, NotFound, did_you_mean

if TYPE_CHECKING:
    from riverrun.river import River
    from riverrun.views import Change, Store, View

app = typer.Typer(help="Views: list, get, query, search, watch, rebuild.", rich_markup_mode=None)

ViewArgument = Annotated[str, typer.Argument(metavar="NAME", help="The view.", show_default=False)]
_WIDEST = 60  # characters of one value in a line for people


@app.callback(invoke_without_command=True)
def _view(context: typer.Context) -> None:
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


@app.command("list")
def list_views(json: JsonOption = False, river: RiverOption = DEFAULT_RIVER) -> None:
    """List the views: their rows, key, flow, and how far they are."""
    with open_river(river) as opened:
        views = _describe(opened.store) if _has_views(opened) else []
    if json:
        print_json(views)
    elif not views:
        print_line("no views")
    else:
        print_table(["view", "rows", "key", "flow", "epoch", "position"], map(_row, views), right=["rows", "epoch"])


@app.command()
def get(
    name: ViewArgument,
    key: Annotated[list[str] | None, typer.Argument(metavar="KEY…", help="The key, part by part.")] = None,
    where: Annotated[str | None, typer.Option(metavar="SQL", help="Rows with \"n > 10 and user = 'ada'\".")] = None,
    limit: Annotated[int | None, typer.Option(metavar="N", min=0, help="At most so many rows.")] = None,
    at_least: Annotated[
        str | None, typer.Option(metavar="POSITION", help='Wait until "orders@0:17" has been processed.')
    ] = None,
    json: JsonOption = False,
    river: RiverOption = DEFAULT_RIVER,
) -> None:
    """Print the row with a key, or without one the rows in key order. Exit code 1 when there is no such row."""
    with _open_view(river, name) as view:
        if key:
            if where is not None or limit is not None:
                raise Invalid("a key names one row", hint="Leave out --where and --limit, or the key")
            row = view.get(key, at_least=at_least)
            if json:
                print_json(_plain(row))
            elif row is None:
                note(f"view {name} has no row {' '.join(key)}")
            else:
                print_fields((column, _text(value)) for column, value in row.items())
            if row is None:
                raise typer.Exit(1)
        else:
            rows = view.rows(where, limit, at_least)
            _print_rows(rows, json, view.spec.visible)


@app.command()
def query(
    sql: Annotated[str, typer.Argument(metavar="SQL", help="One SELECT over the views.", show_default=False)],
    json: JsonOption = False,
    river: RiverOption = DEFAULT_RIVER,
) -> None:
    """Run a read-only query in the SQL of the store; every view is a table under its own name."""
    with open_river(river) as opened:
        _need_views(opened)
        rows = opened.store.query(sql, timeout=60)
    _print_rows(rows, json, list(rows[0]) if rows else [])


@app.command()
def search(
    name: ViewArgument,
    query: Annotated[
        str, typer.Argument(metavar="QUERY", help="Words, as in: rain* AND NOT boots.", show_default=False)
    ],
    where: Annotated[str | None, typer.Option(metavar="SQL", help='Only rows with "price < 10".')] = None,
    limit: Annotated[int, typer.Option(metavar="N", min=0, help="At most so many rows.")] = 10,
    json: JsonOption = False,
    river: RiverOption = DEFAULT_RIVER,
) -> None:
    """Print the rows of a view in a search index that meet a search, best first.

    The language is that of stored searches: "a phrase", AND, OR, NOT, prefix*, title:word, price:[1 TO 9].
    """
    with _open_view(river, name) as view:
        _print_rows(view.search(query, limit, where), json, view.spec.visible)


@app.command()
def watch(
    name: ViewArgument,
    since: Annotated[
        str | None, typer.Option(metavar="CURSOR", help="Begin after this change; oldest: with all that are kept.")
    ] = None,
    quiet: Annotated[
        str | None, typer.Option("--quiet", metavar="DURATION", help="End after so long without a change.")
    ] = None,
    json: JsonOption = False,
    river: RiverOption = DEFAULT_RIVER,
) -> None:
    """Print changes of a view as they come, until Ctrl-C; with --json one object per line, with its cursor."""
    with _open_view(river, name) as view:
        after = view.cursor if since is None else None if since == "oldest" else since
        for change in view.changes(after, timeout=quiet):
            if json:
                print_exact(_json_line(change))
            else:
                print_line(_line(change, view.spec.key))
            sys.stdout.flush()


@app.command()
def rebuild(name: ViewArgument, flow_file: FlowArgument, river: RiverOption = DEFAULT_RIVER) -> None:
    """Compute a view from the log again, with all views of its flow, and put them in place of the old ones at once.

    The old ones answer until then; no topic is written again. A run of the flow in another process goes on beside it,
    and ends when the views are replaced.
    """
    flow = load_flow(flow_file)
    if name not in flow.views:
        raise NotFound(f"flow {flow.name} has no view {name}", hint=did_you_mean(name, flow.views))
    with _open_view(river, name) as view:
        if view.spec.flow != flow.name:
            raise Invalid(f"view {name} belongs to flow {view.spec.flow}, not to {flow.name}")
    rebuild_views(flow, river)


@contextmanager
def _open_view(river: str, name: str) -> Iterator[View]:
    with open_river(river) as opened:
        _need_views(opened)
        yield opened.view(name)


def _has_views(river: River) -> bool:
    """Whether there is a store; looking must not make one."""
    return "://" in river.views_address or os.path.exists(river.views_address)


def _need_views(river: River) -> None:
    if not _has_views(river):
        raise NotFound(f"{river.path} has no views yet", hint="Run a flow that makes some: riverrun run FLOW.py")


def _describe(store: Store) -> list[dict[str, Any]]:
    from riverrun.views.view import counted, described

    return [described(spec, store.progress(spec.name), counted(store, spec.name)) for spec in store.views()]


def _row(one: dict[str, Any]) -> list[str]:
    key = ", ".join(one["key"]) or "–"
    position = (one["position"] or "–") + ("" if one["kept_up"] else ", no longer kept up")
    rows = "?" if one["rows"] is None else figures.count(one["rows"])  # its store does not answer
    return [one["name"], rows, key, one["flow"], str(one["epoch"]), position]


def _print_rows(rows: Sequence[dict[str, Any]], json: bool, columns: list[str]) -> None:
    if json:
        print_json(_plain(rows))
        return
    if rows:
        numbers = [c for c in columns if any(isinstance(row[c], int | float) for row in rows)]
        print_table(columns, [[_text(row[column]) for column in columns] for row in rows], right=numbers)
    if sys.stdout.isatty() or not rows:
        note(figures.rows(len(rows)))


def _line(change: Change, key: Sequence[str]) -> str:
    """One change: what happened, to which row, and what is new about it."""
    sign = {"insert": "+", "update": "~", "delete": "-"}[change.op]
    row = change.after if change.after is not None else change.before or {}
    parts = []
    for column, value in row.items():
        if change.op == "update" and change.before and change.before.get(column) != value:
            parts.append(f"{column}={_short(change.before.get(column))}→{_short(value)}")
        elif change.op != "update" or column in key:
            parts.append(f"{column}={_short(value)}")
    return f"{sign} " + "  ".join(parts)


def _json_line(change: Change) -> str:
    import msgspec

    document = {"op": change.op, "before": change.before, "after": change.after, "cursor": change.cursor}
    return msgspec.json.encode(document, enc_hook=str).decode()


def _plain(value: Any) -> Any:
    """As `topic read --json` prints it: times in ISO form with Z."""
    import msgspec

    return msgspec.to_builtins(value, enc_hook=str)


def _text(value: Any) -> str:
    if value is None:
        return "–"
    return value if isinstance(value, str) else str(_plain(value))


def _short(value: Any) -> str:
    text = "null" if value is None else _text(value)
    return figures.safe(text if len(text) <= _WIDEST else text[: _WIDEST - 1] + "…")
