"""Random programs: a seed in, a program out."""

from __future__ import annotations

import random
from dataclasses import replace

from random_programs.nodes import NodeMaker
from random_programs.outlets import make_outlets
from random_programs.program import Program, TopicRead
from random_programs.scripts import make_script
from random_programs.shapes import shape_of, shape_of_read
from random_programs.values import FEW, INTEGRAL, MANY, NESTED, NUMERIC, at

KEY_TYPES = ["int", "string", "bigint", "smallint", "tinyint", "boolean", "date"]


def generate(seed: int) -> Program:
    """The program of a seed."""
    dice = random.Random(f"program {seed}")
    partitions = dice.choice([1, 1, 1, 3])
    program = Program(
        reads=_reads(dice),
        operations=(),
        outlets=(),
        script=(),
        partitions=partitions,
        shards=dice.choice([1, 2, 3]),
        max_rows=dice.choice([500_000, 500_000, 500_000, dice.randint(3, 8)]),
        now=at(0) if dice.random() < 0.15 else None,
        drain=dice.random() < 0.8,
        distinct_times=dice.random() < 0.4,
    )
    return _with_script(dice, _with_nodes(dice, program))


def _reads(dice: random.Random) -> tuple[TopicRead, ...]:
    key, group = dice.choice(KEY_TYPES), dice.choice(list(FEW))
    count = dice.choice([1, 2, 2, 3])
    reads = [_read(dice, number, key, group) for number in range(count)]
    tables = [read for read in reads if read.table]
    if tables and dice.random() < 0.2:
        # The same topic as a stream, too, which sees no tombstones.
        reads.append(replace(tables[0], name="s9", table=False, lateness=dice.choice([0, 5]), idle=None))
    return tuple(reads)


def _read(dice: random.Random, number: int, key: str, group: str) -> TopicRead:
    table = number > 0 and dice.random() < 0.55
    if key in INTEGRAL and dice.random() < 0.3:
        key = dice.choice([*INTEGRAL, "double"]) if not table else dice.choice(INTEGRAL)
    columns = {"k": key, "g": group, "v": dice.choice(NUMERIC), "w": dice.choice(list(MANY)), "at": "timestamp"}
    if dice.random() < 0.5:
        columns["q" if table else "t"] = "string"
    if not table and dice.random() < 0.2:
        columns["sent"] = "timestamp"
    if dice.random() < 0.1:
        columns["deep"] = NESTED
    named = not table and dice.random() < 0.25
    if named:
        columns["p"] = "string"
    compound = group in KEY_TYPES and dice.random() < 0.2
    keyed = table or (key in KEY_TYPES and dice.random() < 0.3)
    return TopicRead(
        name=f"t{number}" if table else f"s{number}",
        topic=f"topic{number}",
        table=table,
        columns=columns,
        key=(("k", "g") if compound else ("k",)) if keyed else (),
        time=None if dice.random() < 0.12 else "at",
        lateness=dice.choice([0, 0, 2, 5, 10]),
        producers="p" if named else None,
        idle=dice.choice([3, 8]) if dice.random() < 0.2 else None,
        max_skew=dice.choice([2, 10]) if not table and dice.random() < 0.15 else None,
    )


def _with_nodes(dice: random.Random, program: Program) -> Program:
    shapes = {read.name: shape_of_read(read, program) for read in program.reads}
    maker = NodeMaker(dice, program)
    operations = []
    for _ in range(dice.choice([1, 2, 3, 4, 5, 6])):
        operation = maker.make(f"n{len(operations)}", shapes)
        if operation is not None:
            operations.append(operation)
            shapes[operation.name] = shape_of(operation, [shapes[name] for name in operation.inputs])
    outlets = make_outlets(dice, operations, shapes, [read.name for read in program.reads])
    return replace(program, operations=tuple(operations), outlets=tuple(outlets))


def _with_script(dice: random.Random, program: Program) -> Program:
    return replace(program, script=tuple(make_script(dice, program)))
