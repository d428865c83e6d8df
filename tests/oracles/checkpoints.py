"""A checkpoint as Spark leaves it, without Spark."""

from __future__ import annotations

import json
from pathlib import Path

from riverrun.checksums import with_checksum
from riverrun.runtime.checkpoint import Checkpoint
from riverrun.runtime.plan import Plan


def write(home: Path, planned: int, finished: int) -> Checkpoint:
    """Epoch n has read 10 n rows of topic t."""
    for kind in ("offsets", "commits"):
        (home / "checkpoint" / kind).mkdir(parents=True)
    (home / "checkpoint/metadata").write_text('{"id":"one"}')
    (home / "planner").mkdir()
    for epoch in range(1, planned + 1):
        plan = Plan(epoch, 0, {"t": {0: epoch * 10}}, {}, f"memory-{epoch}")
        (home / f"planner/memory-{epoch}").write_bytes(with_checksum(b"\x80"))  # msgpack: about no node
        (home / f"checkpoint/offsets/{epoch - 1}").write_text(f"v1\n{{}}\n{json.dumps(plan.to_json())}")
        (home / f"checkpoint/offsets/.{epoch - 1}.crc").touch()
    for epoch in range(1, finished + 1):
        (home / f"checkpoint/commits/{epoch - 1}").write_text("v1\n{}")
    return Checkpoint(str(home), "shop")
