"""Commands whose stdin, stdout or stderr was closed before they began: as other commands of the system."""

from __future__ import annotations

import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from riverrun.river import River

BAD = "Bad file descriptor\n"


@pytest.mark.parametrize(
    ("command", "closed", "code", "said", "rows"),
    [
        ("topic list", ">&-", 1, f"riverrun: stdout: {BAD}", 0),
        ("topic append t", ">&-", 1, f"riverrun: stdout: {BAD}", 1),  # what was done is done
        ("topic append t", "<&-", 1, f"riverrun: {BAD}", 0),
        ("topic append t", "2>&-", 0, "", 1),
        ("topic list", ">/dev/full", 1, "No space left on device\n", 0),
    ],
)
def test_closed_streams(tmp_path: Path, command: str, closed: str, code: int, said: str, rows: int) -> None:
    with River(tmp_path / "river") as river:
        river.topic("t", "a bigint", fsync="os")
    line = f"{shlex.quote(sys.executable)} -m riverrun.cli {command} {closed}"
    ran = subprocess.run(
        ["sh", "-c", line], cwd=tmp_path, input='{"a":1}\n', capture_output=True, text=True, check=False
    )
    assert ran.returncode == code, ran
    assert ran.stderr.endswith(said)
    assert ran.stderr.count("\n") <= 1
    with River(tmp_path / "river") as river:
        assert river.topic("t").read().num_rows == rows
