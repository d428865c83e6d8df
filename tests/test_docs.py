"""Documentation is executed, complete, and as the code says."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg2
import pytest

from conftest import Riverrun
from postgres_server import logical_server
from riverrun.cli.new_command import template
from riverrun.cli.reference import cli_page, settings_page
from riverrun.log.kafka.refusals import REFUSALS
from riverrun.settings import Settings

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / name for name in ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md")]
PAGES += sorted((ROOT / "docs").glob("*.md"))
EXECUTED = [ROOT / "README.md", ROOT / "docs" / "quickstart.md"]
EXECUTED += [
    ROOT / "docs" / f"{name}.md"
    for name in (
        "concepts",
        "log",
        "flows",
        "joins",
        "envelopes",
        "patterns",
        "search",
        "stores",
        "testing",
        "extending",
        "http",
        "alerts",
    )
]
EXECUTED += [ROOT / "docs" / "operating.md", ROOT / "docs" / "databases.md", ROOT / "docs" / "scale.md"]


def blocks(page: Path, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", page.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)


@pytest.fixture
def shop_database() -> Iterator[str]:
    """The tables that the page on databases is about, in a server of their own."""
    server = logical_server()
    with closing(psycopg2.connect(server.url)) as db, db.cursor() as cursor:
        cursor.execute("create table users (id int primary key, name text)")
        cursor.execute("create table orders (id int primary key, who int, amount numeric(8,2))")
        cursor.execute("insert into users values (1, 'ada'); insert into orders values (1, 1, 9.5)")
        db.commit()
    yield server.url
    server.remove()


STARTS_SPARK = {"README.md", "flows.md", "stores.md"}


@pytest.mark.parametrize(
    "page",
    [pytest.param(page, marks=[pytest.mark.spark] if page.name in STARTS_SPARK else []) for page in EXECUTED],
    ids=lambda page: page.name,
)
def test_python_blocks_run(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    """All of a page together, as a reader would who types one after the other."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("RIVERRUN_RIVER", raising=False)
    if page.name == "databases.md":
        monkeypatch.setenv("SHOP", request.getfixturevalue("shop_database"))
    code = blocks(page, "python")
    assert code
    exec(compile("\n".join(code), page.name, "exec"), {"__name__": "__main__"})


@pytest.mark.parametrize(
    "page",
    [page for page in EXECUTED if page.name != "quickstart.md"],
    ids=lambda page: page.name,
)
def test_console_blocks_run(page: Path, tmp_path: Path) -> None:
    """All of a page in one shell, as a reader would; what says nothing to a reader says nothing here, either."""
    lines = [line[2:] for block in blocks(page, "console") for line in block.splitlines() if line.startswith("$ ")]
    if lines:
        run_in_a_shell(lines, tmp_path)


