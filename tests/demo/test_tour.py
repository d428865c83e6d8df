"""The tour, once, as short as it can be; and that it fails when a claim does not hold."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from riverrun.demo.tour import scenes
from riverrun.demo.tour.stage import Stage


def test_the_tour_holds_what_it_claims(riverrun: Any, tmp_path: Path) -> None:
    result = riverrun("demo", "--log", "--for", "5s", "--river", "kept", "--json")
    assert result.code == 0, result.err
    checks = result.json["checks"]
    assert all(check["held"] for check in checks)
    assert len({check["scene"] for check in checks}) == len(scenes.SCENES)
    assert riverrun("topic", "describe", "orders", "--river", "kept", "--json").json["offsets"] > 0
    assert "kept is not empty" in riverrun("demo", "--log", "--river", "kept").error


def test_a_claim_that_does_not_hold_is_exit_code_1(riverrun: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def lie(stage: Stage) -> None:
        stage.scene("A lie", "Nothing is as it seems.")
        stage.check("two and two are five", 2 + 2 == 5, str(2 + 2))

    monkeypatch.setattr(scenes, "SCENES", (lie,))
    result = riverrun("demo", "--log")
    assert result.code == 1
    assert "✗ two and two are five: 4" in result.out
    assert "1 of 1 claims did not hold" in result.out


def test_a_process_that_fails_ends_the_tour(riverrun: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def stumble(stage: Stage) -> None:
        stage.scene("A fall", "")
        stage.start("append", "importer", 1)  # there is no topic yet
        stage.until(lambda: False, "a miracle")

    monkeypatch.setattr(scenes, "SCENES", (stumble,))
    result = riverrun("demo", "--log")
    assert result.code == 1
    assert "process importer failed" in result.err
