"""The status of a flow, read from its home store and its directory, with or without a run."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

import msgspec

from riverrun.durations import FIRST, LAST, from_micros, wall_clock
from riverrun.errors import Corrupt, Transient, Unavailable
from riverrun.kernels.watermark import Watermarks
from riverrun.position import Position
from riverrun.runtime.home import planner_place
from riverrun.runtime.ledger import LedgerEntry
from riverrun.runtime.manifest import Manifest, SourceClock
from riverrun.runtime.planner_memory import read_memory
from riverrun.runtime.status import Lag, NodeSize, SlowProducer, SourceStatus, StateSize, StoredStatus
from riverrun.views import Last

_SILENT = 10_000_000  # whoever has said nothing for this long, while others went on, is named


def read_status(flow: str, last: Last, lag: Lag, home: str) -> StoredStatus:
    """`last` is the flow's newest epoch, `lag` how far its topics are beyond it, `home` the flow's directory."""
    now = wall_clock()
    manifest = Manifest.decode(last.manifest) if last.manifest else None
    ledger = msgspec.convert(last.ledger or (), tuple[LedgerEntry, ...])
    return StoredStatus(
        flow=flow,
        epoch=last.epoch,
        positions=str(Position(last.positions)),
        committed=from_micros(last.committed) if last.epoch else None,
        finished=bool(manifest and manifest.final),
        lag=lag,
        sources=_read_sources(manifest, home, now) if manifest else (),
        late=sum(entry.late for entry in ledger),
        state_size=_measure_state(manifest) if manifest else StateSize(),
        fence=last.fence,
        run=last.run,
        ledger=ledger,
        rules_off=_rules_off(manifest, last, home) if manifest else {},
    )


def _rules_off(manifest: Manifest, last: Last, home: str) -> dict[str, str]:
    if not any(node.startswith("match_rules-") for node in manifest.nodes):
        return {}
    from riverrun.runtime.rule_figures import read_figures  # which reads state, as few flows need

    return {one.rule_id: one.off for one in read_figures(last, home) if one.off is not None}


def _read_sources(manifest: Manifest, home: str, now: int) -> tuple[SourceStatus, ...]:
    remembered: Mapping[str, bytes] = {}
    if manifest.memory:
        try:
            remembered = read_memory(planner_place(home), manifest.memory)
        except (
            FileNotFoundError,
            Corrupt,
            Transient,
            Unavailable,
        ):  # a run went on meanwhile, the checkpoint is elsewhere; else a run says it
            pass
    return tuple(_source(name, clock, remembered.get(name), now) for name, clock in manifest.sources.items())


def _source(name: str, clock: SourceClock, remembered: bytes | None, now: int) -> SourceStatus:
    watermark = _moment(clock.watermark)
    if watermark is None:
        return SourceStatus(name, clock.topic)
    producers = Watermarks.from_bytes(remembered, clock.lateness, clock.idle) if remembered else Watermarks()
    held_by = tuple(SlowProducer(one.producer, _moment(one.time), _moment(one.heard)) for one in producers.holders())
    silent = producers.silence(_SILENT)
    return SourceStatus(
        name,
        clock.topic,
        watermark,
        _seconds(now - clock.watermark),
        held_by,
        silent=None if silent is None else _seconds(now - silent),
        named=clock.named,
    )


def _measure_state(manifest: Manifest) -> StateSize:
    nodes = {}
    for node, shards in manifest.nodes.items():
        tables = [table for entry in shards.values() for table in entry["tables"].values()]
        runs = [run for table in tables for run in table["runs"]]
        inline = sum(len(table["tail"] or b"") for table in tables)
        nodes[node] = NodeSize(sum(run["size"] for run in runs) + inline, len(runs))
    sizes = nodes.values()
    return StateSize(sum(one.bytes for one in sizes), sum(one.files for one in sizes), nodes)


def _moment(micros: int) -> datetime | None:
    """None for the beginning and the end of time, and for what no calendar has."""
    return from_micros(micros) if FIRST <= micros <= LAST else None


def _seconds(micros: int) -> float:
    return round(max(micros, 0) / 1e6, 3)
