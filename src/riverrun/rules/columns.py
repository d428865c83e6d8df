"""What rules ask of single rows and of the rows before them: each question once, whichever rules ask it.

A condition that `and` joins is taken apart. What compares a column with constants is a `Comparison`; the rest is one statement
of DuckDB for all rules; what compares a row with those before it is a program of `patterns`. An expression that fails on a row
is null there: what somebody wrote into a rule must not stop the flow.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import polars as pl
import pyarrow as pa

from riverrun import ddl
from riverrun.errors import Invalid
from riverrun.expressions import Unverified, translate
from riverrun.expressions.safety import null_where_it_fails
from riverrun.expressions.statement import Statement
from riverrun.expressions.typing import column_types
from riverrun.flow.expressions import Expression
from riverrun.flow.parser import parse
from riverrun.flow.schema import BOOLEAN, Schema
from riverrun.flow.syntax import Call, Tree, UnknownSyntax
from riverrun.patterns.conditions import VariableCondition
from riverrun.patterns.matcher import Matcher
from riverrun.patterns.program import ColumnSet, RowProgram
from riverrun.patterns.tables import Sequences, Whole
from riverrun.rules.comparisons import ComparedColumn, Comparison, comparisons
from riverrun.rules.faults import FAULTS
from riverrun.rules.growth import refuse_growth
from riverrun.state.frames import Mask, frame_of, from_arrow, pick, take, to_arrow, true
from riverrun.state.order import Indexes

_ROWS = "rows"


@dataclass(frozen=True)
class RowQuestion:
    """A value of each row: a column as it is, or an expression of DuckDB; or, where only its truth counts, comparisons
    and expressions that are all true."""

    picked: str | None = None
    comparisons: tuple[Comparison, ...] = ()
    computed: tuple[str, ...] = ()


@dataclass(frozen=True)
class Truth:
    """When a row is a variable, as far as it does not depend on the match: a column is true, and programs that look back
    are."""

    column: str | None
    programs: tuple[RowProgram, ...] = ()


class RuleColumns:
    """The questions of all rules over rows with these columns."""

    def __init__(self, schema: Schema) -> None:
        self.schema = schema
        self.columns = ColumnSet(schema)
        self.asked: dict[str, RowQuestion] = {}
        self.truths: dict[str, Truth] = {}
        self._named: dict[Truth, str] = {}
        self._statements: dict[tuple[str, ...], tuple[Statement, pa.Schema]] = {}

    @cached_property
    def _fields(self) -> pa.Schema:
        return pa.schema([(name, ddl.to_arrow(kind)) for name, kind in self.schema.columns if kind is not None])

    def settle(self, condition: VariableCondition) -> VariableCondition:
        """A condition with all that does not depend on the match as one column of its own."""
        back = tuple(program for program in condition.programs if program.looks_back_only)
        rest = tuple(program for program in condition.programs if not program.looks_back_only)
        for name in _reads(condition):
            self.ask(name)
        if condition.column is None and not back:
            return VariableCondition(None, rest)
        truth = Truth(condition.column, back)
        name = self._named.setdefault(truth, f"_t{len(self._named)}")
        self.truths[name] = truth
        return VariableCondition(name, rest)

    def ask(self, name: str) -> None:
        """Find out how a column of the set is computed; refused where only Spark can."""
        if name not in self.asked:
            expression = self.columns.expressions[name]
            self.asked[name] = self._conjunction(expression) if expression.type == BOOLEAN else self._value(expression)

    def _value(self, expression: Expression) -> RowQuestion:
        if (plain := expression.plain) is not None and plain in self.schema:
            return RowQuestion(picked=plain)
        return RowQuestion(computed=(self._translated(expression.over(_of_rows), str(expression)),))

    def _conjunction(self, expression: Expression) -> RowQuestion:
        compared: list[Comparison] = []
        computed = []
        try:
            parts = list(_conjuncts(parse(str(expression))))
        except UnknownSyntax:
            parts = []
        for part in parts:
            simple = comparisons(part, self.schema)
            if simple is None:
                own = ColumnSet(self.schema)
                computed.append(self._translated(own.expressions[own.add(part.text)].over(_of_rows), part.text))
            else:
                compared += simple
        return RowQuestion(comparisons=tuple(compared), computed=tuple(computed)) if parts else self._value(expression)

    def _translated(self, sql: str, text: str) -> str:
        refuse_growth(text)
        try:
            translated = translate(sql, column_types(self._fields))
        except Unverified as error:
            why = error.message.replace(f"`{_ROWS}`.", "")
            raise Invalid(f"{text!r} cannot be used in a rule: {why}", hint="Select it into a column before") from None
        return null_where_it_fails(translated)

    def computed(self, rows: pl.DataFrame, expressions: Sequence[str]) -> dict[str, pl.Series]:
        """Expressions of DuckDB over rows."""
        known = self._statements.get(key := tuple(expressions))
        if known is None:
            used = [f for f in self._fields if any(_quoted(f.name) in sql for sql in expressions)]
            fields = pa.schema(used or [self._fields.field(0)])  # something has to say how many rows there are
            known = (Statement(_ROWS, fields, expressions), fields)
            self._statements = {key: known}
        statement, fields = known
        made = from_arrow(statement.run(to_arrow(pick(rows, fields.names), fields)))
        return dict(zip(expressions, made.get_columns(), strict=True))


class AskedColumns:
    """The answers for the rows of one epoch: those of keys stand together, and `sequences` says where."""

    def __init__(self, columns: RuleColumns, used: Iterable[str], rows: pl.DataFrame, time: Whole) -> None:
        self._columns = columns
        self._rows = rows
        self._time = time
        asked = [columns.asked[name] for name in used]
        self._expressions = list(dict.fromkeys(sql for one in asked for sql in one.computed))
        constants: dict[str, dict[str, None]] = {}
        for one in (part for each in asked for part in each.comparisons):
            texts = (value for value in one.values if isinstance(value, str))
            constants.setdefault(one.column, {}).update(dict.fromkeys(texts))
        self._constants = {name: list(values) for name, values in constants.items()}
        self._compared: dict[str, ComparedColumn] = {}
        self._comparisons: dict[Comparison, Mask] = {}
        self._truths: dict[tuple[str | RowProgram, int], Mask] = {}

    @property
    def truths(self) -> Mapping[str, Truth]:
        """Which names are those of truths."""
        return self._columns.truths

    @cached_property
    def _answers(self) -> Mapping[str, pl.Series | BaseException]:
        """All expressions in one statement; where that fails, each alone, so that one that cannot be computed is the fault of
        those who ask for it."""
        try:
            return self._columns.computed(self._rows, self._expressions)
        except FAULTS as error:
            if len(self._expressions) == 1:
                return {self._expressions[0]: error}
        return {sql: self._alone(sql) for sql in self._expressions}

    def _alone(self, sql: str) -> pl.Series | BaseException:
        try:
            return self._columns.computed(self._rows, [sql])[sql]
        except FAULTS as error:
            return error

    def _computed(self, sql: str) -> pl.Series:
        answer = self._answers[sql]
        if isinstance(answer, BaseException):
            raise answer
        return answer

    def values(self, name: str) -> pl.Series:
        """The values of a column."""
        asked = self._columns.asked[name]
        if asked.picked is not None:
            return self._rows.get_column(asked.picked)
        if len(asked.computed) == 1 and not asked.comparisons:
            return self._computed(asked.computed[0])
        return pl.Series(name, self._where(asked))

    def truth(self, name: str, sequences: Sequences, since: int) -> Mask:
        """Where a truth holds; `sequences` are those of rules that count since then."""
        truth = self._columns.truths[name]
        where = self._single(truth.column) if truth.column is not None else None
        for program in truth.programs:
            back = self._truths.get((program, since))
            if back is None:
                back = self._truths[program, since] = self._looked_back(program, sequences)
            where = back if where is None else where & back
        assert where is not None
        return where

    def truth_at(self, name: str, places: Indexes, sequences: Sequences) -> Mask:
        """Where a truth holds, of rows at some places, which are those of `sequences`."""
        truth = self._columns.truths[name]
        where = self._where(self._columns.asked[truth.column], places) if truth.column is not None else None
        for program in truth.programs:
            back = self._looked_back(program, sequences, places)
            where = back if where is None else where & back
        assert where is not None
        return where

    def _single(self, name: str) -> Mask:
        where = self._truths.get((name, 0))
        if where is None:
            where = self._truths[name, 0] = self._where(self._columns.asked[name])
        return where

    def _where(self, asked: RowQuestion, places: Indexes | None = None) -> Mask:
        parts = [self._comparison(one, places) for one in asked.comparisons]
        columns = [self._computed(sql) for sql in asked.computed]
        columns += [self._rows.get_column(asked.picked)] if asked.picked is not None else []
        parts += [true(column) if places is None else true(column)[places] for column in columns]
        where = parts[0]
        for part in parts[1:]:
            where = where & part
        return where

    def _comparison(self, one: Comparison, places: Indexes | None = None) -> Mask:
        known = self._comparisons.get(one)
        if known is not None:
            return known if places is None else known[places]
        column = self._compared.get(one.column)
        if column is None:
            constants = self._constants.get(one.column, [])
            column = self._compared[one.column] = ComparedColumn(self._rows.get_column(one.column), constants)
        if places is not None:
            return column.where(one, places)
        known = self._comparisons[one] = column.where(one)
        return known

    def _looked_back(self, program: RowProgram, sequences: Sequences, places: Indexes | None = None) -> Mask:
        frame = frame_of([self.values(name).alias(name) for name in program.columns])
        frame, time = (frame, self._time) if places is None else (take(frame, places), self._time[places])
        return Matcher.look_back(program, frame, time, sequences).view(np.bool_)


def _reads(condition: VariableCondition) -> list[str]:
    own = [condition.column] if condition.column is not None else []
    return [*own, *(name for program in condition.programs for name in program.columns)]


def _conjuncts(tree: Tree) -> Iterable[Tree]:
    match tree:
        case Call("and", (one, other)):
            yield from _conjuncts(one)
            yield from _conjuncts(other)
        case _:
            yield tree


def _of_rows(name: str) -> str:
    return f"`{_ROWS}`.{ddl.backquoted(name)}"


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
