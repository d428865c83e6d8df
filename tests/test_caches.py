"""Where the cache is, and whom it is taken from."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pyarrow as pa
import pytest

from riverrun.caches import cache_directory
from riverrun.errors import Unavailable
from riverrun.state.file_cache import FileCache


@pytest.fixture
def homeless(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The cache of a user who has no home, as on an executor."""
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "none"))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path / f"riverrun-{os.getuid()}"


def test_a_user_has_it_at_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cache_directory() == f"{tmp_path}/.cache/riverrun"
    monkeypatch.setenv("XDG_CACHE_HOME", "/elsewhere")
    assert cache_directory() == "/elsewhere/riverrun"


def test_without_a_home_it_is_private_below_the_directory_for_temporary_files(homeless: Path) -> None:
    assert cache_directory() == str(homeless) == cache_directory()
    assert homeless.stat().st_mode & 0o077 == 0


def test_a_directory_that_others_can_write_to_is_not_believed(homeless: Path) -> None:
    homeless.mkdir()
    homeless.chmod(0o777)
    with pytest.raises(Unavailable, match="others can write there"):
        cache_directory()


def test_a_link_that_lies_in_its_place_is_not_followed(homeless: Path, tmp_path: Path) -> None:
    homeless.symlink_to(tmp_path)
    with pytest.raises(Unavailable, match="others can write there"):
        cache_directory()


def test_a_cache_that_cannot_be_made_keeps_nobody_from_reading(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "none"))
    (tmp_path / "no directory").touch()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "no directory"))
    cache = FileCache(cache_directory(), 100)
    cache.keep("a", pa.py_buffer(b"abc"))
    assert cache.find("a") is None
