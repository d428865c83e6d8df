"""`riverrun capture ADDRESS`: the changes of a database as topics, in the foreground, until it is stopped."""

from __future__ import annotations

import os
import sys
import threading
import time
from typing import TYPE_CHECKING, Annotated, Any

import typer

from riverrun import figures
from riverrun.cli.interruption import Interrupted, interruptible
from riverrun.cli.options import CONFIG, DEFAULT_RIVER, JsonOption, RiverOption, open_river
from riverrun.cli.output import note, print_json, print_line
from riverrun.errors import Conflict, Invalid, NotFound
from riverrun.settings import capture_options

if TYPE_CHECKING:
    from riverrun.capture.capture import Capture
    from riverrun.river import River

_PATIENCE = 8.0  # seconds for what was read to be appended and confirmed
_EVERY = 5.0  # seconds between two lines where there is no terminal


def capture(
    source: Annotated[
        str,
        typer.Argument(
            metavar="ADDRESS|$VARIABLE|NAME",
            help="postgresql://login@host/database, mariadb://login@host/database, sqlite:PATH, a variable of the environment"
            f" that holds it, or the name of a capture in {CONFIG}.",
            show_default=False,
        ),
    ],
    tables: Annotated[str, typer.Option(help="Tables, separated by commas: public.orders,users.")] = "",
    name: Annotated[str, typer.Option(help="What its topics begin with.")] = "",
    once: Annotated[
        bool, typer.Option("--once", help="Up to where the source is now, then stop; 1 if a table has stopped.")
    ] = False,
    snapshot: Annotated[
        str, typer.Option(help="Whether what is in the tables is read first: initial, never, always.")
    ] = "initial",
    form: Annotated[str, typer.Option(help="rows, or debezium for its envelopes.")] = "rows",
    publication: Annotated[str | None, typer.Option(help="PostgreSQL: a publication that is there already.")] = None,
    decimal: Annotated[
        str | None, typer.Option(metavar="P,S", help="Numbers without a precision are decimals of this one, not text.")
    ] = None,
    key: Annotated[
        list[str] | None,
        typer.Option(
            metavar="TABLE=COLUMN,…", help="Columns that tell the rows of a table without a primary key apart."
        ),
    ] = None,
    resnapshot: Annotated[
        list[str] | None, typer.Option(metavar="TABLE", help="Read a table again; all: everything, with a new slot.")
    ] = None,
    install: Annotated[
        bool, typer.Option("--install", help="SQLite: only make the triggers; changes are kept from now on.")
    ] = False,
    uninstall: Annotated[
        bool, typer.Option("--uninstall", help="SQLite: only remove what the capture has in the file.")
    ] = False,
    json: JsonOption = False,
    river: RiverOption = DEFAULT_RIVER,
) -> None:
    """Capture the changes of a database's tables as topics, from where it stopped, until Ctrl-C or SIGTERM.

    Each table becomes the topic NAME.SCHEMA.TABLE (SQLite: NAME.TABLE), with its own columns, in the order of the source's
    transactions. A password belongs into ~/.pgpass, ~/.my.cnf, PGPASSWORD, MYSQL_PWD, or the variable that is named instead
    of the address: an argument can be seen by others. With --json the status is printed at the end.
    """
    if install or uninstall:
        _change_triggers(source, tables, name, decimal, key or [], install, uninstall, json)
        return
    options = _options(source, tables, name, snapshot, form, publication, decimal, key or [])
    lines = CaptureLines(quiet=json)
    with interruptible(), open_river(river, create=True) as opened:
        made = _made(opened, options, resnapshot or [])
        try:
            _run(made, once, lines)
        except Interrupted:
            if once:
                raise typer.Exit(1) from None
        finally:
            lines.clear()
            if json:
                print_json(made.status())
        if not json:
            lines.say(describe(made.status()))
        lines.tell_stopped(made.status())
        if once and any(table["state"] == "stopped" for table in made.status()["tables"].values()):
            raise typer.Exit(1)


