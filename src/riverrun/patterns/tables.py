"""What the compiled search is given: plain arrays, the same kinds of them for every pattern."""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Whole = npt.NDArray[np.int64]
Real = npt.NDArray[np.float64]
Bits = npt.NDArray[np.uint8]

LIMIT = 10_000
"""Rows of one attempt; what takes more is given up."""

LARGEST_LIMIT = 100_000_000
"""Twice as many places are counted in 32 bits."""


class Op(IntEnum):
    """Instructions of a condition across rows. A value is a whole number (also a truth, a moment, the code of a string) or
    a real one, or null."""

    END = 0
    WHOLE = 1
    REAL = 2
    NULL = 3
    LOAD_WHOLE = 4
    LOAD_REAL = 5
    TOTAL_WHOLE = 6
    TOTAL_REAL = 7
    COUNT = 8
    TO_REAL = 9
    ADD = 10
    SUBTRACT = 11
    MULTIPLY = 12
    ADD_REAL = 13
    SUBTRACT_REAL = 14
    MULTIPLY_REAL = 15
    DIVIDE = 16
    REMAINDER = 17
    NEGATIVE = 18
    NEGATIVE_REAL = 19
    ABS = 20
    ABS_REAL = 21
    LESS = 22
    LESS_REAL = 23
    EQUAL = 24
    EQUAL_REAL = 25
    SAME = 26
    SAME_REAL = 27
    AND = 28
    OR = 29
    NOT = 30
    IS_NULL = 31
    COALESCE = 32
    CHOOSE = 33
    QUOTIENT = 34
    SCALE = 35  # a product that is the largest or the least number where it would be beyond
    IS_NAN = 36
    LARGER = 37
    LARGER_REAL = 38
    SMALLER = 39
    SMALLER_REAL = 40


class Base(IntEnum):
    """Which row a value is loaded from, before `prev` goes back."""

    CURRENT = 0
    LAST = 1
    FIRST = 2


class TotalKind(IntEnum):
    """What is computed of the rows of a variable."""

    SUM = 0
    MIN = 1
    MAX = 2
    COUNT = 3
    AVG = 4


class Skip(IntEnum):
    """Where matching goes on after a match."""

    PAST_LAST = 0
    TO_NEXT = 1
    TO_FIRST = 2
    TO_LAST = 3


class Outcome(IntEnum):
    """What became of a start row."""

    NONE = 0
    MATCH = 1
    TIMED_OUT = 2
    MISPLACED = 3  # a match, but where it says that matching goes on is nowhere, or where it began
    OPEN = 4
    GIVEN_UP = 5


class PatternTables(NamedTuple):
    """A pattern, as few arrays as possible: each is passed from function to function.

    `states` has for each state its variable, where its targets begin, and where the variables begin that must be absent;
    then a line for the states that a match begins with, and one that ends the lists. `variables` has for each variable the
    line of `SequenceRows.bits` that must be true (-1: none), where its code begins (-1: none), and whether code asks which
    rows it had; the last line stands for all rows of the match."""

    states: Whole  # two dimensions: variable, targets, absent
    targets: Whole
    absent: Whole
    final_absent: Whole
    variables: Whole  # two dimensions: bits, code, tracked
    code: Whole  # two dimensions: instruction and five operands
    constants: Real
    totals: Whole  # two dimensions: function, variable, column, whether it is real
    deepest: int  # values that code has on the stack


class SequenceRows(NamedTuple):
    """Rows of many sequences, one after the other, each in order. Matrices have a line for each column; `bits` has the
    truth of conditions, and before that whether there is a value in each column of `whole`, then of `real`."""

    time: Whole
    bits: Bits
    whole: Whole
    real: Real


class Sequences(NamedTuple):
    """For each sequence its first row, the row at which matching begins or goes on, and the row after its last."""

    low: Whole
    begin: Whole
    high: Whole


class SearchRules(NamedTuple):
    """What is the same for all sequences. `within` is -1 where there is none; rows before `watermark` are all there. A search
    that has taken more steps than `budget` ends where it is."""

    within: int
    watermark: int
    ended: bool
    limit: int
    skip: int
    skip_to: int
    timeouts: bool
    budget: int


class Found(NamedTuple):
    """Match m has `rows[first[m]:first[m + 1]]`, which are the variables `variables` of the same places. `next` is where
    matching goes on in each sequence; `until` has for each row that matching stood at the last time that counted for the
    outcome; `given_up` are the start rows that were given up, `steps` is what it took."""

    outcome: Whole
    start: Whole
    first: Whole
    rows: Whole
    variables: Whole
    next: Whole
    until: Whole
    given_up: Whole
    steps: int
