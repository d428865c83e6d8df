"""Makes a program that fails smaller, as long as it fails in the same way."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from random_programs.program import Operation, Program
from riverrun.testing import Append

Fails = Callable[[Program], str | None]
"""How a program fails; None if it does not."""


def shrink(program: Program, fails: Fails, attempts: int = 400) -> Program:
    """A smaller program that fails as this one does. So many others are tried."""
    wanted, left = fails(program), attempts
    smaller = True
    while smaller and left > 0:
        smaller = False
        for candidate in _smaller(program):
            left -= 1
            if left < 0:
                break
            if _fails(candidate, fails) == wanted:
                program, smaller = candidate, True
                break
    return program


def _fails(program: Program, fails: Fails) -> str | None:
    try:
        return fails(program)
    except Exception as error:
        return type(error).__name__


def _smaller(program: Program) -> Iterator[Program]:
    """Programs with a part less, larger parts first."""
    if len(program.outlets) > 1:
        for outlet in program.outlets:
            yield _without_unused(replace(program, outlets=(outlet,)))
    for size in (len(program.script) // 2, 1):
        for at in range(0, len(program.script), max(size, 1)):
            script = program.script[:at] + program.script[at + max(size, 1) :]
            if size and script:
                yield replace(program, script=script)
    for operation in program.operations:
        yield _without_unused(_bypassed(program, operation))
    for plain in ({"partitions": 1}, {"shards": 2}, {"max_rows": 500_000}, {"now": None}, {"drain": True}):
        ((name, value),) = plain.items()
        if getattr(program, name) != value:
            yield replace(program, **plain)
    yield from _fewer_rows(program)
    yield from _simpler_operations(program)
    for at, read in enumerate(program.reads):
        for name, value in {"lateness": 0, "idle": None, "max_skew": None, "producers": None}.items():
            if getattr(read, name) != value:
                changed = replace(read, **{name: value})
                yield replace(program, reads=(*program.reads[:at], changed, *program.reads[at + 1 :]))
    for read in program.reads:
        for column in read.columns:
            yield _without_column(program, read.topic, column)


def _bypassed(program: Program, operation: Operation) -> Program:
    """The program with a node's first input in its place."""
    first = operation.inputs[0]

    def instead(name: str) -> str:
        return first if name == operation.name else name

    operations = tuple(
        replace(other, inputs=tuple(map(instead, other.inputs)))
        for other in program.operations
        if other is not operation
    )
    outlets = tuple(replace(outlet, input=instead(outlet.input)) for outlet in program.outlets)
    return replace(program, operations=operations, outlets=outlets)


def _without_unused(program: Program) -> Program:
    """The program without nodes that lead to no end, and without their topics."""
    inputs = {one.name: one.inputs for one in program.operations}
    used: set[str] = set()
    open_ = [outlet.input for outlet in program.outlets]
    while open_:
        name = open_.pop()
        used.add(name)
        open_ += inputs.get(name, ())
    reads = tuple(read for read in program.reads if read.name in used)
    topics = {read.topic for read in reads}
    script = []
    for step in program.script:
        if isinstance(step, Mapping):
            script.append({topic: rows for topic, rows in step.items() if topic in topics})
        elif getattr(step, "topic", None) is None or step.topic in topics:
            script.append(step)
    operations = tuple(one for one in program.operations if one.name in used)
    return replace(program, reads=reads, operations=operations, script=tuple(script))


def _fewer_rows(program: Program) -> Iterator[Program]:
    for at, step in enumerate(program.script):
        if isinstance(step, Mapping):
            for topic, rows in step.items():
                for number in range(len(rows)):
                    fewer = {**step, topic: rows[:number] + rows[number + 1 :]}
                    fewer = {name: some for name, some in fewer.items() if some}
                    yield replace(program, script=(*program.script[:at], fewer, *program.script[at + 1 :]))


def _simpler_operations(program: Program) -> Iterator[Program]:
    for at, operation in enumerate(program.operations):
        for name, value in operation.options.items():
            if name in ("aggregations", "order", "by", "per") and len(value) > (name in ("aggregations", "order")):
                for number in range(len(value)):
                    options = {**operation.options, name: value[:number] + value[number + 1 :]}
                    changed = replace(operation, options=options)
                    yield replace(
                        program, operations=(*program.operations[:at], changed, *program.operations[at + 1 :])
                    )


def _without_column(program: Program, topic: str, column: str) -> Program:
    def rows_without(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
        return [{name: value for name, value in row.items() if name != column} for row in rows]

    def step_without(step: Any) -> Any:
        if isinstance(step, Mapping):
            return {name: rows_without(rows) if name == topic else rows for name, rows in step.items()}
        if isinstance(step, Append) and step.topic == topic:
            return replace(step, rows=rows_without(step.rows))
        return step

    reads = tuple(
        replace(read, columns={name: kind for name, kind in read.columns.items() if name != column})
        if read.topic == topic
        else read
        for read in program.reads
    )
    return replace(program, reads=reads, script=tuple(map(step_without, program.script)))
