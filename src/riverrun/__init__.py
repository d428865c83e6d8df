"""Riverrun: events in a durable log, results that are fresh and right.

    import riverrun as rr

    with rr.River("./river") as river:
        orders = river.topic("orders", "user string, amount double, at timestamp", key="user", time="at")

Read the code in this order:

1. `river` — a deployment: where things live. `position` — how far something is. `errors`, `durations`, `settings`.
2. `log.topic` — what people call. `log.spec`, `ddl`, `log.rows` — what a topic is, and how rows are checked.
3. `log.embedded`, `log.journal`, `log.board`, `log.frame`, `log.codec` — an append, down to the bytes. `log.recovery` —
   and up again after a crash.
4. `log.producer`, `log.consumer`, `log.queue`, `log.groups` — sending and reading, alone and together.
5. `log.retention`, `log.compaction` — what is removed, and when.
6. `flow` — what to compute, as data. `kernels`, `state` — stateful operators and what they remember, without Spark.
7. `runtime` — a flow made ready: branches, stages, the plan of an epoch, its commit. `spark` — driving it with Spark.
8. `views` — results in SQLite and PostgreSQL.
9. `intake` — what comes as text. `serve` — HTTP: events in, views and streams of changes out, and the dashboard. `alerts`
   — messages about rows and about runs. `testing` — flows on lists of rows, without Spark.
10. `cli`, `doctor` — for people. `demo.shop` is what `riverrun demo` plays, `demo.tour` what `riverrun demo --log` does.

ARCHITECTURE.md follows one event through these files. Nothing is done at import: names are loaded when they are used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from riverrun.errors import (
    Busy,
    Closed,
    Conflict,
    Corrupt,
    DiskFull,
    Fenced,
    Invalid,
    NewerFormat,
    NotFound,
    OutOfRange,
    PortInUse,
    RecordTooLarge,
    RiverrunError,
    TimedOut,
    Transient,
    Unavailable,
)

if TYPE_CHECKING:
    from riverrun.flow import Flow, Stream, Table
    from riverrun.flow.aggregates import (
        approx_distinct,
        approx_quantile,
        avg,
        collect,
        count,
        distinct,
        first,
        last,
        max,
        min,
        quantile,
        rate,
        stddev,
        sum,
        top,
    )
    from riverrun.flow.windows import correct, drop, hopping, session, side, sliding, tumbling
    from riverrun.log.consumer import Consumer
    from riverrun.log.producer import Producer
    from riverrun.log.queue import Message, Queue
    from riverrun.log.spec import TopicSpec
    from riverrun.log.topic import Topic
    from riverrun.position import Position
    from riverrun.river import River
    from riverrun.settings import Settings
    from riverrun.views import View

__all__ = [
    "Busy",
    "Closed",
    "Conflict",
    "Consumer",
    "Corrupt",
    "DiskFull",
    "Fenced",
    "Flow",
    "Invalid",
    "Message",
    "NewerFormat",
    "NotFound",
    "OutOfRange",
    "PortInUse",
    "Position",
    "Producer",
    "Queue",
    "RecordTooLarge",
    "River",
    "RiverrunError",
    "Settings",
    "Stream",
    "Table",
    "TimedOut",
    "Topic",
    "TopicSpec",
    "Transient",
    "Unavailable",
    "View",
    "approx_distinct",
    "approx_quantile",
    "avg",
    "collect",
    "correct",
    "count",
    "distinct",
    "drop",
    "first",
    "hopping",
    "last",
    "max",
    "min",
    "quantile",
    "rate",
    "session",
    "side",
    "sliding",
    "stddev",
    "sum",
    "top",
    "tumbling",
]

# Behind these names are pyarrow, numpy and sqlglot, which take longer to load than most commands take to run.
_WINDOWS = ("correct", "drop", "hopping", "session", "side", "sliding", "tumbling")
_AGGREGATES = (
    "approx_distinct",
    "approx_quantile",
    "avg",
    "collect",
    "count",
    "distinct",
    "first",
    "last",
    "max",
    "min",
    "quantile",
    "rate",
    "stddev",
    "sum",
    "top",
)
_WHERE = {
    **dict.fromkeys(("Flow", "Stream", "Table"), "riverrun.flow"),
    **dict.fromkeys(_WINDOWS, "riverrun.flow.windows"),
    **dict.fromkeys(_AGGREGATES, "riverrun.flow.aggregates"),
    "Consumer": "riverrun.log.consumer",
    "Message": "riverrun.log.queue",
    "Position": "riverrun.position",
    "Producer": "riverrun.log.producer",
    "Queue": "riverrun.log.queue",
    "River": "riverrun.river",
    "Settings": "riverrun.settings",
    "Topic": "riverrun.log.topic",
    "TopicSpec": "riverrun.log.spec",
    "View": "riverrun.views",
}


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import version

        return version("riverrun")
    if name not in _WHERE:
        raise AttributeError(f"module 'riverrun' has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(_WHERE[name]), name)
    return value


def __dir__() -> list[str]:
    return [*globals(), *_WHERE, "__version__"]
