"""`riverrun doctor`: exit code 0 when well, 1 when not."""

from __future__ import annotations

import json
import socket
import subprocess
import uuid
from pathlib import Path
from typing import Any

import pytest

from riverrun.doctor import places
from riverrun.doctor.places import ask_executors, check_master
from s3_server import S3Server, shared_s3


def test_well(orders: Any) -> None:
    result = orders("doctor", "--json")
    assert (result.code, result.json["ok"]) == (0, True)
    shown = orders("doctor").out
    assert "✓ topic orders" in shown
    assert "checks passed" in shown


def test_not_well(orders: Any, tmp_path: Path) -> None:
    (tmp_path / "river" / "river.json").write_text('{"format": 99}')
    result = orders("doctor", "--json")
    assert (result.code, result.json["ok"]) == (1, False)
    shown = orders("doctor").out
    assert "✗ river" in shown
    assert "→ Upgrade Riverrun" in shown
    assert "1 of" in shown


def found(result: Any, name: str) -> list[tuple[str, str, str | None]]:
    return [(one["status"], one["found"], one["fix"]) for one in result.json["checks"] if one["name"] == name]


@pytest.fixture
def bucket() -> S3Server:
    return shared_s3()


def test_what_each_part_promises(orders: Any) -> None:
    result = orders("doctor", "--json")
    ((_, log, _),), ((_, checkpoints, _),) = found(result, "log"), found(result, "checkpoints")
    assert log == "in the river: appends are whole and durable, for processes of this machine"
    assert checkpoints.endswith("/river/flows: state is as durable as this disk")


def test_checkpoints_in_a_bucket(orders: Any, bucket: S3Server, tmp_path: Path) -> None:
    """As riverrun.toml says, which commands read for where things are."""
    place = f"{bucket.bucket}/{uuid.uuid4().hex}"
    (tmp_path / "riverrun.toml").write_text(f'checkpoints = "{place}"\n')
    ((status, said, _),) = found(orders("doctor", "--json"), "checkpoints")
    assert status == "ok"
    assert said.startswith(f"{place} was written, read and cleaned up in ")
    bucket.stop()
    try:
        result = orders("doctor", "--json")
    finally:
        bucket.start()
    assert result.code == 1
    ((status, said, fix),) = found(result, "checkpoints")
    assert (status, fix) == ("failed", "Start it, or correct AWS_ENDPOINT_URL")
    assert said.startswith(f"{place} does not answer")
    (tmp_path / "riverrun.toml").write_text('checkpoints = "s3://nowhere/flows"\n')
    ((status, said, fix),) = found(orders("doctor", "--json"), "checkpoints")
    assert (status, said) == ("failed", "s3://nowhere/flows: there is no such bucket")


def test_a_master_and_who_has_to_see_what(orders: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        master = f"spark://127.0.0.1:{listening.getsockname()[1]}"
        monkeypatch.setenv("RIVERRUN_MASTER", master)
        result = orders("doctor", "--json")
        assert found(result, "master")[0][:2] == ("ok", f"{master} answers: riverrun doctor --spark asks its executors")
        assert [one[0] for one in found(result, "log")] == ["ok", "warning"]
        ((status, said, fix),) = found(result, "checkpoints")
        assert status == "warning"
        assert "every machine must see" in said
        assert fix == 'If not all do: checkpoints = "s3://BUCKET/PREFIX"'
    gone = check_master(master)
    assert (gone.status, gone.fix) == ("failed", "Start it, or correct RIVERRUN_MASTER")
    assert check_master("k8s://https://cluster").status == "ok"
    assert check_master("spark://nonsense").status == "failed"


def answering(monkeypatch: pytest.MonkeyPatch, code: int, out: str, err: str = "") -> None:
    ran = subprocess.CompletedProcess([], code, out, err)
    monkeypatch.setattr(places.subprocess, "run", lambda *_, **__: ran)


def test_what_executors_lack(monkeypatch: pytest.MonkeyPatch) -> None:
    one = {"host": "a", "python": "3.11.7", "packages": {"polars": "2.1.0", "riverrun": "0.1.0"}}
    other = {"host": "b", "python": "3.11.7", "packages": {"polars": "1.9.9", "riverrun": None}}
    told = {"packages": {"polars": "2.1.0", "riverrun": "0.1.0"}, "executors": [one, other]}
    answering(monkeypatch, 0, json.dumps(told))
    good, bad = ask_executors("spark://m:1", None)
    assert (good.status, good.found) == ("ok", "a: Python 3.11.7 with the driver's packages")
    assert (bad.status, bad.found) == (
        "failed",
        "b: Python 3.11.7 lacks polars 2.1.0 (there: 1.9.9), riverrun 0.1.0 (there: none)",
    )
    assert bad.fix is not None
    assert "riverrun pack" in bad.fix
    answering(monkeypatch, 1, "", "long\nPython in worker has different version: 3.9 than that in driver: 3.11\n")
    (refused,) = ask_executors("spark://m:1", None)
    assert (refused.status, refused.found) == (
        "failed",
        "Python in worker has different version: 3.9 than that in driver: 3.11",
    )
