"""A password is planted in the address of a store, everything goes wrong, and nothing tells it."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from derived_run import Everywhere
from redis_server import new_redis
from riverrun.cli import main
from riverrun.errors import RiverrunError, Unavailable
from riverrun.river import River

SECRET = "hunter2-s3cr3t"


def test_nothing_tells(tmp_path: Path, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    server = new_redis()
    with server.client() as client:
        client.config_set("requirepass", SECRET)
    at = f"127.0.0.1:{server.port}/0"
    run = Everywhere(
        tmp_path / "river",
        {"redis": f"redis://:{SECRET}@{at}?prefix=a:", "named": f"redis://:${{CACHE}}@{at}?prefix=b:"},
    )
    run.feed(20)
    told = [run.complete(environment={"CACHE": SECRET})]
    wrong = Everywhere.__new__(Everywhere)
    wrong.__dict__.update(run.__dict__)
    wrong.stores = {"redis": f"redis://:{SECRET}x@{at}?prefix=a:", "named": run.stores["named"]}
    told.append(wrong.run("--rebuild", environment={"CACHE": "wrong" + SECRET}))
    assert told[-1].returncode == 1
    server.remove()
    told.append(run.run(environment={"CACHE": SECRET}))
    with River(run.path) as river:
        views = river.store.views()
        assert {spec.to for spec in views if spec.to} == {
            f"redis://:…@{at}?prefix=a:",
            f"redis://:${{CACHE}}@{at}?prefix=b:",
        }
        with pytest.raises(Unavailable, match=r"Write \$\{NAME\} in the address"):
            river.view("totals-redis").rows()
        with pytest.raises(Unavailable, match="the environment has no CACHE"):
            river.view("totals-named").rows()
        try:
            river.store.drop("totals-redis")
        except RiverrunError as error:
            told.append(error)
        said = [repr(views), repr(river), repr(river.store), *map(repr, told), *map(str, told)]
    for command in (["view", "list"], ["view", "get", "totals-redis"], ["view", "get", "totals-named"], ["doctor"]):
        main([*command, "--river", str(run.path)])
    said += [caplog.text, *capfd.readouterr()]
    assert [text for text in said if SECRET in text] == []
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert len(files) > 10
    assert [path for path in files if SECRET.encode() in path.read_bytes()] == []
