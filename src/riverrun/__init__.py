"""Riverrun: events in a durable log, results that are fresh and right.

    import riverrun as rr

    with rr.River("./river") as river:
        orders = river.topic("orders", "user string, amount double, at timestamp", key="user", time="at")

Read the code in this order:

1. `river` — a deployment: where things live. `position` — how far something is. `errors`, `durations`, `settings`,
   `durable` — what everything is built on.
2. `log.topic` — what people call. `log.spec`, `ddl`, `log.rows` — what a topic is, and how rows are checked.
   `log.topic_backend` — what a log supplies for a topic, and promises.
3. `log.embedded`, `log.journal`, `log.board`, `log.frame`, `log.codec` — an append, down to the bytes. `log.recovery` —
   and up again after a crash.
4. `log.producer`, `log.consumer`, `log.queue`, `log.groups` — sending and reading, alone and together.
5. `log.retention`, `log.compaction` — what is removed, and when.
6. `flow` — what to compute, as data. `kernels`, `state` — stateful operators and what they remember, without Spark.
   `patterns` — sequences of rows, matched. `rules` — patterns that are rows of a table. `search` — stored queries, and which
   of them documents meet.
7. `runtime` — a flow made ready: branches, stages, the plan of an epoch, its commit. `spark` — driving it with Spark.
8. `views` — results in SQLite and PostgreSQL; `views.derived` — in Redis, search indexes and Delta tables, too.
9. `intake` — what comes as text. `serve` — HTTP: events in, views and streams of changes out, and the dashboard. `alerts`
   — messages about rows and about runs. `testing` — flows on lists of rows, without Spark.
10. `cli`, `doctor` — for people. `demo.shop` is what `riverrun demo` plays, `demo.tour` what `riverrun demo --log` does.

ARCHITECTURE.md follows one event through these files. Nothing is done at import: names are loaded when they are used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

# Every public name and the module it is in. Most of these load pyarrow, numpy or sqlglot, which takes longer than most
# commands take to run, so a name is loaded when it is first used.
_MODULES = {
    "Alerts": "riverrun.alerts.alerts",
    "Busy": "riverrun.errors",
    "Closed": "riverrun.errors",
    "Conflict": "riverrun.errors",
    "Corrupt": "riverrun.errors",
    "DiskFull": "riverrun.errors",
    "Fenced": "riverrun.errors",
    "Invalid": "riverrun.errors",
    "NewerFormat": "riverrun.errors",
    "NotFound": "riverrun.errors",
    "OlderFormat": "riverrun.errors",
    "OutOfRange": "riverrun.errors",
    "PortInUse": "riverrun.errors",
    "RecordTooLarge": "riverrun.errors",
    "RiverrunError": "riverrun.errors",
    "TimedOut": "riverrun.errors",
    "Transient": "riverrun.errors",
    "Unavailable": "riverrun.errors",
    "VersionConflict": "riverrun.errors",
    "Flow": "riverrun.flow",
    "Stream": "riverrun.flow",
    "Table": "riverrun.flow",
    "approx_distinct": "riverrun.flow.aggregates",
    "approx_quantile": "riverrun.flow.aggregates",
    "avg": "riverrun.flow.aggregates",
    "collect": "riverrun.flow.aggregates",
    "count": "riverrun.flow.aggregates",
    "distinct": "riverrun.flow.aggregates",
    "first": "riverrun.flow.aggregates",
    "last": "riverrun.flow.aggregates",
    "max": "riverrun.flow.aggregates",
    "min": "riverrun.flow.aggregates",
    "quantile": "riverrun.flow.aggregates",
    "rate": "riverrun.flow.aggregates",
    "stddev": "riverrun.flow.aggregates",
    "sum": "riverrun.flow.aggregates",
    "top": "riverrun.flow.aggregates",
    "per_key": "riverrun.flow.operators.apply",
    "correct": "riverrun.flow.windows",
    "drop": "riverrun.flow.windows",
    "hopping": "riverrun.flow.windows",
    "session": "riverrun.flow.windows",
    "side": "riverrun.flow.windows",
    "sliding": "riverrun.flow.windows",
    "tumbling": "riverrun.flow.windows",
    "Capture": "riverrun.capture.capture",
    "Consumer": "riverrun.log.consumer",
    "Producer": "riverrun.log.producer",
    "Message": "riverrun.log.queue",
    "Queue": "riverrun.log.queue",
    "TopicSpec": "riverrun.log.spec",
    "Topic": "riverrun.log.topic",
    "Position": "riverrun.position",
    "River": "riverrun.river",
    "Settings": "riverrun.settings",
    "serve_in_background": "riverrun.serve.server",
    "Run": "riverrun.spark.run",
    "View": "riverrun.views",
    "Change": "riverrun.views.changelog",
    "Snapshot": "riverrun.views.view",
}

__all__ = sorted(_MODULES)  # noqa: PLE0605

if TYPE_CHECKING:
    # The same for type checkers and editors, which cannot follow the rest. tests/test_imports.py compares the two.
    from riverrun.alerts.alerts import Alerts as Alerts
    from riverrun.capture.capture import Capture as Capture
    from riverrun.errors import Busy as Busy
    from riverrun.errors import Closed as Closed
    from riverrun.errors import Conflict as Conflict
    from riverrun.errors import Corrupt as Corrupt
    from riverrun.errors import DiskFull as DiskFull
    from riverrun.errors import Fenced as Fenced
    from riverrun.errors import Invalid as Invalid
    from riverrun.errors import NewerFormat as NewerFormat
    from riverrun.errors import NotFound as NotFound
    from riverrun.errors import OlderFormat as OlderFormat
    from riverrun.errors import OutOfRange as OutOfRange
    from riverrun.errors import PortInUse as PortInUse
    from riverrun.errors import RecordTooLarge as RecordTooLarge
    from riverrun.errors import RiverrunError as RiverrunError
    from riverrun.errors import TimedOut as TimedOut
    from riverrun.errors import Transient as Transient
    from riverrun.errors import Unavailable as Unavailable
    from riverrun.errors import VersionConflict as VersionConflict
    from riverrun.flow import Flow as Flow
    from riverrun.flow import Stream as Stream
    from riverrun.flow import Table as Table
    from riverrun.flow.aggregates import approx_distinct as approx_distinct
    from riverrun.flow.aggregates import approx_quantile as approx_quantile
    from riverrun.flow.aggregates import avg as avg
    from riverrun.flow.aggregates import collect as collect
    from riverrun.flow.aggregates import count as count
    from riverrun.flow.aggregates import distinct as distinct
    from riverrun.flow.aggregates import first as first
    from riverrun.flow.aggregates import last as last
    from riverrun.flow.aggregates import max as max
    from riverrun.flow.aggregates import min as min
    from riverrun.flow.aggregates import quantile as quantile
    from riverrun.flow.aggregates import rate as rate
    from riverrun.flow.aggregates import stddev as stddev
    from riverrun.flow.aggregates import sum as sum
    from riverrun.flow.aggregates import top as top
    from riverrun.flow.operators.apply import per_key as per_key
    from riverrun.flow.windows import correct as correct
    from riverrun.flow.windows import drop as drop
    from riverrun.flow.windows import hopping as hopping
    from riverrun.flow.windows import session as session
    from riverrun.flow.windows import side as side
    from riverrun.flow.windows import sliding as sliding
    from riverrun.flow.windows import tumbling as tumbling
    from riverrun.log.consumer import Consumer as Consumer
    from riverrun.log.producer import Producer as Producer
    from riverrun.log.queue import Message as Message
    from riverrun.log.queue import Queue as Queue
    from riverrun.log.spec import TopicSpec as TopicSpec
    from riverrun.log.topic import Topic as Topic
    from riverrun.position import Position as Position
    from riverrun.river import River as River
    from riverrun.serve.server import serve_in_background as serve_in_background
    from riverrun.settings import Settings as Settings
    from riverrun.spark.run import Run as Run
    from riverrun.views import View as View
    from riverrun.views.changelog import Change as Change
    from riverrun.views.view import Snapshot as Snapshot


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import version

        return version("riverrun")
    if name not in _MODULES:
        raise AttributeError(f"module 'riverrun' has no attribute {name!r}{_instead(name)}")
    try:
        value = globals()[name] = getattr(import_module(_MODULES[name]), name)
    except ModuleNotFoundError as error:
        from riverrun.errors import not_installed

        raise not_installed(f"rr.{name}", error, "spark") from None
    return value


def __dir__() -> list[str]:
    return [*__all__, "__version__"]


def _instead(name: str) -> str:
    """What people mean by a name that other libraries have. Names with an underscore are asked for by tools."""
    if name.startswith("_"):
        return ""
    from riverrun.errors import did_you_mean
    from riverrun.habits import FUNCTIONS

    return f". {FUNCTIONS[name]}" if name in FUNCTIONS else f". {did_you_mean(name, __all__)}"
