"""`s.match(pattern, …)`: matches of a pattern over the rows of each key."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from riverrun.columns import TIME
from riverrun.ddl import Type
from riverrun.durations import show
from riverrun.flow.expressions import Wanted
from riverrun.flow.operators.node import IDENTITY, Columns, Emergence, InputTypes, Node
from riverrun.flow.schema import BIGINT, BOOLEAN, STRING, TIMESTAMP, Schema
from riverrun.flow.windows import Correct, Late, Side
from riverrun.patterns.automaton import Automaton, automaton
from riverrun.patterns.conditions import VariableCondition, read_condition
from riverrun.patterns.language import parse
from riverrun.patterns.measures import MatchValue, MeasureSet
from riverrun.patterns.navigation import TotalOf
from riverrun.patterns.program import ColumnSet
from riverrun.patterns.tables import Skip
from riverrun.patterns.tree import MatchPattern

if TYPE_CHECKING:
    from riverrun.patterns.matcher import Matcher

ONE, ALL_ROWS = "one", "all"
_MINUTE = 60_000_000
_BOUNDS = (("match_start", TIMESTAMP), ("match_end", TIMESTAMP), ("match_id", STRING))
_PLACES = (("match_id", STRING), ("variable", STRING), ("row_number", BIGINT))
TIMED_OUT = ("timed_out", BOOLEAN)

_SKIPS = {"past last": Skip.PAST_LAST, "to next": Skip.TO_NEXT, "to first": Skip.TO_FIRST, "to last": Skip.TO_LAST}


def added_columns(rows: str, timeouts: bool) -> tuple[tuple[str, Type], ...]:
    """The columns that a match adds by itself."""
    return (*(_BOUNDS if rows == ONE else _PLACES), *((TIMED_OUT,) if timeouts else ()))


@dataclass(frozen=True, eq=False, kw_only=True)
class Match(Node):
    """Matches of a pattern. `measures` are texts over the values of a match, which are columns of this node."""

    kind = "match"
    stateful = True
    timed = True
    hands_on_receipt = True
    is_table = False
    key = ()
    time = TIME
    pattern: str = field(metadata=IDENTITY)
    define: tuple[tuple[str, str], ...] = field(metadata=IDENTITY)
    by: tuple[str, ...] = field(metadata=IDENTITY)
    within: int | None
    measures: tuple[tuple[str, str], ...]
    after: str
    rows: str = field(metadata=IDENTITY)
    on_timeout: bool
    late: Late
    limit: int

    @cached_property
    def tree(self) -> MatchPattern:
        return parse(self.pattern)

    @cached_property
    def automaton(self) -> Automaton:
        return automaton(self.tree)

    @cached_property
    def columns(self) -> ColumnSet:
        """What is computed of single rows, for conditions and measures."""
        below = self.inputs[0]
        return ColumnSet(below.schema, below.hidden)

    @cached_property
    def conditions(self) -> Mapping[str, VariableCondition]:
        return {name: read_condition(name, sql, self.tree.variables, self.columns) for name, sql in self.define}

    @cached_property
    def _measured(self) -> tuple[MeasureSet, Mapping[str, str]]:
        self.conditions  # noqa: B018  # their columns come first
        measured = MeasureSet(self.columns, self.tree.variables)
        return measured, {name: measured.add(name, sql) for name, sql in self.measures}

    @property
    def expressions(self) -> Mapping[str, str]:
        """The measures, over the columns of this node."""
        return self._measured[1]

    @property
    def values(self) -> tuple[MatchValue, ...]:
        """What is read of a match for the measures."""
        return tuple(self._measured[0].values.values())

    @cached_property
    def matcher(self) -> Matcher:
        # A flow without patterns is declared without the kernels' packages, which take half a second to import.
        from riverrun.patterns.matcher import Matcher, MatchRules

        skip, target = skip_of(self.after)
        return Matcher(
            self.automaton, self.conditions, MatchRules(self.within, skip, target, self.on_timeout, self.limit)
        )

    @cached_property
    def schema(self) -> Schema:
        before = self.inputs[0].schema
        values = [(value.name, value.type) for value in self.values]
        if self.rows == ONE:
            own = [(name, before[name]) for name in self.by]
            return Schema((*own, *values, *added_columns(self.rows, self.on_timeout)))
        return Schema((*before.columns, *_PLACES, *values, *((TIMED_OUT,) if self.on_timeout else ())))

    @property
    def handed_on(self) -> tuple[str, ...]:
        """The columns of rows that results have."""
        return self.by if self.rows == ONE else tuple(self.inputs[0].schema)

    @property
    def retracts(self) -> bool:
        return isinstance(self.late, Correct)

    @property
    def emergence(self) -> Emergence:
        return "mixed"

    @property
    def hold(self) -> int:
        # Without a deadline, what follows learns of the time that passes an epoch later: there has to be one more.
        return (_MINUTE if self.within is None else self.within) + self.late.horizon + 1

    @property
    def delay(self) -> int:
        return (self.within or 0) + self.late.horizon

    @property
    def holds_watermark(self) -> bool:
        return self.within is None

    @property
    def withholds(self) -> bool:
        return skip_of(self.after)[1] is not None

    @property
    def routes(self) -> tuple[tuple[str, ...], ...]:
        return (self.by,)

    @property
    def label(self) -> str:
        by = f" by {', '.join(self.by)}" if self.by else ""
        within = f" within {show(self.within)}" if self.within is not None else ""
        return f"match {self.pattern}{by}{within}"

    @property
    def identity(self) -> str:
        return f"{super().identity}|{','.join(name for name, _ in self.measures)}"

    @property
    def late_topics(self) -> Mapping[str, str]:
        return {"in": self.late.topic} if isinstance(self.late, Side) else {}

    def reads_receipt(self, number: int) -> bool:
        return True

    def needs(self, wanted: Columns) -> tuple[Columns, ...]:
        self.values  # noqa: B018
        read = {name for made in self.columns.expressions.values() for name in made.columns}
        whole = self.late_topics or self.rows == ALL_ROWS
        return (frozenset(read) | frozenset(self.inputs[0].schema if whole else self.by),)

    def reads(self, number: int, columns: Sequence[str]) -> Wanted:
        self.values  # noqa: B018
        wanted: Wanted = [(name, None) for name in self.handed_on]
        if self.late_topics:
            wanted += [(name, None) for name in self.inputs[0].schema if name not in self.handed_on]
        return wanted + list(self.columns.expressions.items())

    def passed_by(self, number: int) -> Columns:
        return frozenset(self.inputs[0].schema) - frozenset(self.handed_on) if self.late_topics else frozenset()

    def resolve(self, inputs: InputTypes) -> list[tuple[str, Type | None]]:
        came = inputs["in"]
        sources = {value.name: value.source for value in self.values if not isinstance(value.asks, TotalOf)}
        resolved = []
        for name, known in super().resolve(inputs):
            resolved.append((name, came.get(str(sources.get(name))) if known is None and name in sources else known))
        return resolved


def skip_of(after: str) -> tuple[Skip, str | None]:
    """How matching goes on, and the variable that is named there."""
    words = after.lower().split()
    return _SKIPS[" ".join(words[1:3])], words[3] if len(words) == 4 else None
