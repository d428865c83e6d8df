"""The search for matches in sequences of rows, compiled once for all patterns.

Start rows are decided in order, each by what `bounds` says of it or, where conditions depend on the rows of the match, by
trying attempts in order of preference. States that have failed at a row are remembered together with what conditions can
ask, so that attempts which differ in nothing that counts are tried once. The first start row that rows to come can still
decide ends the search in its sequence.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from riverrun.patterns.automaton import ACCEPT, SKIPPED
from riverrun.patterns.bounds import UNREACHED, compute_bounds, is_possible
from riverrun.patterns.compiled import compiled, compiled_allocating
from riverrun.patterns.evaluation import HISTORY, ROW, VARIABLE, clear, holds, new_path, pop, push
from riverrun.patterns.tables import Found, Outcome, Skip

EFFORT = 100
"""Steps of one attempt for each row that it may have; what takes more is given up."""

_REMEMBERED = 1 << 16
_SOME = 64  # steps before failures are worth remembering
_FOREVER = 1 << 62
_NONE: Any = np.int64(0)
_SKIPPED: Any = np.int64(SKIPPED)


@compiled_allocating
def search(tables: Any, rows: Any, sequences: Any, rules: Any, exact: bool) -> Any:
    """All decided start rows of all sequences."""
    count, states = len(rows.time), len(tables.states) - 2
    longest = 0
    for number in range(len(sequences.low)):
        longest = max(longest, sequences.high[number] - sequences.begin[number])
    block = min(longest, 2 * rules.limit)
    end, reach = np.empty((block, states), np.int32), np.empty((block, states), np.int32)
    depth = min(longest, rules.limit) + 1
    path = new_path(tables, depth, len(tables.totals))
    waiting, entered = np.zeros(depth + 2, np.int64), np.zeros(depth + 2, np.int64)
    failed = np.zeros(1 if exact else _REMEMBERED, np.uint64)
    taken = np.zeros((2, depth + 2), np.int64)  # rows and variables of what was found
    outcome, start, first = np.empty(64, np.int64), np.empty(64, np.int64), np.zeros(65, np.int64)
    found_rows, found_variables = np.empty(256, np.int64), np.empty(256, np.int64)
    given_up = np.empty(16, np.int64)
    follows = np.empty(len(sequences.low), np.int64)
    until = np.full(count, -_FOREVER, np.int64)
    next_absent = np.empty(count + 1 if len(tables.final_absent) else 0, np.int64)
    found, many, lost = 0, 0, 0
    taken_steps = np.zeros(1, np.int64)
    for number in range(len(sequences.low)):
        low, high = sequences.low[number], sequences.high[number]
        at = sequences.begin[number]
        if len(tables.final_absent):
            _find_absent(tables, rows, at, high, next_absent)
        last, base, top = at, at, at  # bounds are known for [base, top)
        while at < high and taken_steps[0] <= rules.budget:
            if at == base == top or (top < high and at + rules.limit >= top):
                base, top = at, min(high, at + block)
                compute_bounds(tables, rows, exact, base, top, end, reach)
                taken_steps[0] += (top - base) * states
            deadline, stop = _FOREVER, high
            if rules.within >= 0:
                deadline = rows.time[at] + rules.within
                last = max(last, at)
                while last < high and rows.time[last] <= deadline:
                    last += 1
                stop = last
            expired = rules.ended or deadline < rules.watermark
            capped = stop > at + rules.limit
            if capped:
                stop = at + rules.limit
            if exact:
                result, length, asked = _look(
                    tables, at, stop, expired, capped, base, top, end, reach, rules.timeouts, taken
                )
            else:
                result, length, asked = _try(
                    tables, rows, path, low, at, stop, high, expired, capped, base, end, reach,
                    rules, waiting, entered, failed, taken, next_absent, taken_steps,
                )  # fmt: skip
            if result == Outcome.OPEN:
                break
            if asked >= stop:
                until[at] = deadline if rules.within >= 0 and not capped else rows.time[min(stop, high - 1)]
            else:
                until[at] = rows.time[asked]
            beyond = at + 1
            if result == Outcome.MATCH:
                beyond = _beyond(at, taken, length, rules)
                if beyond <= at:
                    result, beyond = Outcome.MISPLACED, at + 1
            elif result == Outcome.GIVEN_UP:
                if lost == len(given_up):
                    given_up = _larger(given_up, lost)
                given_up[lost] = at
                lost += 1
            if result in (Outcome.MATCH, Outcome.TIMED_OUT, Outcome.MISPLACED):
                if found == len(outcome):
                    outcome, start, first = _larger(outcome, found), _larger(start, found), _larger(first, found + 1)
                while many + length > len(found_rows):
                    found_rows, found_variables = _larger(found_rows, many), _larger(found_variables, many)
                outcome[found], start[found] = result, at
                for k in range(length):
                    found_rows[many + k], found_variables[many + k] = taken[0, k], taken[1, k]
                many += length
                found += 1
                first[found] = many
            at = beyond
        follows[number] = at
    return Found(
        outcome[:found].copy(), start[:found].copy(), first[: found + 1].copy(), found_rows[:many].copy(),
        found_variables[:many].copy(), follows, until, given_up[:lost].copy(), taken_steps[0],
    )  # fmt: skip


@compiled_allocating
def _larger(values: Any, used: int) -> Any:
    grown = np.empty(2 * len(values) + 1, np.int64)
    for k in range(used):
        grown[k] = values[k]
    return grown


@compiled
def _beyond(at: int, taken: Any, length: int, rules: Any) -> int:
    """Where matching goes on; the start row itself or before it where there is no such place."""
    if rules.skip == Skip.PAST_LAST:
        return int(taken[0, length - 1]) + 1
    if rules.skip == Skip.TO_NEXT:
        return at + 1
    place = -1
    for k in range(length):
        if taken[1, k] == rules.skip_to and (place < 0 or rules.skip == Skip.TO_LAST):
            place = taken[0, k]
    return place


@compiled
def _find_absent(tables: Any, rows: Any, low: int, high: int, next_absent: Any) -> None:
    """For each row the first one from there on that is absent at the end, as far as single rows say."""
    next_absent[high] = UNREACHED
    for row in range(high - 1, low - 1, -1):
        next_absent[row] = next_absent[row + 1]
        for k in range(len(tables.final_absent)):
            absent = tables.final_absent[k]
            column = tables.variables[absent, 0]
            if tables.variables[absent, 1] < 0 and (column < 0 or rows.bits[column, row] != 0):
                next_absent[row] = row


@compiled
def _look(
    tables: Any, at: int, stop: int, expired: bool, capped: bool, base: int, high: int, end: Any, reach: Any,
    timeouts: bool, taken: Any,
) -> tuple[int, int, int]:  # fmt: skip
    """The outcome of a start row where bounds are exact; with the length of what is in `taken`, and the row asked for."""
    states = len(tables.states) - 2
    begin, behind = tables.states[states, 1], tables.states[states + 1, 1]
    soonest, furthest, earlier = UNREACHED, at, UNREACHED
    for k in range(begin, behind):
        target = tables.targets[k]
        furthest = max(furthest, min(reach[at - base, target], earlier))
        earlier = min(earlier, end[at - base, target])
        soonest = min(soonest, end[at - base, target])
    if furthest >= stop and not (expired and not capped):
        return (Outcome.GIVEN_UP if capped else Outcome.OPEN), 0, furthest
    matches = soonest < stop
    if not matches and not (timeouts and furthest >= stop):
        return Outcome.NONE, 0, furthest
    row, length = at, 0
    while True:
        chosen = ACCEPT
        for k in range(begin, behind):
            chosen = tables.targets[k]
            if chosen == ACCEPT:
                break
            if row < stop:
                if matches and end[row - base, chosen] < stop:
                    break
                if not matches and reach[row - base, chosen] >= stop:
                    break
        if chosen == ACCEPT or row == stop:
            break
        if tables.states[chosen, 0] != SKIPPED:
            taken[0, length], taken[1, length] = row, tables.states[chosen, 0]
            length += 1
        begin, behind = tables.states[chosen, 1], tables.states[chosen + 1, 1]
        row += 1
    return (Outcome.MATCH if matches else Outcome.TIMED_OUT), length, furthest


@compiled
def _try(
    tables: Any, rows: Any, path: Any, low: int, at: int, stop: int, high: int, expired: bool, capped: bool, base: int,
    end: Any, reach: Any, rules: Any, waiting: Any, entered: Any, failed: Any, taken: Any, next_absent: Any,
    taken_steps: Any,
) -> tuple[int, int, int]:  # fmt: skip
    """The same where conditions depend on the rows of the match: attempts one after the other."""
    states = len(tables.states) - 2
    ends = expired and not capped  # who asks for a row from `stop` on has failed
    clear(path)
    depth, steps, late = _NONE, 0, _NONE
    asked = at
    waiting[0] = tables.states[states, 1]
    behind = tables.states[states + 1, 1]
    while True:
        steps += 1
        taken_steps[0] += 1
        if steps > EFFORT * rules.limit:
            return Outcome.GIVEN_UP, 0, stop
        if waiting[depth] == behind:
            if depth == 0:
                break
            depth -= 1
            pop(path, depth)
            if steps > _SOME:
                _remember(failed, _key(path, depth, at, entered[depth]))
            behind = _behind(tables, entered, depth, states)
            continue
        target = tables.targets[waiting[depth]]
        waiting[depth] += 1
        row = at + depth
        if target == ACCEPT:
            verdict = _is_accepted(tables, rows, path, depth, low, at, stop, high, ends, capped, next_absent)
            if len(tables.final_absent):
                asked = stop
            if verdict == Outcome.MATCH:
                return Outcome.MATCH, _copied(path, depth, taken), asked
            if verdict != Outcome.NONE:
                return verdict, 0, asked
            continue
        if row >= stop:
            asked = stop
            if not ends:
                return (Outcome.GIVEN_UP if capped else Outcome.OPEN), 0, asked
            if rules.timeouts and late == 0:
                late = _copied(path, depth, taken)
            continue
        asked = max(asked, min(reach[row - base, target], stop))
        alive = reach[row - base, target] >= stop and (not ends or (rules.timeouts and late == 0))
        if end[row - base, target] >= stop and not alive:
            continue
        if steps > _SOME and _is_remembered(failed, _key(path, depth, at, target)):
            continue
        if not _takes(tables, rows, path, depth, low, row, target):
            continue
        entered[depth] = target
        depth += 1
        waiting[depth] = tables.states[target, 1]
        behind = tables.states[target + 1, 1]
    return (Outcome.TIMED_OUT if late else Outcome.NONE), late, asked


@compiled
def _behind(tables: Any, entered: Any, depth: int, states: int) -> int:
    """Where the list ends that the attempt is in after `depth` rows."""
    return int(tables.states[states + 1, 1] if depth == 0 else tables.states[entered[depth - 1] + 1, 1])


@compiled
def _takes(tables: Any, rows: Any, path: Any, depth: int, low: int, row: int, state: int) -> bool:
    """Whether a state takes a row, which is then an entry of the path."""
    if not is_possible(tables, rows, state, row):
        return False
    variable = tables.states[state, 0]
    if variable >= 0:
        push(tables, rows, path, depth, row, variable)
        if tables.variables[variable, 1] < 0 or holds(
            tables, rows, path, tables.variables[variable, 1], depth + 1, low, row
        ):
            return True
        pop(path, depth)
        return False
    for k in range(tables.states[state, 2], tables.states[state + 1, 2]):
        if _is(tables, rows, path, depth, low, row, tables.absent[k]):
            return False
    push(tables, rows, path, depth, row, _SKIPPED)
    return True


@compiled
def _is(tables: Any, rows: Any, path: Any, depth: int, low: int, row: int, variable: int) -> bool:
    """Whether a row is a variable, seen from where the path has come to."""
    column = tables.variables[variable, 0]
    if column >= 0 and rows.bits[column, row] == 0:
        return False
    if tables.variables[variable, 1] < 0:
        return True
    push(tables, rows, path, depth, row, variable)
    true = holds(tables, rows, path, tables.variables[variable, 1], depth + 1, low, row)
    pop(path, depth)
    return true


@compiled
def _is_accepted(
    tables: Any, rows: Any, path: Any, depth: int, low: int, at: int, stop: int, high: int, ends: bool, capped: bool,
    next_absent: Any,
) -> int:  # fmt: skip
    """Whether the rows taken are a match: what must be absent until the time is over is."""
    if len(tables.final_absent) == 0:
        return Outcome.MATCH
    after = at + depth
    if next_absent[after] < stop:
        return Outcome.NONE
    for k in range(len(tables.final_absent)):
        if tables.variables[tables.final_absent[k], 1] >= 0:
            for row in range(after, stop):
                if _is(tables, rows, path, depth, low, row, tables.final_absent[k]):
                    return Outcome.NONE
    if ends:
        return Outcome.MATCH
    return Outcome.GIVEN_UP if capped else Outcome.OPEN


@compiled
def _copied(path: Any, depth: int, taken: Any) -> int:
    length = 0
    for entry in range(depth):
        if path.entries[entry, VARIABLE] != SKIPPED:
            taken[0, length], taken[1, length] = path.entries[entry, ROW], path.entries[entry, VARIABLE]
            length += 1
    return length


@compiled
def _key(path: Any, depth: int, at: int, target: int) -> np.uint64:
    """What a failure depends on: the state, the row, the start, and what conditions can ask of the rows before."""
    mixed = np.uint64(path.entries[depth, HISTORY]) ^ (np.uint64(at) * np.uint64(0x9E3779B97F4A7C15))
    mixed = (mixed ^ np.uint64(target)) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(31)) ^ np.uint64(depth)) * np.uint64(0x94D049BB133111EB)
    return mixed ^ (mixed >> np.uint64(29))


@compiled
def _remember(failed: Any, key: np.uint64) -> None:
    """Two places for each key; what was there is forgotten, which only costs time."""
    place = np.int64(key & np.uint64(len(failed) - 2))
    failed[place + 1] = failed[place]
    failed[place] = key


@compiled
def _is_remembered(failed: Any, key: np.uint64) -> bool:
    place = np.int64(key & np.uint64(len(failed) - 2))
    return bool(failed[place] == key or failed[place + 1] == key)
