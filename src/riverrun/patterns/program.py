"""Code for conditions across rows, and the columns it reads: what is asked of one row is a column of its own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from riverrun.ddl import Type
from riverrun.errors import Invalid
from riverrun.flow.expressions import Expression, expression
from riverrun.flow.schema import Schema
from riverrun.patterns.navigation import RowOf
from riverrun.patterns.tables import Base, Op, TotalKind


@dataclass(frozen=True)
class RowValue:
    """A value of one row: a column, and which row."""

    op: Op
    column: str
    row: RowOf


@dataclass(frozen=True)
class RowTotal:
    """A total of a column over the rows of a variable (None: all rows of the match); without a column, their number."""

    op: Op
    function: str
    variable: str | None
    column: str | None = None


@dataclass(frozen=True)
class CodedConstant:
    """A constant that is compared with the codes of a column's values."""

    value: object
    type: Type


_UNARY = (Op.TO_REAL, Op.NOT, Op.NEGATIVE, Op.NEGATIVE_REAL, Op.ABS, Op.ABS_REAL, Op.IS_NULL, Op.IS_NAN)
_GROWTH = {
    **dict.fromkeys(_UNARY, 0),
    Op.CHOOSE: -2,
}  # of the stack; every other operation takes two values and leaves one

Step = Op | RowValue | RowTotal | CodedConstant | int | float | None
"""One step of a program: None is null, a number a constant."""


@dataclass(frozen=True)
class RowProgram:
    """A condition, in the order in which it is computed."""

    steps: tuple[Step, ...]

    @property
    def looks_back_only(self) -> bool:
        """Whether it asks for nothing but the current row and those before it: it is the same in every match."""
        return not any(
            isinstance(step, RowTotal) or (isinstance(step, RowValue) and step.row.base != "current")
            for step in self.steps
        )

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns it reads."""
        named = [
            step.column for step in self.steps if isinstance(step, RowValue | RowTotal) and step.column is not None
        ]
        return tuple(dict.fromkeys(named))

    @cached_property
    def depth(self) -> int:
        """How many values it has on the stack at most."""
        deepest = now = 0
        for step in self.steps:
            now += _GROWTH.get(step, -1) if isinstance(step, Op) else 1
            deepest = max(deepest, now)
        return deepest

    @property
    def back(self) -> int:
        """How many rows before a row of the match it asks for."""
        return max((step.row.back for step in self.steps if isinstance(step, RowValue)), default=0)


@dataclass
class ColumnSet:
    """The columns that conditions and measures read, each once, whoever asks for it. Names begin with `prefix`."""

    schema: Schema
    hidden: frozenset[str] = frozenset()
    prefix: str = "_c"
    expressions: dict[str, Expression] = field(default_factory=dict)
    _names: dict[str, str] = field(default_factory=dict)

    def add(self, sql: str) -> str:
        """The name of the column with this expression."""
        made = expression(sql, self.schema, self.hidden)
        name = self._names.setdefault(made.canonical, f"{self.prefix}{len(self._names)}")
        self.expressions.setdefault(name, made)
        return name

    def type_of(self, name: str) -> Type:
        """The type of a column; refused where only Spark knows it."""
        known = self.expressions[name].type
        if known is None:
            raise Invalid(f"the type of {self.expressions[name]} is not known", hint="Cast it: cast(… as double)")
        return known


BASES: Mapping[str, Base] = {"current": Base.CURRENT, "last": Base.LAST, "first": Base.FIRST}
FUNCTIONS: Mapping[str, TotalKind] = {
    "sum": TotalKind.SUM,
    "min": TotalKind.MIN,
    "max": TotalKind.MAX,
    "count": TotalKind.COUNT,
    "avg": TotalKind.AVG,
}
