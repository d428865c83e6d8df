"""A program: a flow, what happens to it, and how it is run. Plain data, and the text of Python that means the same."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from random_programs.expressions import Expression, sql
from random_programs.values import START
from riverrun.testing import Advance, Append, Crash, Delete, Process, Tick

PRELUDE = """\
import datetime
from datetime import UTC, timedelta
from decimal import Decimal
import riverrun as rr
from riverrun.testing import Advance, Append, Crash, Delete, Process, Tick, run_flow

nan, inf = float("nan"), float("inf")

def at(second):
    return datetime.datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=second)

"""
STEP = """\
def count_up(state, rows, clock):
    so_far = state["n"] if state else 0
    return {"n": so_far + len(rows)}, [{"n": so_far + 1 + i, "_time": row["_time"]} for i, row in enumerate(rows)]

"""


@dataclass(frozen=True)
class Aggregation:
    """One aggregate of a node: its name, function, and what it reads."""

    name: str
    function: str
    value: Expression | None = None
    where: Expression | None = None
    argument: float | int | None = None

    def text(self) -> str:
        given = [repr(sql(self.value))] if self.value is not None else []
        given += [repr(self.argument)] if self.argument is not None else []
        given += [f"where={sql(self.where)!r}"] if self.where is not None else []
        return f"{self.name}=rr.{self.function}({', '.join(given)})"


@dataclass(frozen=True)
class TopicRead:
    """A topic that is read, as a stream or as a table. Durations are seconds."""

    name: str
    topic: str
    table: bool
    columns: Mapping[str, str]
    key: tuple[str, ...] = ()
    time: str | None = "at"
    lateness: float = 0
    producers: str | None = None
    idle: float | None = None
    max_skew: float | None = None

    def text(self) -> str:
        ddl = ", ".join(f"{name} {kind}" for name, kind in self.columns.items())
        time = self.time or ("_received" if self.table else None)
        options = {"key": list(self.key) or None, "time": time, "lateness": self.lateness or None}
        options |= {"producers": self.producers, "idle": self.idle, "max_skew": self.max_skew}
        # Without a word about `idle`, a partition that is silent for a minute is not waited for.
        given = "".join(f", {name}={value!r}" for name, value in options.items() if value is not None or name == "idle")
        return f"{self.name} = flow.{'table' if self.table else 'stream'}({self.topic!r}, {ddl!r}{given})"


@dataclass(frozen=True)
class Operation:
    """One node of a flow: what it does to which others."""

    name: str
    kind: str
    inputs: tuple[str, ...]
    options: Mapping[str, Any] = field(default_factory=dict)

    def text(self) -> str:
        return f"{self.name} = {self.inputs[0]}.{_CALLS[self.kind](self.inputs[1:], self.options)}"


@dataclass(frozen=True)
class Outlet:
    """A view or a topic."""

    name: str
    kind: str
    input: str
    key: tuple[str, ...] | None = None

    def text(self) -> str:
        key = f", key={list(self.key)!r}" if self.key is not None else ""
        return f"flow.{self.kind}({self.name!r}, {self.input}{key})"


@dataclass(frozen=True)
class Program:
    """Everything that a run depends on."""

    reads: tuple[TopicRead, ...]
    operations: tuple[Operation, ...]
    outlets: tuple[Outlet, ...]
    script: tuple[Any, ...]
    partitions: int = 1
    shards: int = 2
    max_rows: int = 500_000
    now: datetime | None = None
    drain: bool = True
    distinct_times: bool = False
    """Whether no two rows have the same event time, so that nothing has to decide between them."""

    @property
    def options(self) -> dict[str, Any]:
        """How it is run, where that is not the usual way."""
        usual = {"partitions": 1, "shards": 2, "max_rows": 500_000, "now": None, "drain": True}
        return {name: getattr(self, name) for name, value in usual.items() if getattr(self, name) != value}

    def flow_text(self) -> str:
        lines = ['flow = rr.Flow("random")', *(part.text() for part in (*self.reads, *self.operations, *self.outlets))]
        step = STEP if any(one.kind == "apply" for one in self.operations) else ""
        return step + "\n".join(lines) + "\n"

    def script_text(self) -> str:
        return "script = [\n" + "".join(f"    {step_text(step)},\n" for step in self.script) + "]\n"

    def text(self) -> str:
        """A reproducer: Python that can be pasted."""
        options = "".join(f", {name}={literal(value)}" for name, value in self.options.items())
        return f"{PRELUDE}{self.flow_text()}{self.script_text()}result = run_flow(flow, script{options})\n"

    def declared(self) -> dict[str, Any]:
        """The names that the text declares: the flow, its nodes, and the script."""
        names: dict[str, Any] = {}
        exec(f"{PRELUDE}{self.flow_text()}{self.script_text()}", names)
        return names


def literal(value: Any) -> str:
    """A value as Python has it in the text of a program."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{name!r}: {literal(part)}" for name, part in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(literal, value)) + "]"
    if isinstance(value, datetime) and value.tzinfo is UTC and abs((value - START).days) < 2:
        return f"at({(value - START).total_seconds():.15g})"
    return repr(value).replace("tzinfo=datetime.timezone.utc", "tzinfo=UTC")


