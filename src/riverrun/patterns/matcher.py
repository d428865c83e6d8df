"""A pattern with its conditions, ready to be run over rows.

    columns = ColumnSet(schema)
    conditions = {name: read_condition(name, sql, variables, columns) for name, sql in define.items()}
    matcher = Matcher(automaton(parse(text)), conditions, MatchRules(within=…))
    found = matcher.find(frame, time, sequences, watermark, ended)

`frame` has the columns `matcher.reads`, which are computed of single rows (`columns.expressions` says how); rows of a
sequence stand together, in order, and `sequences` says where each begins (`low`), where matching goes on (`begin`), and
where it ends (`high`). Rows in [low, begin) are only looked back at: `matcher.lookback` of them are needed. What is found
(`Found`) is a function of the rows from `begin` on and of the watermark, whatever they came in; the first start row that
is still open in each sequence is `Found.next`, and running again from there, with more rows, goes on as if it had never
stopped. Nothing is compiled for a pattern: a matcher is some arrays, and a thousand of them cost no more than one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
import polars as pl

from riverrun.patterns.automaton import SKIPPED, Automaton, automaton
from riverrun.patterns.coding import coded, is_coded_column, is_real_column, real_values, whole_values
from riverrun.patterns.conditions import VariableCondition
from riverrun.patterns.language import parse
from riverrun.patterns.program import BASES, FUNCTIONS, CodedConstant, RowProgram, RowTotal, RowValue
from riverrun.patterns.tables import (
    LIMIT,
    Bits,
    Found,
    Op,
    PatternTables,
    SearchRules,
    SequenceRows,
    Sequences,
    Skip,
    Whole,
)
from riverrun.patterns.tree import ANY
from riverrun.state.frames import true


@dataclass(frozen=True)
class MatchRules:
    """How long a match may take (None: any time), where matching goes on after one, and whether starts whose time ran out
    are reported."""

    within: int | None = None
    skip: Skip = Skip.PAST_LAST
    skip_to: str | None = None
    timeouts: bool = False
    limit: int = LIMIT


@dataclass(frozen=True, eq=False)
class Matcher:
    """A pattern, what its variables are, and its rules. Variables without a condition are every row."""

    automaton: Automaton
    conditions: Mapping[str, VariableCondition]
    rules: MatchRules

    @cached_property
    def reads(self) -> tuple[str, ...]:
        """The columns it needs, computed of single rows."""
        truths = [condition.column for condition in self.conditions.values() if condition.column is not None]
        return tuple(dict.fromkeys([*truths, *self._loaded]))

    @cached_property
    def lookback(self) -> int:
        """How many rows before the first of a match it looks at."""
        return max((program.back for program in self._programs), default=0)

    @cached_property
    def is_exact(self) -> bool:
        """Whether no condition depends on which rows the match has: then each start row is decided by one look."""
        return not len(self.automaton.final_absent) and not any(self._histories.values())

    @cached_property
    def _programs(self) -> tuple[RowProgram, ...]:
        return tuple(program for condition in self.conditions.values() for program in condition.programs)

    @cached_property
    def _histories(self) -> Mapping[str, tuple[RowProgram, ...]]:
        """The programs of each variable that ask for rows of the match."""
        return {
            name: tuple(program for program in condition.programs if not program.looks_back_only)
            for name, condition in self.conditions.items()
        }

    @cached_property
    def _loaded(self) -> tuple[str, ...]:
        steps = [step for program in self._programs for step in program.steps]
        named = [step.column for step in steps if isinstance(step, RowValue | RowTotal) and step.column is not None]
        return tuple(dict.fromkeys(named))

    @cached_property
    def _sums(self) -> tuple[RowTotal, ...]:
        steps = [step for program in self._programs for step in program.steps]
        return tuple(dict.fromkeys(step for step in steps if isinstance(step, RowTotal) and step.op != Op.COUNT))

    @cached_property
    def _texts(self) -> tuple[CodedConstant, ...]:
        steps = [step for program in self._programs for step in program.steps]
        return tuple(dict.fromkeys(step for step in steps if isinstance(step, CodedConstant)))

    @classmethod
    def look_back(cls, program: RowProgram, frame: pl.DataFrame, time: Whole, sequences: Sequences) -> Bits:
        """Where a program is true that asks for the current row and those before it, and for nothing else."""
        from riverrun.patterns.evaluation import evaluate

        alone = _alone(program)
        tables, rows = alone._prepared(frame, time)
        truth = np.empty(frame.height, np.uint8)
        evaluate(tables, rows, sequences.low, sequences.high, alone._begins[ANY][0], truth)
        return truth

    def find(
        self, frame: pl.DataFrame, time: Whole, sequences: Sequences, watermark: int, ended: bool, budget: int = 1 << 62
    ) -> Found:
        """What is decided of these rows. Rows before the watermark are all there; `ended`: no row will follow. A search that
        takes more steps than `budget` stops."""
        from riverrun.patterns.evaluation import evaluate
        from riverrun.patterns.search import search

        tables, rows = self._prepared(frame, time)
        lines: list[Bits] = []
        column = np.full(len(self.automaton.names), -1, np.int64)
        for number, name in enumerate(self.automaton.names):
            truth = self._known(name, frame)
            for begin in self._begins.get(name, ()):
                computed = np.empty(frame.height, np.uint8)
                evaluate(tables, rows, sequences.low, sequences.high, begin, computed)
                truth = computed if truth is None else truth & computed
            if truth is not None:
                column[number] = len(rows.bits) + len(lines)
                lines.append(truth)
        tables.variables[:-1, 0] = column
        rows = rows._replace(
            bits=np.concatenate([rows.bits, np.array(lines, np.uint8).reshape(len(lines), frame.height)])
        )
        rules = SearchRules(
            within=-1 if self.rules.within is None else self.rules.within,
            watermark=watermark,
            ended=ended,
            limit=self.rules.limit,
            skip=int(self.rules.skip),
            skip_to=self.automaton.names.index(self.rules.skip_to) if self.rules.skip_to else SKIPPED,
            timeouts=self.rules.timeouts,
            budget=budget,
        )
        found: Found = search(tables, rows, sequences, rules, self.is_exact)
        return found

    def _known(self, name: str, frame: pl.DataFrame) -> Bits | None:
        """Where a row is a variable, as far as its own column says; None: everywhere."""
        condition = self.conditions.get(name)
        if condition is None or condition.column is None:
            return None
        return true(frame.get_column(condition.column)).astype(np.uint8)

    def _eager(self, name: str) -> list[RowProgram]:
        condition = self.conditions.get(name)
        return [] if condition is None else [p for p in condition.programs if p.looks_back_only]

    def _prepared(self, frame: pl.DataFrame, time: Whole) -> tuple[PatternTables, SequenceRows]:
        columns = [frame.get_column(name) for name in self._loaded]
        real = [column for column in columns if is_real_column(column)]
        whole = [column for column in columns if not is_real_column(column)]
        codes: dict[str, Whole] = {}
        constants: dict[CodedConstant, int] = {}
        kinds = dict.fromkeys(column.dtype for column in whole if is_coded_column(column))
        for kind in kinds:
            alike = [column for column in whole if column.dtype == kind]
            texts = [text for text in self._texts if isinstance(text.value, bytes) == (kind == pl.Binary)]
            found, values = coded(alike, [text.value for text in texts])
            codes |= found
            constants |= dict(zip(texts, values, strict=True))
        wholes, whole_there = whole_values(whole, codes, frame.height)
        reals, real_there = real_values(real, frame.height)
        lines = {column.name: line for columns in (whole, real) for line, column in enumerate(columns)}
        tables = self._tables(lines, {column.name for column in real}, constants)
        rows = SequenceRows(
            time=np.require(time, np.int64, ["C", "W", "O"]),
            bits=np.concatenate([whole_there, real_there]),
            whole=wholes,
            real=reals,
        )
        return tables, rows

    @cached_property
    def _begins(self) -> Mapping[str, list[int]]:
        """Where the code begins of each variable's programs that do not depend on the match; they come first."""
        begins: dict[str, list[int]] = {}
        at = 0
        for name in self.conditions:
            for program in self._eager(name):
                begins.setdefault(name, []).append(at)
                at += len(program.steps) + 1
        return begins

    def _tables(
        self, lines: Mapping[str, int], real: set[str], constants: Mapping[CodedConstant, int]
    ) -> PatternTables:
        names, every = self.automaton.names, len(self.automaton.names)
        code: list[tuple[int, ...]] = []
        reals: list[float] = []
        variables = np.tile(np.array([-1, -1, 0], np.int64), (every + 1, 1))

        def number(variable: str | None) -> int:
            return every if variable is None else names.index(variable)

        def add(program: RowProgram) -> None:
            for step in program.steps:
                match step:
                    case Op():
                        code.append((step, 0, 0, 0, 0, 0))
                    case RowValue(op, column, row):
                        of = number(row.variable)
                        if row.base != "current":
                            variables[of, 2] = 1
                        code.append((op, lines[column], BASES[row.base], of, row.n, row.back))
                    case RowTotal(Op.COUNT, _, variable):
                        variables[number(variable), 2] = 1
                        code.append((Op.COUNT, number(variable), 0, 0, 0, 0))
                    case RowTotal(op, _, variable):
                        variables[number(variable), 2] = 1
                        code.append((op, self._sums.index(step), 0, 0, 0, 0))
                    case None:
                        code.append((Op.NULL, 0, 0, 0, 0, 0))
                    case float():
                        code.append((Op.REAL, len(reals), 0, 0, 0, 0))
                        reals.append(step)
                    case _:
                        code.append(
                            (Op.WHOLE, constants[step] if isinstance(step, CodedConstant) else int(step), 0, 0, 0, 0)
                        )

        for name in self.conditions:
            for program in self._eager(name):
                add(program)
                code.append((Op.END, 0, 0, 0, 0, 0))
        for name, programs in self._histories.items():
            if programs:
                variables[names.index(name), 1] = len(code)
                for place, program in enumerate(programs):
                    add(program)
                    if place:
                        code.append((Op.AND, 0, 0, 0, 0, 0))
                code.append((Op.END, 0, 0, 0, 0, 0))
        totals = [
            (FUNCTIONS[s.function], number(s.variable), lines[str(s.column)], s.column in real) for s in self._sums
        ]
        automaton = self.automaton
        states = np.zeros((automaton.states + 2, 3), np.int64)
        states[: automaton.states, 0] = automaton.variable
        states[:, 1] = automaton.first
        states[:-1, 2] = automaton.absent_first
        states[-1, 2] = len(automaton.absent)
        return PatternTables(
            states=states,
            targets=automaton.targets,
            absent=automaton.absent,
            final_absent=automaton.final_absent,
            variables=variables,
            code=np.array(code, np.int64).reshape(len(code), 6),
            constants=np.array(reals, np.float64),
            totals=np.array(totals, np.int64).reshape(len(totals), 4),
            deepest=1
            + max((program.depth for program in self._programs), default=0),  # one of them waits for its `and`
        )


@lru_cache(1000)
def _alone(program: RowProgram) -> Matcher:
    """A matcher of single rows for which a program is true."""
    return Matcher(automaton(parse(ANY)), {ANY: VariableCondition(None, (program,))}, MatchRules())
