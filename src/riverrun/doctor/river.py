"""The river: its format, who can enter it, every topic, group and capture."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator, Mapping
from datetime import datetime
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from riverrun import durable
from riverrun.doctor.check import Check
from riverrun.doctor.places import check_places
from riverrun.doctor.views import check_flows, check_stores
from riverrun.durations import to_micros, wall_clock
from riverrun.errors import RiverrunError
from riverrun.log.receive_clock import AHEAD, describe_lead

if TYPE_CHECKING:
    from riverrun.river import River


def check_river(path: str, places: Mapping[str, Any] = MappingProxyType({})) -> Iterator[Check]:
    """The river's format, every topic, every group."""
    if "log" not in places and not os.path.exists(f"{path}/river.json"):
        if os.path.isdir(path) and os.listdir(path):
            yield Check(
                "river", "failed", f"{path} has files, but is not a river", "Give the river's directory: --river DIR"
            )
        else:
            yield Check("river", "ok", f"none in {path} yet")
        return
    from riverrun.river import River

    try:
        with River(path, **places) as river:
            names, where = river.topics(), f" on {river.log_address}" if river.log_address else ""
            yield Check("river", "ok", f"{river.path} with {len(names)} topics{where}")
            yield from check_privacy(river)
            yield from check_places(river)
            yield from check_flows(river)
            yield from check_stores(river)
            for name in names:
                yield check_topic(river, name)
            for group in river.groups.list():
                yield check_group(river, group["group"])
            for capture in river.captures():
                yield check_capture(capture)
    except RiverrunError as error:
        yield Check("river", "failed", error.message, error.hint or "Restore the river from a copy")


def check_privacy(river: River) -> Iterator[Check]:
    """Nobody else on this machine can read what is in it, or hold its locks."""
    views = [] if "//" in river.views_address else [os.path.abspath(river.views_address)]
    inside = f"{river.path}/"
    for path in [river.path, *(p for p in (os.path.abspath(river.checkpoints), *views) if not p.startswith(inside))]:
        found = durable.exposure(path) if os.path.exists(path) else None
        if found is not None:
            fix = f"Let it belong to who runs the flows, and to nobody else: chmod go= {shlex.quote(path)}"
            yield Check("privacy", "warning", f"{path}: {found}", fix)


def check_topic(river: River, name: str) -> Check:
    """It opens (which checks its tail) and accepts writes."""
    title = f"topic {name}"
    try:
        with river.briefly(name) as topic:
            described = topic.describe()
            failed = topic.backend.has_failed
    except RiverrunError as error:
        return Check(title, "failed", error.message, error.hint or f"Try: riverrun topic repair {name}")
    if failed:
        fix = f"Check the disk, then run: riverrun topic repair {name}"
        return Check(title, "failed", "accepts no writes: an fsync failed", fix)
    received, now = described["received"], wall_clock()
    if received and (last := to_micros(datetime.fromisoformat(received))) > now + AHEAD:
        fix = "Set the clock right. If it is, wait until then, or copy the rows into a new topic"
        return Check(title, "warning", describe_lead(last, now), fix)
    size = "" if described["bytes"] is None else f", {described['bytes'] / 1e6:.1f} MB"  # Kafka does not tell
    return Check(title, "ok", f"{described['offsets']} offsets{size}")


def check_capture(told: dict[str, Any]) -> Check:
    """It captures what it should, or was stopped in order."""
    name, state, fix = f"capture {told['name']}", told["state"], "riverrun capture … goes on where it stopped"
    if state in ("failed", "gone"):
        return Check(name, "failed", f"{state}: {told['reason']}", fix)
    stopped = {table: one["reason"] for table, one in told.get("tables", {}).items() if one["state"] == "stopped"}
    if stopped:
        return Check(
            name, "warning", "; ".join(f"{table}: {why}" for table, why in stopped.items()), "As the reason says"
        )
    return Check(name, "ok", f"{state} at {told.get('position')}")


def check_group(river: River, name: str) -> Check:
    """What it will read next is still there."""
    try:
        lag = river.lag(name)
    except RiverrunError as error:
        return Check(f"group {name}", "failed", error.message, error.hint or f"riverrun group lag {name} says more")
    for topic, part in lag["topics"].items():
        lost = sum(one["lost"] for one in part["partitions"].values())
        if lost:
            fix = f"Keep rows longer, and let it go on: riverrun group reset {name} {topic} --to earliest"
            return Check(f"group {name}", "failed", f"{lost} rows of {topic} were removed before it read them", fix)
    return Check(f"group {name}", "ok", f"{lag['rows']} rows, {lag['seconds']:.0f} s behind")