def _change_triggers(
    source: str,
    tables: str,
    name: str,
    decimal: str | None,
    keys: list[str],
    install: bool,
    uninstall: bool,
    json: bool,
) -> None:
    """Make or remove what a capture of SQLite has in its file. The river is not looked at."""
    from riverrun.capture.sources import check_keys, open_sqlite
    from riverrun.capture.topics import check_capture_name

    if install and uninstall:
        raise Invalid("--install and --uninstall exclude each other")
    if uninstall and _is_address(source):
        tables = tables or "-"  # everything goes, whatever tables there are
    options = _options(source, tables, name, "initial", "rows", None, decimal, keys)
    capture = check_capture_name(options["name"])
    database = open_sqlite(options["source"], capture, options.get("keys"), None, options.get("decimal"))
    try:
        if uninstall:
            done: dict[str, Any] = {"name": capture, "removed": database.uninstall()}
            text = f"capture {capture}: " + ("removed from" if done["removed"] else "there is nothing in")
        else:
            check_keys(options["source"], options["tables"], options.get("keys") or {})
            _, troubles = database.describe(options["tables"])
            if troubles:
                raise Conflict(f"nothing was installed: {'; '.join(map(str, troubles))}")
            done = {"name": capture, "installed": database.install()}
            text = f"capture {capture}: triggers on {', '.join(done['installed'])} of"
    finally:
        database.close()
    if json:
        print_json(done)
    else:
        print_line(figures.safe(f"{text} {database.address}"))


def _run(made: Capture, once: bool, lines: CaptureLines) -> None:
    """In a thread of its own, and only waited for here: that is where a signal arrives."""
    ended: list[BaseException | None] = []

    def work() -> None:
        try:
            made.run(once)
            ended.append(None)
        except BaseException as error:
            ended.append(error)

    working = threading.Thread(target=work, name="riverrun-capture", daemon=True)
    working.start()
    try:
        while not ended:
            time.sleep(0.1)
            lines.show(made.status())
    except Interrupted as stopped:
        lines.say(f"{stopped}: finishing")
        made.stop()
        working.join(_PATIENCE)
        raise
    if ended[0] is not None:
        raise ended[0]


def captures_of(river: River, names: list[str]) -> list[Capture]:
    """The captures of the settings file that a run is to begin, too."""
    return [_made(river, {"name": name, **_from_file(name)}, []) for name in names]


def _made(river: River, options: dict[str, Any], resnapshot: list[str]) -> Capture:
    return river.capture(
        options.pop("source"), options.pop("tables"), options.pop("name"), resnapshot=resnapshot, **options
    )


def _options(
    source: str,
    tables: str,
    name: str,
    snapshot: str,
    form: str,
    publication: str | None,
    decimal: str | None,
    keys: list[str],
) -> dict[str, Any]:
    if not _is_address(source):
        _check_named(source)
        if tables or name or keys:
            raise Invalid(
                f"{source} is the name of a capture in {CONFIG}, which has its tables and keys", hint="Leave them out"
            )
        return {"name": source, **_from_file(source)}
    if not name:
        raise Invalid("a capture needs a name", hint="Give --name shop: its topics are then shop.public.orders, …")
    chosen = [table.strip() for table in tables.split(",") if table.strip()]
    if not chosen:
        raise Invalid("a capture needs tables", hint="Give --tables public.orders,public.users")
    return {
        "source": address_of(source),
        "tables": chosen,
        "name": name,
        "snapshot": snapshot,
        "form": form,
        "publication": publication,
        "decimal": decimal,
        "keys": _keys(keys),
    }


