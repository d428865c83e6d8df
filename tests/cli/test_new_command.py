"""`riverrun new`: what it makes works."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import riverrun as rr
from riverrun.cli.new_command import FILES


def test_a_starter_project_passes_its_own_tests(riverrun: Any, tmp_path: Path) -> None:
    made = riverrun("new", "my shop")
    assert made.code == 0
    assert "cd 'my shop'" in made.out
    project = tmp_path / "my shop"
    assert sorted(path.name for path in project.iterdir()) == sorted(FILES)
    assert (project / "README.md").read_text().startswith("# my shop\n")
    done = subprocess.run([sys.executable, "-m", "pytest", "-q"], cwd=project, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
    assert "2 passed" in done.stdout


def test_its_settings_open_a_river(riverrun: Any, tmp_path: Path, monkeypatch: Any) -> None:
    assert riverrun("new", "shop", "--json").json["files"] == list(FILES)
    monkeypatch.chdir(tmp_path / "shop")
    with rr.River.from_config() as river:
        assert river.path == str(tmp_path / "shop" / "river")


def test_nothing_is_overwritten(riverrun: Any, tmp_path: Path) -> None:
    (tmp_path / "shop").mkdir()
    assert riverrun("new", "shop").code == 0
    assert "shop is there already" in riverrun("new", "shop").error
    (tmp_path / "file").write_text("")
    assert "file is there already" in riverrun("new", "file").error
