"""What commands print: one JSON document, tables and lines for people, notes on stderr."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from riverrun import figures

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table


def print_line(text: str = "") -> None:
    """One line for people on stdout. Names and values in it come from anywhere, so no control character gets through."""
    print_exact(figures.safe(text))


def print_exact(text: str) -> None:
    """One line on stdout as it is: for programs, or drawn already."""
    sys.stdout.write(text + "\n")


def note(text: str) -> None:
    """One line for people on stderr, so that stdout stays clean for pipes."""
    sys.stderr.write(figures.safe(text) + "\n")


def print_json(document: Any) -> None:
    """One document, indented."""
    import json

    print_exact(json.dumps(document, indent=2, ensure_ascii=False, default=str))


def print_table(headers: Sequence[str], rows: Iterable[Sequence[str]], right: Sequence[str] = ()) -> None:
    """A table; columns named in `right` are aligned to the right."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for header in headers:
        table.add_column(Text(figures.safe(header)), justify="right" if header in right else "left", overflow="fold")
    for row in rows:
        table.add_row(*(Text(figures.safe(cell)) for cell in row))
    _print(table)


def print_fields(fields: Iterable[tuple[str, str]]) -> None:
    """Names and values, one per line."""
    from rich.table import Table
    from rich.text import Text

    table = Table.grid(padding=(0, 2))
    table.add_column()
    table.add_column(overflow="fold")
    for name, value in fields:
        table.add_row(Text(figures.safe(name), "bold"), Text(figures.safe(value)))
    _print(table)


def _print(table: Table) -> None:
    screen = console()
    with screen.capture() as captured:
        screen.print(table)
    for line in captured.get().splitlines():  # rich fills lines up with spaces
        print_exact(line.rstrip())


def console(stderr: bool = False) -> Console:
    """rich's console; where there is no terminal, lines are never folded."""
    from rich.console import Console

    stream = sys.stderr if stderr else sys.stdout
    if stream.isatty():
        return Console(stderr=stderr, highlight=False)
    return Console(stderr=stderr, highlight=False, width=10_000)
