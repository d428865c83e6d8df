"""docs/cli.md and docs/settings.md, written from the code: `python -m riverrun.cli.reference [DIRECTORY]`.

A test compares them with what is in the repository, so no command and no setting is undocumented.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer
from typer.main import get_command

from riverrun.cli.commands import app
from riverrun.settings import PLACES, Settings

_WIDTH = 100
_NOTE = "<!-- Written by `python -m riverrun.cli.reference docs`; change the code, not this file. -->"

_CLI = f"""# The command line

{_NOTE}

Every command takes `--river DIR` (default `./river`, or the environment's `RIVERRUN_RIVER`) and `--json`.
`topic read`, `topic tail` and `view watch` print one object per line with `--json`, every other command one document.

| exit code | means |
|---|---|
| 0 | done |
| 1 | it failed: a check, damaged bytes, no such row, stopped before it was done; or busy or full, and may work later |
| 2 | a mistake in what was asked for: one line on stderr says what, where, and what to do |
| 130 | Ctrl-C |

`RIVERRUN_DEBUG=1` shows the traceback behind a message. Output that goes into a pipe is not folded; a closed pipe
(`| head`) is no error.
"""

_SETTINGS = f"""# Settings

{_NOTE}

A settings file (`riverrun.toml`, for `River.from_config`; commands take from the one in their directory where the river and
its parts are, and captures) wins over the default, the environment over the file, an argument over both. In the file the
names are as they stand here; in the environment they are `RIVERRUN_<NAME>`. Where `--river` or `RIVERRUN_RIVER` names another
river than the file does, commands take no place from the file.
A name that is neither a setting nor a place below is an error, in the environment too, so that a typo is not ignored.
Sizes are written as `64 MiB` or `10 kB`, durations as `10 seconds` or `250 ms`.

| setting | environment | default | what it is |
|---|---|---|---|
"""

_PLACES = {
    "river": "the river's directory, `./river` if nothing says otherwise",
    "log": "where topics are, if not in that directory: `kafka://host:9092`",
    "views": "where views are kept: a SQLite file in that directory, or `postgresql://…`",
    "views_read": "the same PostgreSQL for a login that may only read views: the SQL box of the dashboard and queries use it",
    "checkpoints": "where flows' state is: a directory, `flows` in the river's if nothing says otherwise, or `s3://bucket/prefix`",
    "master": "Spark's master, by default this machine",
    "environment": "the archive of Python that `riverrun pack` made, for executors of that master",
}


def cli_page() -> str:
    """The page about commands: the help of each, as `--help` prints it."""
    sections = [f"## {path}\n\n```\n{text}\n```\n" for path, text in _helps(get_command(app), "riverrun", None)]
    return _CLI + "\n" + "\n".join(sections)


def settings_page() -> str:
    """The page about settings: the table in `settings.py`."""
    rows = [
        f"| `{name}` | `RIVERRUN_{name.upper()}` | {default} | {about} |" for name, default, about in Settings.table()
    ]
    places = [f"`{name}` (`RIVERRUN_{name.upper()}`) is {_PLACES[name]}." for name in PLACES]
    return _SETTINGS + "\n".join(rows) + "\n\nBeside these, " + " ".join(places) + "\n"


def _helps(command: Any, path: str, parent: typer.Context | None) -> Iterator[tuple[str, str]]:
    context = command.context_class(
        command, info_name=path.rsplit(maxsplit=1)[-1], parent=parent, terminal_width=_WIDTH
    )
    yield path, "\n".join(line.rstrip() for line in command.get_help(context).splitlines())
    for name, inner in getattr(command, "commands", {}).items():
        yield from _helps(inner, f"{path} {name}", context)


def write(directory: Path) -> None:
    """Write both pages."""
    (directory / "cli.md").write_text(cli_page(), encoding="utf-8")
    (directory / "settings.md").write_text(settings_page(), encoding="utf-8")


if __name__ == "__main__":
    write(Path(*sys.argv[1:2] or ["docs"]))
