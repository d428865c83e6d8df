"""`riverrun …` in this process, in a directory of its own."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from riverrun.cli import main


@dataclass(frozen=True)
class Result:
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def lines(self) -> list[Any]:
        return [json.loads(line) for line in self.out.splitlines()]

    @property
    def error(self) -> str:
        """The one line that a mistake gives."""
        assert self.code == 2, self
        assert self.err.count("\n") == 1, self.err
        assert "Traceback" not in self.err
        return self.err.removeprefix("riverrun: ").rstrip("\n")


Riverrun = Callable[..., Result]


@pytest.fixture
def riverrun(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Riverrun:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("RIVERRUN_RIVER", raising=False)
    monkeypatch.delenv("RIVERRUN_DEBUG", raising=False)

    def run(*args: str) -> Result:
        capsys.readouterr()
        code = main(list(args))
        captured = capsys.readouterr()
        return Result(code, captured.out, captured.err)

    return run


@pytest.fixture
def orders(riverrun: Riverrun) -> Riverrun:
    """A river with the topic `orders`."""
    schema = "id bigint, user string, amount double, price decimal(8,2), at timestamp, tags array<string>"
    made = riverrun("topic", "create", "orders", "--schema", schema, "--key", "user", "--time", "at")
    assert made.code == 0, made
    return riverrun
