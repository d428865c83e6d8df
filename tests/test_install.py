"""What `make` installs is what was locked, down to the bytes."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parent.parent
LOCK = (ROOT / "requirements.lock").read_text(encoding="utf-8")


def locked() -> dict[str, bool]:
    """The packages of the lock, and whether each has hashes."""
    entries = re.split(r"\n(?=[a-z0-9])", LOCK)
    return {re.split(r"[=\[ ]", entry, maxsplit=1)[0]: "--hash=sha256:" in entry for entry in entries if entry.strip()}


def name(requirement: str) -> str:
    return re.split(r"[<>=!~\[; ]", requirement, maxsplit=1)[0]


def test_nothing_is_fetched_without_a_hash() -> None:
    """The build backend came from the index, newest and unchecked, and so did the tool that makes the lock."""
    installing = [
        line for line in (ROOT / "Makefile").read_text(encoding="utf-8").splitlines() if "pip install" in line
    ]
    assert installing
    for line in installing:
        assert "--require-hashes" in line or {"--no-deps", "--no-build-isolation"} <= set(line.split())
    assert all(locked().values())


def test_everything_that_is_needed_is_locked() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    extras = [one for extra in project["project"]["optional-dependencies"].values() for one in extra]
    wanted = [*project["build-system"]["requires"], *project["project"]["dependencies"], *extras]
    names = {name(one) for one in [*wanted, *project["dependency-groups"]["dev"], "editables", "uv"]} - {"riverrun"}
    assert names - set(locked()) == set()