def _keys(options: list[str]) -> dict[str, list[str]] | None:
    """By table, as --key names them; None without any."""
    keys: dict[str, list[str]] = {}
    for option in options:
        table, _, columns = option.partition("=")
        named = [column.strip() for column in columns.split(",") if column.strip()]
        if not table.strip() or not named:
            raise Invalid(
                f"not a key of a table: {option!r}", hint="Write --key public.log=id, or --key log=day,number"
            )
        if table.strip() in keys:
            raise Invalid(f"there are two keys of {table.strip()}", hint="Name all columns of a key in one --key")
        keys[table.strip()] = named
    return keys or None


def _is_address(source: str) -> bool:
    """Or else it is a name of the settings file."""
    return "://" in source or source.startswith(("$", "sqlite:"))


def _check_named(source: str) -> None:
    """What is no address must be a capture of the settings file."""
    try:
        capture_options(CONFIG, source)
    except NotFound as error:
        path = next((path for path in (source, source.partition(":")[2]) if os.path.isfile(path)), None)
        text = f"{source} is neither an address nor the name of a capture: {error.message}"
        raise NotFound(
            "what was given is not an address" if "@" in source else text,  # a password may be in it
            hint=f"Write sqlite:{path}" if path else "Addresses are postgresql://…, mariadb://… and sqlite:PATH",
        ) from None


def _from_file(name: str) -> dict[str, Any]:
    options = capture_options(CONFIG, name)
    return {**options, "source": address_of(str(options["source"]))}


def address_of(source: str) -> str:
    """An address, or what a variable of the environment says it is."""
    if not source.startswith("$"):
        return source
    found = os.environ.get(source[1:])
    if not found:
        raise NotFound(f"there is no variable {source[1:]} in the environment")
    return found


class CaptureLines:
    """What a person sees of a capture: on a terminal one line that changes, else a line now and then."""

    def __init__(self, quiet: bool) -> None:
        self._quiet = quiet
        self._live = sys.stderr.isatty() and not quiet
        self._last, self._next, self._shown = "", 0.0, False
        self._told: set[str] = set()

    def show(self, status: dict[str, Any]) -> None:
        """How far it is; a table that stops is told once."""
        self.tell_stopped(status)
        text = describe(status)
        if self._live:
            width = os.get_terminal_size(sys.stderr.fileno()).columns
            sys.stderr.write(f"\r{text[: max(width - 1, 20)]}\033[K")
            sys.stderr.flush()
            self._shown = True
        elif text != self._last and time.monotonic() >= self._next:
            self._last, self._next = text, time.monotonic() + _EVERY
            self.say(text)

    def tell_stopped(self, status: dict[str, Any]) -> None:
        """The tables that have stopped since they were told."""
        for table, one in status["tables"].items():
            if one["state"] == "stopped" and one["reason"] not in self._told:
                self._told.add(one["reason"])
                self.clear()
                note(f"{table} has stopped: {one['reason']}")

    def say(self, text: str) -> None:
        """A line that stays."""
        if not self._quiet:
            self.clear()
            print_line(text)
            sys.stdout.flush()

    def clear(self) -> None:
        """Take the live line away."""
        if self._shown:
            sys.stderr.write("\r\033[K")
            sys.stderr.flush()
            self._shown = False


def describe(status: dict[str, Any]) -> str:
    """Where a capture is, in one line."""
    parts = [f"capture {status['name']}: {status['state']}"]
    if status["reason"]:
        parts.append(status["reason"])
    for table, one in status["tables"].items():
        if one["state"] == "snapshot":
            of = f" of about {figures.count(one['snapshot_of'])}" if one["snapshot_of"] else ""
            parts.append(f"{table} {figures.count(one['snapshot_rows'])}{of}")
    tables = status["tables"].values()
    rate = sum(one["rows_per_second"] for one in tables)
    parts.append(f"{figures.rows(sum(one['rows'] for one in tables))} written, {figures.rate(rate, 1)}")
    if status["lag_bytes"] is not None:
        behind = figures.size(status["lag_bytes"])
        parts.append(f"{behind} behind, {status['lag_seconds']:.1f} s" if status["lag_bytes"] else "up to date")
    return figures.safe(" · ".join(parts))
