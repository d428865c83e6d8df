"""How commands fail: one line, an exit code, never a traceback; and how fast they start."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

COMMAND = [sys.executable, "-m", "riverrun.cli"]


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["frobnicate"], "No such command 'frobnicate'. See: riverrun --help"),
        (["topic", "craete"], "No such command 'craete'. Did you mean 'create'? See: riverrun topic --help"),
        (["topic", "create"], "Missing argument 'NAME'"),
        (["topic", "create", "t"], "Missing option '--schema'"),
        (["topic", "create", "t", "--schema", "a int", "--colour", "red"], "No such option"),
        (["topic", "create", "t", "--schema", "a itn"], "'itn'"),
        (["topic", "create", "../t", "--schema", "a int"], "'../t' cannot be the name of a topic"),
        (["topic", "create", "t", "--schema", "a int", "--retention", "7 foo"], "not a duration: '7 foo'"),
        (["topic", "create", "t", "--schema", "a int", "--retention-bytes", "much"], "not a size: 'much'"),
        (["topic", "create", "t", "--schema", "a int", "--key", "b"], "key 'b' is not a column"),
        (["topic", "create", "t", "--schema", "a int", "--partitions", "0"], "partitions must be from 1"),
        (["topic", "create", "t", "--schema", "a int", "--compression", "zip"], "compression"),
        (["topic", "list"], "there is no river in ./river"),
        (["topic", "list", "--river", "nowhere"], "there is no river in nowhere"),
        (["group", "lag", "x"], "there is no river"),
        (["demo", "--for", "a while"], "not a duration: 'a while'"),
    ],
)
def test_a_mistake_is_one_line_and_exit_code_2(riverrun: Any, arguments: list[str], why: str) -> None:
    assert why in riverrun(*arguments).error


def test_neither_looking_nor_a_mistake_makes_a_river(riverrun: Any, tmp_path: Path) -> None:
    riverrun("topic", "list")
    riverrun("topic", "tail", "x")
    riverrun("topic", "create", "t", "--schema", "a itn")
    riverrun("doctor")
    assert not (tmp_path / "river").exists()


def test_a_directory_that_is_no_river(riverrun: Any, tmp_path: Path) -> None:
    (tmp_path / "river").mkdir()
    (tmp_path / "river" / "notes.txt").touch()
    assert "./river is not a river" in riverrun("topic", "list").error
    assert "is not a river" in riverrun("topic", "create", "t", "--schema", "a int").error


def test_the_river_may_be_named_by_the_environment(
    riverrun: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RIVERRUN_RIVER", str(tmp_path / "elsewhere"))
    assert riverrun("topic", "create", "t", "--schema", "a int").code == 0
    assert (tmp_path / "elsewhere" / "river.json").exists()
    assert [one["name"] for one in riverrun("topic", "list", "--json").json] == ["t"]


def test_damage_is_no_mistake(orders: Any, tmp_path: Path) -> None:
    (tmp_path / "river" / "river.json").write_text("{")
    result = orders("topic", "list")
    assert (result.code, result.err.count("\n")) == (1, 1)
    assert "river.json cannot be read" in result.err


def test_an_unexpected_error_is_one_line_and_a_traceback_on_demand(
    riverrun: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise OSError(5, "Input/output error", "/somewhere")

    monkeypatch.setattr("riverrun.river.River", broken)
    result = riverrun("topic", "create", "t", "--schema", "a int")
    assert (result.code, result.err) == (1, "riverrun: /somewhere: Input/output error\n")
    monkeypatch.setenv("RIVERRUN_DEBUG", "1")
    assert "Traceback" in riverrun("topic", "create", "t", "--schema", "a int").err


@pytest.mark.parametrize("arguments", [[], ["topic"], ["group"], ["--help"], ["topic", "append", "--help"]])
def test_help_is_on_stdout(riverrun: Any, arguments: list[str]) -> None:
    result = riverrun(*arguments)
    assert (result.code, result.err) == (0, "")
    assert result.out.startswith("Usage: riverrun")


def test_version(riverrun: Any) -> None:
    assert riverrun("version").out == riverrun("--version").out
    assert riverrun("version", "--json").json["riverrun"] in riverrun("version").out


@pytest.mark.parametrize("arguments", [["version"], ["--help"], ["topic", "append", "--help"]])
def test_what_needs_no_log_does_not_load_it(arguments: list[str]) -> None:
    check = (
        "import sys; from riverrun.cli import main; main(sys.argv[1:]); "
        "sys.exit([m for m in ('pyarrow', 'numpy', 'rich', 'msgspec', 'sqlite3') if m in sys.modules] or 0)"
    )
    done = subprocess.run([sys.executable, "-c", check, *arguments], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_closed_pipe_is_no_error(orders: Any, tmp_path: Path) -> None:
    line = '"user":"ada","at":"2026-01-01T10:00:00Z"}\n'
    (tmp_path / "a.ndjson").write_text("".join(f'{{"id":{i},{line}' for i in range(20_000)))
    assert orders("topic", "append", "orders", "a.ndjson").code == 0
    for options in (["--json"], []):
        reading = subprocess.Popen(
            [*COMMAND, "topic", "read", "orders", *options], stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        assert reading.stdout is not None
        assert reading.stderr is not None
        reading.stdout.readline()
        reading.stdout.close()
        assert (reading.wait(30), reading.stderr.read()) == (0, b"")
        reading.stderr.close()


def test_ctrl_c_ends_a_tail_quietly(orders: Any, tmp_path: Path) -> None:
    line = '{"id":1,"user":"ada","at":"2026-01-01T10:00:00Z"}\n'
    (tmp_path / "a.ndjson").write_text(line)
    tail = subprocess.Popen(
        [*COMMAND, "topic", "tail", "orders", "-f", "--json"], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert tail.stdout is not None
    assert tail.stderr is not None
    orders("topic", "append", "orders", "a.ndjson")
    assert b'"user":"ada"' in tail.stdout.readline()
    before = os.times()
    used = _processor_time(tail.pid)
    time.sleep(1)
    assert _processor_time(tail.pid) - used < 0.1 * (os.times().elapsed - before.elapsed)  # it waits, it does not look
    tail.send_signal(signal.SIGINT)
    assert (tail.wait(30), tail.stderr.read()) == (130, b"")
    tail.stdout.close()
    tail.stderr.close()


def _processor_time(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