def run_in_a_shell(lines: list[str], directory: Path, python: Sequence[str] = (sys.executable,)) -> str:
    """What they print, one after the other; the first that fails ends it."""
    bin = directory / "bin"
    bin.mkdir()
    for name, module in (("riverrun", "riverrun.cli"), ("pip", "pip"), ("python", "")):
        command = shlex.join([*python, *(["-m", module] if module else [])])
        (bin / name).write_text(f'#!/bin/sh\nexec {command} "$@"\n')
        (bin / name).chmod(0o755)
    (directory / "here").mkdir()
    # With job control, as at a terminal: `&` and %1.
    script = "\n".join(["set -e -m -o pipefail", *lines])
    done = subprocess.run(
        ["bash", "-c", script],
        cwd=directory / "here",
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PATH": f"{bin}:{os.environ['PATH']}"},
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.mark.spark
@pytest.mark.timeout(600)  # Spark is started three times
def test_the_quickstart_is_true_from_the_project_to_the_end(tmp_path: Path) -> None:
    """Every command behind the demo, as it is written there, but for the installation of pytest and the port, which
    another test may have."""
    check_quickstart(tmp_path, [sys.executable], keep=lambda line: line != "pip install pytest")


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.timeout(1800)
def test_the_quickstart_is_true_in_an_environment_made_as_the_readme_says(tmp_path: Path) -> None:
    said = (ROOT / "README.md").read_text(encoding="utf-8")
    asked = re.search(r"`pip install '(\.\[[a-z,]+\])'`", said)
    assert asked, "the README says how to install into an environment of one's own"
    fresh = tmp_path / "venv"
    subprocess.run([sys.executable, "-m", "venv", fresh], check=True)
    copy = tmp_path / "checkout"
    shutil.copytree(ROOT, copy, ignore=shutil.ignore_patterns(".git", ".venv", ".*_cache", ".hypothesis"))
    install = [fresh / "bin" / "pip", "install", "--quiet", "--disable-pip-version-check"]
    made = subprocess.run([*install, asked[1]], cwd=copy, capture_output=True, text=True, check=False)
    if made.returncode and re.search(r"Connection|Could not find a version|Temporary failure", made.stderr):
        pytest.skip(f"packages cannot be fetched here: {made.stderr.splitlines()[-1]}")
    assert made.returncode == 0, made.stderr
    shutil.rmtree(copy)  # what runs is what was installed
    check_quickstart(tmp_path, [str(fresh / "bin" / "python")])


def check_quickstart(tmp_path: Path, python: list[str], keep: Callable[[str], bool] = lambda line: True) -> None:
    """Run its commands in a shell whose `riverrun`, `python` and `pip` are those of an environment."""
    text = (ROOT / "docs" / "quickstart.md").read_text(encoding="utf-8").partition("## A project")[2]
    lines = []
    for language, block in re.findall(r"^```(sh|console)\n(.*?)^```$", text, re.DOTALL | re.MULTILINE):
        lines += [line.removeprefix("$ ") for line in block.splitlines() if language == "sh" or line.startswith("$ ")]
    lines = [line for line in lines if keep(line)]
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    said = run_in_a_shell(
        [re.sub(r"(?<=flow.py) &$", f" --port {port} &", line).replace(":8400/", f":{port}/") for line in lines],
        tmp_path,
        python,
    )
    assert "2 passed" in said
    assert f"served at http://127.0.0.1:{port}\n" in said
    assert '"position":"orders@' in said.replace(" ", "")
    last = said.rpartition("window_start")[2]
    rows = sorted(line.split() for line in last.splitlines() if "2026-01-31" in line)
    assert [(row[0], *row[-2:]) for row in rows] == [("mug", "1", "4.5"), ("tea", "3", "13.5")]


def test_source_that_pages_show_is_that_of_the_tree() -> None:
    shown = [
        (page, file, code)
        for page in PAGES
        for file, code in re.findall(
            r"^```python file=(\S+)\n(.*?)^```$", page.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE
        )
    ]
    assert shown
    for page, file, code in shown:
        assert code in (ROOT / file).read_text(encoding="utf-8"), f"{page.name} shows other code than {file} has"


def test_the_quickstart_shows_the_flow_of_the_starter_project() -> None:
    shown = blocks(ROOT / "docs" / "quickstart.md", "python")[0]
    docstring, _, code = template("flow.py").partition("\n\n")
    assert docstring.startswith('"""')
    assert shown == code


def test_the_order_that_the_quickstart_calls_late_has_corrected_its_minute() -> None:
    names: dict[str, Any] = {}
    exec("\n".join(blocks(ROOT / "docs" / "quickstart.md", "python")), names)
    assert names["result"].ledger_of("window")["corrected"] == 1
    assert names["result"].ledger_of("window")["late_dropped"] == 0


def test_the_quickstart_goes_on_in_the_directory_that_a_new_project_names(riverrun: Riverrun) -> None:
    """Whoever follows both has one river."""
    [made, *_] = [lines for lines in blocks(ROOT / "docs" / "quickstart.md", "console") if "riverrun new" in lines]
    assert made == "$ riverrun new shop\n$ cd shop\n"
    assert "Next: cd shop && riverrun run flow.py\n" in riverrun("new", "shop").out


@pytest.mark.parametrize(("name", "written"), [("cli.md", cli_page), ("settings.md", settings_page)])
def test_generated_pages_are_current(name: str, written: object) -> None:
    assert callable(written)
    found = (ROOT / "docs" / name).read_text(encoding="utf-8")
    assert found == written(), "Write it again: python -m riverrun.cli.reference docs"


def test_every_setting_and_command_is_documented() -> None:
    settings_text = (ROOT / "docs" / "settings.md").read_text(encoding="utf-8")
    assert [name for name, _, _ in Settings.table() if f"`{name}`" not in settings_text] == []
    cli_text = (ROOT / "docs" / "cli.md").read_text(encoding="utf-8")
    for group, commands in {
        "": (
            "capture",
            "dead",
            "demo",
            "demo break",
            "doctor",
            "new",
            "plan",
            "run",
            "serve",
            "version",
            "worker",
            "topic",
            "group",
            "view",
        ),
        "topic ": (
            "list",
            "create",
            "describe",
            "append",
            "tail",
            "read",
            "reset",
            "compact",
            "drop",
            "repair",
            "retain",
        ),
        "group ": ("list", "lag", "reset", "drop"),
        "view ": ("list", "get", "query", "watch"),
        "dead ": ("list", "resend"),
    }.items():
        assert [name for name in commands if f"## riverrun {group}{name}\n" not in cli_text] == []


def test_commands_and_settings_in_the_pages_exist() -> None:
    """A page may not announce `riverrun something` that there is not."""
    known = set(re.findall(r"^## riverrun ([a-z ]+)$", cli_page(), re.MULTILINE))
    tops = {name.split()[0] for name in known}
    for page in PAGES:
        for named in re.findall(r"`riverrun ([a-z]+(?: [a-z]+)?)", page.read_text(encoding="utf-8")):
            first, _, second = named.partition(" ")
            assert first in tops, f"{page.name}: riverrun {named}"
            if first in ("topic", "group") and second:
                assert named in known, f"{page.name}: riverrun {named}"


def test_links_and_files_exist() -> None:
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        for target, anchor in re.findall(r"\]\(([^)#:]+)(?:#([^)]+))?\)", text):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"
            if anchor:
                titles = re.findall(r"^#+ (.+)$", (page.parent / target).read_text(encoding="utf-8"), re.MULTILINE)
                named = {re.sub(r"[^\w -]", "", title).lower().replace(" ", "-") for title in titles}
                assert anchor in named, f"{page.name} links to {target}#{anchor}"
    architecture = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    for path in re.findall(r"`((?:[a-z_]+/)*[a-z_]+\.py)`", architecture):
        found = ROOT / path if path.startswith("tests/") else ROOT / "src" / "riverrun" / path
        assert found.exists(), f"ARCHITECTURE.md names {path}"
    for folder in re.findall(r"`((?:tests|cli|demo)/[a-z]*/?)`", architecture):
        found = ROOT / folder if folder.startswith("tests") else ROOT / "src" / "riverrun" / folder
        assert found.is_dir(), f"ARCHITECTURE.md names {folder}"


def test_make_targets_in_the_pages_exist() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    for page in PAGES:
        for target in re.findall(r"(?:^|`)make ([a-z-]+)", page.read_text(encoding="utf-8"), re.MULTILINE):
            assert target in targets, f"{page.name}: make {target}"


def test_what_is_said_not_to_be_there_yet_is_not(tmp_path: Path) -> None:
    """docs/when-not.md is honest in both ways: what has come since has to leave its list."""
    import riverrun as rr

    assert "capture" in REFUSALS  # of a river whose topics are on Kafka
    with (
        rr.River(tmp_path / "river", views="redis://localhost") as river,
        pytest.raises(rr.Invalid, match="no view store"),
    ):
        river.store.views()
    assert not hasattr(rr.Stream, "sql")
    assert [name for name in ("erase", "sql") if hasattr(rr.River, name)] == []
    commands = set(re.findall(r"^## riverrun ([a-z ]+)$", cli_page(), re.MULTILINE))
    assert commands.isdisjoint({"bridge", "erase"})


def test_the_types_of_databases_are_those_of_the_code() -> None:
    """The tables are in the docstrings of the modules that convert, too."""
    from riverrun.capture.mariadb import types as mariadb
    from riverrun.capture.postgres import types as postgres
    from riverrun.capture.sqlite import types as sqlite

    page = (ROOT / "docs" / "databases.md").read_text(encoding="utf-8")
    for types in (postgres, mariadb, sqlite):
        rows = [line for line in (types.__doc__ or "").splitlines() if line.startswith("| ")]
        assert len(rows) > 7
        assert [row for row in rows if row not in page] == []
