"""Where a flow is: what its home store and its directory say, with or without a run."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from riverrun.durations import wall_clock
from riverrun.kernels.kernel import MAX_TIME, MIN_TIME
from riverrun.kernels.watermark import Watermarks
from riverrun.position import Position
from riverrun.runtime.manifest import Manifest, SourceClock
from riverrun.runtime.planner_memory import read_memory
from riverrun.views import Last

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def flow_status(flow: str, last: Last, ends: Mapping[str, Mapping[int, int]], home: str) -> dict[str, Any]:
    """Plain data, times as texts. `ends` is where each of its topics ends now, `home` the flow's directory."""
    now = wall_clock()
    manifest = Manifest.decode(last.manifest) if last.manifest else None
    return {
        "flow": flow,
        "epoch": last.epoch,
        "positions": str(Position(last.positions)),
        "committed": moment(last.committed) if last.epoch else None,
        "finished": bool(manifest and manifest.final),
        "lag": _lag(last, ends, now),
        "sources": _sources(manifest, home, now) if manifest else [],
        "late": sum(entry["late_dropped"] + entry["late_aside"] for entry in last.ledger or []),
        "state_size": _state_size(manifest) if manifest else {"bytes": 0, "files": 0, "nodes": {}},
    }


def moment(micros: int) -> str | None:
    """A time as text; None for the beginning and the end of time."""
    if not MIN_TIME < micros < MAX_TIME:
        return None
    return (_EPOCH + timedelta(microseconds=micros)).isoformat().replace("+00:00", "Z")


def _lag(last: Last, ends: Mapping[str, Mapping[int, int]], now: int) -> dict[str, Any]:
    """Rows (counted by offsets) not yet processed; seconds since everything received by then was."""
    topics = {
        name: sum(max(offset - last.positions.get(name, {}).get(p, 0), 0) for p, offset in parts.items())
        for name, parts in ends.items()
    }
    rows = sum(topics.values())
    return {"rows": rows, "seconds": _seconds(now - last.received) if rows and last.epoch else 0.0, "topics": topics}


def _sources(manifest: Manifest, home: str, now: int) -> list[dict[str, Any]]:
    remembered: Mapping[str, bytes] = {}
    if manifest.memory:
        try:
            remembered = read_memory(f"{home}/planner", manifest.memory)
        except FileNotFoundError:  # a run went on meanwhile, or the checkpoint is elsewhere
            pass
    return [_source(name, clock, remembered.get(name), now) for name, clock in manifest.sources.items()]


def _source(name: str, clock: SourceClock, remembered: bytes | None, now: int) -> dict[str, Any]:
    """A source's watermark, how far it is behind the wall clock, and the producers it waits for."""
    holders = Watermarks.from_bytes(remembered, clock.lateness, clock.idle).holders() if remembered else []
    known = MIN_TIME < clock.watermark < MAX_TIME
    return {
        "source": name,
        "topic": clock.topic,
        "watermark": moment(clock.watermark),
        "behind": _seconds(now - clock.watermark) if known else None,
        "held_by": [
            {"producer": holder.producer, "time": moment(holder.time), "heard": moment(holder.heard)}
            for holder in holders
            if known
        ],
    }


def _state_size(manifest: Manifest) -> dict[str, Any]:
    """What the state takes: files, and bytes in them and in the manifest itself."""
    nodes = {}
    for node, shards in manifest.nodes.items():
        tables = [table for entry in shards.values() for table in entry["tables"].values()]
        runs = [run for table in tables for run in table["runs"]]
        inline = sum(len(table["tail"] or "") for table in tables)
        nodes[node] = {"bytes": sum(run["size"] for run in runs) + inline * 3 // 4, "files": len(runs)}
    total = {kind: sum(node[kind] for node in nodes.values()) for kind in ("bytes", "files")}
    return {**total, "nodes": nodes}


def _seconds(micros: int) -> float:
    return round(max(micros, 0) / 1e6, 3)
