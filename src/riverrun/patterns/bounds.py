"""How soon a match can end, and how far an attempt can go: for every state and row, from the last row to the first.

`end` is the first row that a match can end with when a state takes a row (UNREACHED: none). `reach` is the furthest row
that is asked for. Where conditions do not depend on the rows of the match, both are exact, and `reach` is that of the
preferred attempt: whoever can see no row from there on, or a later one, knows the outcome. Then a start row is decided by
one look, and the rows of a match are found without ever going back. Where conditions do depend on them they are taken for
true, and the numbers are bounds.
"""

from __future__ import annotations

from typing import Any

from riverrun.patterns.automaton import ACCEPT
from riverrun.patterns.compiled import compiled

UNREACHED = (1 << 31) - 1


@compiled
def is_possible(tables: Any, rows: Any, state: int, row: int) -> bool:
    """Whether a state can take a row, as far as the row alone says."""
    variable = tables.states[state, 0]
    if variable >= 0:
        line = tables.variables[variable, 0]
        return bool(line < 0 or rows.bits[line, row] != 0)
    for k in range(tables.states[state, 2], tables.states[state + 1, 2]):
        line, code = tables.variables[tables.absent[k], 0], tables.variables[tables.absent[k], 1]
        if code < 0 and (line < 0 or rows.bits[line, row] != 0):
            return False
    return True


@compiled
def compute_bounds(tables: Any, rows: Any, exact: bool, low: int, high: int, end: Any, reach: Any) -> None:
    """`end[row - low]` and `reach[row - low]` of all states, for rows in [low, high)."""
    states = len(tables.states) - 2
    for row in range(high - 1, low - 1, -1):
        for state in range(states):
            if not is_possible(tables, rows, state, row):
                end[row - low, state] = UNREACHED
                reach[row - low, state] = row
                continue
            soonest, furthest = follow(tables, exact, state, row, low, high, end, reach)
            end[row - low, state] = soonest
            reach[row - low, state] = furthest


@compiled
def follow(
    tables: Any, exact: bool, state: int, row: int, low: int, high: int, end: Any, reach: Any
) -> tuple[int, int]:
    """The same numbers for what follows a state that has taken `row`."""
    soonest, furthest, earlier = UNREACHED, row, UNREACHED
    for k in range(tables.states[state, 1], tables.states[state + 1, 1]):
        target = tables.targets[k]
        if target == ACCEPT:
            soonest = min(soonest, row)
            earlier = min(earlier, row)
            continue
        this_end, this_reach = UNREACHED, high
        if row + 1 < high:
            this_end, this_reach = end[row + 1 - low, target], reach[row + 1 - low, target]
        # What is less preferred counts only as long as nothing before it has come to an end.
        furthest = max(furthest, min(this_reach, earlier) if exact else this_reach)
        earlier = min(earlier, this_end)
        soonest = min(soonest, this_end)
    return soonest, furthest
