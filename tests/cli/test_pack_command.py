"""`riverrun pack`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from riverrun import environment_archive
from riverrun.environment_archive import Packed


def test_pack(riverrun: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def pack(target: str, more: Any) -> Packed:
        asked.append((target, list(more)))
        return Packed(target, 2_500_000, ("riverrun 0.1.0", "numpy 2.4.6"))

    monkeypatch.setattr(environment_archive, "pack_environment", pack)
    assert riverrun("pack").out == "environment.tar.gz: 2 MB, Python and 2 packages\n"
    shown = riverrun("pack", "mine.tgz", "--with", "shop", "--with", "tax", "--json").json
    assert shown == {"path": "mine.tgz", "size": 2_500_000, "distributions": ["riverrun 0.1.0", "numpy 2.4.6"]}
    assert asked == [("environment.tar.gz", []), ("mine.tgz", ["shop", "tax"])]


def test_a_mistake_is_one_line(riverrun: Any, tmp_path: Path) -> None:
    failed = riverrun("pack", "x.tgz", "--with", "no-such-package")
    assert failed.code == 2
    assert "no package 'no-such-package' is installed here" in failed.err
    assert not (tmp_path / "x.tgz").exists()