def step_text(step: Any) -> str:
    match step:
        case Append(topic, rows, after):
            return f"Append({topic!r}, {literal(rows)}" + (f", after={after!r})" if after else ")")
        case Delete(topic, key):
            return f"Delete({topic!r}, {literal(key)})"
        case Advance(topic, producer, time):
            return f"Advance({topic!r}, {producer!r}, {literal(time)})"
        case Tick(duration):
            return f"Tick({duration!r})"
        case Crash(place):
            return f"Crash(at={place!r})" if place else "Crash()"
        case Process():
            return "Process()"
    return literal(step)


def _items(items: Mapping[str, Expression]) -> list[str]:
    return [name if made == ("column", name) else f"{sql(made)} as {name}" for name, made in items.items()]


def _agg(options: Mapping[str, Any]) -> str:
    return f"agg({', '.join(one.text() for one in options['aggregations'])})"


def _window(options: Mapping[str, Any]) -> str:
    kind, *sizes = options["window"]
    late = f", late={_policy(options['late'])}"
    emit = ', emit="update"' if options["update"] else ""
    by = f", by={list(options['by'])!r}" if options["by"] else ""
    keep = f", keep={list(options['keep'])!r}" if options["keep"] else ""
    return f"window(rr.{kind}({', '.join(map(repr, sizes))}{keep}){by}{late}{emit}).{_agg(options)}"


def _policy(late: tuple[Any, ...]) -> str:
    return f"rr.{late[0]}({', '.join(map(repr, late[1:]))})"


def _match(options: Mapping[str, Any]) -> str:
    """Without the ids of the matches, which nobody can foretell."""
    given = {"define": {name: sql(asked) for name, asked in options["define"].items()}, "by": list(options["by"])}
    given |= {"within": options["within"], "after": options["after"]}
    given["measures"] = {"rows": "count(*)", "first_of_a": f"first(a.{options['measured']})"}
    told = "".join(f", {name}={value!r}" for name, value in given.items() if value)
    return f"match({options['pattern']!r}{told}, late={_policy(options['late'])}).drop('match_id')"


def _top(options: Mapping[str, Any]) -> str:
    order = ", ".join(
        f"{sql(made)}{' desc' if descending else ''} nulls {'first' if nulls_first else 'last'}"
        for made, descending, nulls_first in options["order"]
    )
    rank = f", rank={options['rank']!r}" if options["rank"] else ""
    per = f", per={list(options['per'])!r}" if options["per"] else ""
    return f"top({options['n']}, {order!r}{per}{rank}{', ties=True' if options['ties'] else ''})"


def _join(others: tuple[str, ...], options: Mapping[str, Any]) -> str:
    within = f", within={options['within']!r}" if "within" in options else ""
    late = f", late=({', '.join(map(_policy, options['late']))})" if "late" in options else ""
    return f"join({others[0]}, on={options['on']!r}{within}, how={options['how']!r}{_rename(options)}{late})"


def _rename(options: Mapping[str, Any]) -> str:
    return f", rename={options['rename']!r}" if options.get("rename") else ""


def _as_of(others: tuple[str, ...], options: Mapping[str, Any]) -> str:
    late = _policy(options["late"])
    return f"as_of({others[0]}, on={options['on']!r}, how={options['how']!r}, late={late}{_rename(options)})"


_CALLS: dict[str, Any] = {
    "where": lambda others, options: f"where({sql(options['condition'])!r})",
    "select": lambda others, options: f"select({', '.join(map(repr, _items(options['items'])))})",
    "with_columns": lambda others, options: (
        "with_columns(" + ", ".join(f"{name}={sql(made)!r}" for name, made in options["items"].items()) + ")"
    ),
    "drop": lambda others, options: f"drop({', '.join(map(repr, options['names']))})",
    "union": lambda others, options: f"union({', '.join(others)})",
    "dedupe": lambda others, options: f"dedupe({list(options['on'])!r}, within={options['within']!r})",
    "sample": lambda others, options: f"sample({options['fraction']!r}, by={list(options['by'])!r})",
    "apply": lambda others, options: (
        f"apply(rr.per_key(count_up), by={list(options['by'])!r}, state='n bigint', output={options['output']!r})"
    ),
    "clock": lambda others, options: f"clock({options['occurred']!r}, {options['sent']!r}, by={list(options['by'])!r})",
    "match": lambda others, options: _match(options),
    "percolate": lambda others, options: f"percolate({others[0]}, {options['text']!r}, query={options['query']!r})",
    "group": lambda others, options: f"group({list(options['by']) or None!r}).{_agg(options)}",
    "latest": lambda others, options: f"latest({list(options['key'])!r})",
    "top": lambda others, options: _top(options),
    "changes": lambda others, options: "changes()",
    "versus": lambda others, options: f"versus({options['earlier']!r})",
    "window": lambda others, options: _window(options),
    "join_streams": _join,
    "lookup": _join,
    "join_tables": _join,
    "as_of": _as_of,
}
