"""Conditions across rows, evaluated on one row: a small machine with a stack, compiled once for all conditions."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from riverrun.patterns.compiled import compiled, compiled_allocating
from riverrun.patterns.tables import Base, Op, Real, TotalKind, Whole

NOWHERE = -1
_NONE: Any = np.int64(0)  # a number written out would be compiled apart
_ONE: Any = np.int64(1)
_OVERFLOWN: Any = np.int64(-1)  # in the place of how many values a total has: it is null from there on
_LEAST: Any = np.int64(-(1 << 63))
_MOST: Any = np.int64((1 << 63) - 1)


class AttemptPath(NamedTuple):
    """The rows taken so far, and what is known of them. An entry has its row, the variable it was taken as (-1: skipped),
    the entry before it of the same variable, the one before it that was not skipped, and a hash of what code can ask of
    the entries before it. `marks` has for each variable, and then for all, the last and the first entry and how many there
    are. Totals of an entry are those of the entries before it: a line for the value of each, one for how many there are."""

    entries: Whole  # two dimensions: entry; row, variable, before, before_any, history
    marks: Whole  # two dimensions: variable; last, first, count
    totals: Whole  # two dimensions: total; entry
    totals_real: Real
    stack: Whole  # two dimensions: values, nulls
    stack_real: Real


ROW, VARIABLE, BEFORE, BEFORE_ANY, HISTORY = 0, 1, 2, 3, 4
LAST, FIRST, COUNT = 0, 1, 2


@compiled_allocating
def new_path(tables: Any, depth: int, totals: int) -> Any:
    """A path for attempts of so many rows, with room for what code has on the stack."""
    variables, deepest = len(tables.variables), tables.deepest
    return AttemptPath(
        np.zeros((depth + 3, 5), np.int64),
        np.zeros((variables, 3), np.int64),
        np.zeros((2 * totals, depth + 3), np.int64),
        np.zeros((totals, depth + 3), np.float64),
        np.zeros((2, deepest), np.int64),
        np.zeros(deepest, np.float64),
    )


@compiled
def clear(path: Any) -> None:
    for one in range(len(path.marks)):
        path.marks[one, LAST] = NOWHERE
        path.marks[one, COUNT] = 0


@compiled
def push(tables: Any, rows: Any, path: Any, depth: int, row: int, variable: int) -> None:
    """Row `row` is taken as a variable, as entry `depth`; -1 skips it."""
    entries, marks = path.entries, path.marks
    entries[depth, ROW] = row
    entries[depth, VARIABLE] = variable
    many = len(tables.totals)
    for k in range(many):
        path.totals[k, depth + 1] = path.totals[k, depth]
        path.totals[many + k, depth + 1] = path.totals[many + k, depth]
        path.totals_real[k, depth + 1] = path.totals_real[k, depth]
    entries[depth + 1, HISTORY] = entries[depth, HISTORY]
    if variable < 0:
        return
    every = len(marks) - 1
    entries[depth, BEFORE] = marks[variable, LAST]
    entries[depth, BEFORE_ANY] = marks[every, LAST]
    for one in (variable, every):
        if marks[one, COUNT] == 0:
            marks[one, FIRST] = depth
        marks[one, LAST] = depth
        marks[one, COUNT] += 1
    if tables.variables[variable, 2] != 0 or tables.variables[every, 2] != 0:
        mixed = (entries[depth, HISTORY] ^ (row * 2654435761 + variable + 1)) * 6364136223846793005
        entries[depth + 1, HISTORY] = mixed ^ (mixed >> 29)
    for k in range(many):
        of = tables.totals[k, 1]
        if of in (variable, every):
            _add(tables, rows, path, k, depth, row)


@compiled
def pop(path: Any, depth: int) -> None:
    """Takes entry `depth`, the last one, back."""
    variable = path.entries[depth, VARIABLE]
    if variable < 0:
        return
    every = len(path.marks) - 1
    path.marks[variable, LAST] = path.entries[depth, BEFORE]
    path.marks[every, LAST] = path.entries[depth, BEFORE_ANY]
    path.marks[variable, COUNT] -= 1
    path.marks[every, COUNT] -= 1


@compiled
def _add(tables: Any, rows: Any, path: Any, k: int, depth: int, row: int) -> None:
    function, column, is_real = tables.totals[k, 0], tables.totals[k, 2], tables.totals[k, 3]
    if rows.bits[column + (len(rows.whole) if is_real else 0), row] == 0:
        return
    at, many = depth + 1, len(tables.totals)
    seen = path.totals[many + k, depth]
    if seen == _OVERFLOWN:
        return
    if is_real:
        real, before = rows.real[column, row], path.totals_real[k, depth]
        if seen > 0 and (function in (TotalKind.SUM, TotalKind.AVG)):
            real += before
        elif seen > 0 and ((function == TotalKind.MIN) == _less(before, real)):
            real = before
        path.totals_real[k, at] = real
    else:
        whole, earlier = rows.whole[column, row], path.totals[k, depth]
        if seen > 0 and (function in (TotalKind.SUM, TotalKind.AVG)):
            if sum_overflows(whole, earlier):
                path.totals[many + k, at] = _OVERFLOWN
                return
            whole += earlier
        elif seen > 0 and ((function == TotalKind.MIN) == (earlier < whole)):
            whole = earlier
        path.totals[k, at] = whole
    path.totals[many + k, at] = seen + 1


@compiled
def _less(one: float, other: float) -> bool:
    """As Spark compares: NaN is larger than every number."""
    if np.isnan(one):
        return False
    return bool(np.isnan(other) or one < other)


@compiled
def _same(one: float, other: float) -> bool:
    return bool(one == other or (np.isnan(one) and np.isnan(other)))


@compiled
def _place(code: Any, pc: int, path: Any, low: int, row: int) -> int:
    """The row that a load is about; NOWHERE if there is none."""
    base, variable, n, shift = code[pc, 2], code[pc, 3], code[pc, 4], code[pc, 5]
    place = row
    if base != Base.CURRENT:
        count = path.marks[variable, COUNT]
        if n >= count:
            return NOWHERE
        way = BEFORE_ANY if variable == len(path.marks) - 1 else BEFORE
        back = n if base == Base.LAST else count - 1 - n
        entry = path.marks[variable, LAST]
        if base == Base.FIRST and n == 0:
            entry, back = path.marks[variable, FIRST], 0
        for _ in range(back):
            entry = path.entries[entry, way]
        place = path.entries[entry, ROW]
    place -= shift
    return place if place >= low else NOWHERE


@compiled
def holds(tables: Any, rows: Any, path: Any, pc: int, depth: int, low: int, row: int) -> bool:
    """Whether the condition whose code begins at `pc` is true of `row`; `depth` entries have been pushed."""
    code, stack, real, null = tables.code, path.stack[0], path.stack_real, path.stack[1]
    many, wholes = len(tables.totals), len(rows.whole)
    top = -1
    while True:
        op, a = code[pc, 0], code[pc, 1]
        if op == Op.END:
            return bool(null[0] == 0 and stack[0] != 0)
        if op == Op.WHOLE:
            top += 1
            stack[top], null[top] = a, 0
        elif op == Op.REAL:
            top += 1
            real[top], null[top] = tables.constants[a], 0
        elif op == Op.NULL:
            top += 1
            null[top] = 1
        elif op == Op.LOAD_WHOLE:
            top += 1
            place = _place(code, pc, path, low, row)
            null[top] = 1
            if place != NOWHERE and rows.bits[a, place]:
                stack[top], null[top] = rows.whole[a, place], 0
        elif op == Op.LOAD_REAL:
            top += 1
            place = _place(code, pc, path, low, row)
            null[top] = 1
            if place != NOWHERE and rows.bits[wholes + a, place]:
                real[top], null[top] = rows.real[a, place], 0
        elif op == Op.TOTAL_WHOLE:
            top += 1
            seen = path.totals[many + a, depth]
            if tables.totals[a, 0] == TotalKind.COUNT:
                stack[top], null[top] = seen, 0
            else:
                stack[top], null[top] = path.totals[a, depth], seen <= 0
        elif op == Op.TOTAL_REAL:
            top += 1
            seen = path.totals[many + a, depth]
            null[top] = seen <= 0
            value = path.totals_real[a, depth] if tables.totals[a, 3] else float(path.totals[a, depth])
            real[top] = value / max(seen, 1) if tables.totals[a, 0] == TotalKind.AVG else value
        elif op == Op.COUNT:
            top += 1
            stack[top], null[top] = path.marks[a, COUNT], 0
        elif op == Op.TO_REAL:
            real[top] = float(stack[top])
        elif op == Op.NOT:
            stack[top] = 1 - stack[top]
        elif op == Op.NEGATIVE:
            if stack[top] == _LEAST:
                null[top] = 1
            else:
                stack[top] = -stack[top]
        elif op == Op.NEGATIVE_REAL:
            real[top] = -real[top]
        elif op == Op.ABS:
            if stack[top] == _LEAST:
                null[top] = 1
            else:
                stack[top] = abs(stack[top])
        elif op == Op.ABS_REAL:
            real[top] = abs(real[top])
        elif op == Op.IS_NULL:
            stack[top], null[top] = null[top], 0
        elif op == Op.IS_NAN:
            stack[top], null[top] = null[top] == 0 and np.isnan(real[top]), 0
        elif op == Op.CHOOSE:  # other, one, condition: either kind
            top -= 2
            if null[top + 2] == 0 and stack[top + 2] != 0:
                stack[top], real[top], null[top] = stack[top + 1], real[top + 1], null[top + 1]
        else:
            top -= 1
            _binary(op, stack, real, null, top)
        pc += 1


@compiled
def _binary(op: int, stack: Any, real: Any, null: Any, top: int) -> None:
    """An operation on two values; the result takes the place of the first."""
    other = top + 1
    if op in (Op.AND, Op.OR):
        decisive = 0 if op == Op.AND else 1
        if (null[top] == 0 and stack[top] == decisive) or (null[other] == 0 and stack[other] == decisive):
            stack[top], null[top] = decisive, 0
        elif null[top] or null[other]:
            null[top] = 1
        else:
            stack[top] = 1 - decisive
        return
    if op == Op.COALESCE:
        if null[top]:
            stack[top], real[top], null[top] = stack[other], real[other], null[other]
        return
    if op in (Op.SAME, Op.SAME_REAL):
        if null[top] or null[other]:
            stack[top] = null[top] == null[other]
        else:
            stack[top] = stack[top] == stack[other] if op == Op.SAME else _same(real[top], real[other])
        null[top] = 0
        return
    if op in (Op.LARGER, Op.LARGER_REAL, Op.SMALLER, Op.SMALLER_REAL):  # nulls do not count
        less = _less(real[top], real[other]) if op in (Op.LARGER_REAL, Op.SMALLER_REAL) else stack[top] < stack[other]
        larger = op in (Op.LARGER, Op.LARGER_REAL)
        if null[other] == 0 and (null[top] or less == larger):
            stack[top], real[top], null[top] = stack[other], real[other], 0
        return
    if null[top] or null[other]:
        null[top] = 1
    elif op == Op.LESS:
        stack[top] = stack[top] < stack[other]
    elif op == Op.LESS_REAL:
        stack[top] = _less(real[top], real[other])
    elif op == Op.EQUAL:
        stack[top] = stack[top] == stack[other]
    elif op == Op.EQUAL_REAL:
        stack[top] = _same(real[top], real[other])
    elif op == Op.ADD:
        if sum_overflows(stack[top], stack[other]):
            null[top] = 1
        else:
            stack[top] += stack[other]
    elif op == Op.SUBTRACT:
        if _difference_overflows(stack[top], stack[other]):
            null[top] = 1
        else:
            stack[top] -= stack[other]
    elif op == Op.MULTIPLY:
        if _product_overflows(stack[top], stack[other]):
            null[top] = 1
        else:
            stack[top] *= stack[other]
    elif op == Op.SCALE:
        if _product_overflows(stack[top], stack[other]):
            stack[top] = _MOST if stack[top] > 0 else _LEAST
        else:
            stack[top] *= stack[other]
    elif op == Op.ADD_REAL:
        real[top] += real[other]
    elif op == Op.SUBTRACT_REAL:
        real[top] -= real[other]
    elif op == Op.MULTIPLY_REAL:
        real[top] *= real[other]
    elif op == Op.DIVIDE:
        if real[other] == 0:
            null[top] = 1
        else:
            real[top] /= real[other]
    elif stack[other] == 0:
        null[top] = 1
    elif stack[other] == -1:  # the processor would not divide the least number
        if op == Op.REMAINDER:
            stack[top] = 0
        elif stack[top] == _LEAST:
            null[top] = 1
        else:
            stack[top] = -stack[top]
    else:
        one, divisor = stack[top], stack[other]
        quotient = one // divisor
        if quotient < 0 and quotient * divisor != one:
            quotient += 1
        stack[top] = quotient if op == Op.QUOTIENT else one - quotient * divisor


# The compiler takes it that sums and products of signed numbers fit, and would drop a look at what came of them.
@compiled
def sum_overflows(one: int, other: int) -> bool:
    """Whether a sum is no number of 64 bits."""
    return bool(one > _MOST - other if other > 0 else one < _LEAST - other)


@compiled
def _difference_overflows(one: int, other: int) -> bool:
    return bool(one < _LEAST + other if other > 0 else one > _MOST + other)


@compiled
def _product_overflows(one: int, other: int) -> bool:
    size = _size(one)
    most = np.uint64(_MOST) + np.uint64((one < 0) != (other < 0))
    return bool(size != np.uint64(0) and _size(other) > most // size)


@compiled
def _size(number: int) -> Any:
    """The absolute value, also of the least number."""
    return np.uint64(number) if number >= 0 else np.uint64(-(number + 1)) + np.uint64(1)


@compiled_allocating
def evaluate(tables: Any, rows: Any, low: Any, high: Any, pc: int, out: Any) -> None:
    """Whether a condition over the current row and those before it is true, for every row."""
    one, none = _ONE, _NONE
    path = new_path(tables, one, none)
    for number in range(len(low)):
        for row in range(low[number], high[number]):
            out[row] = holds(tables, rows, path, pc, none, low[number], row)
