"""What is known of a node before anything runs: its columns, its key, and what may be asked of its order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from random_programs.expressions import Expression
from random_programs.oracle.joined import Joined
from random_programs.oracle.percolation import SUFFIX
from random_programs.program import Aggregation, Operation, Program, TopicRead
from random_programs.values import INTEGRAL

STRUCT, ARRAY = "struct", "array"
"""Stand for all types that only ends can take."""


@dataclass(frozen=True)
class Shape:
    """`ties` says what decides between rows of one event time: the "log", their "value", or nothing that is written
    down (None). `receipt` says what the order in which rows come is: that of the "log", that of "time" where they waited
    for it, or nothing that is written down. `apart`: the topics whose rows these are, where
    no two rows have the same event time. `full`: rows of a full join are among them."""

    columns: Mapping[str, str]
    table: bool
    key: tuple[str, ...] = ()
    hidden_key: bool = False
    retracts: bool = False
    ties: str | None = "log"
    receipt: str | None = "log"
    versions: bool = False
    window: tuple[Any, ...] | None = None
    null_key: bool = False
    apart: frozenset[str] | None = None
    full: bool = False
    untimed: bool = False
    last: bool = False
    """Whether only ends may follow."""

    @property
    def timed(self) -> bool:
        """Whether it is written down what event time its rows have."""
        return not self.untimed and (self.ties is not None or self.window is not None or not self.table)

    def of(self, *kinds: str) -> list[str]:
        """The columns of these types."""
        return [name for name, kind in self.columns.items() if kind in kinds]


def shapes(program: Program) -> dict[str, Shape]:
    """The shape of every node of a program."""
    known: dict[str, Shape] = {read.name: shape_of_read(read, program) for read in program.reads}
    for operation in program.operations:
        known[operation.name] = shape_of(operation, [known[name] for name in operation.inputs])
    return known


def shape_of_read(read: TopicRead, program: Program) -> Shape:
    columns = {name: ARRAY if kind.startswith(ARRAY) else kind for name, kind in read.columns.items()}
    apart = frozenset({read.topic}) if program.distinct_times and read.time else None
    if read.table:
        return Shape(columns, True, read.key, retracts=True, ties="value", versions=True, apart=apart)
    return Shape(columns, False, ties="log" if program.partitions == 1 or apart else None, apart=apart)


def shape_of(operation: Operation, inputs: Sequence[Shape]) -> Shape:
    """The shape of a node whose inputs have these."""
    first, options = inputs[0], operation.options
    match operation.kind:
        case "where" | "dedupe" | "sample":
            return replace(first, versions=first.versions and operation.kind == "where")
        case "select":
            return replace(first, columns={name: kind_of(made, first) for name, made in options["items"].items()})
        case "with_columns":
            made = {name: kind_of(one, first) for name, one in options["items"].items()}
            return replace(first, columns={**first.columns, **made})
        case "drop":
            return replace(
                first, columns={name: kind for name, kind in first.columns.items() if name not in options["names"]}
            )
        case "union":
            columns = {name: common([one.columns[name] for one in inputs]) for name in first.columns}
            keys = tuple(dict.fromkeys(name for one in inputs for name in one.key))
            retracts = any(one.retracts for one in inputs)
            receipt = "log" if all(one.receipt == "log" for one in inputs) else None
            ties = "value" if retracts and all(one.ties == "value" for one in inputs) else None
            apart, full = _apart(inputs), any(one.full for one in inputs)
            ties = "log" if apart and all(one.ties == "log" for one in inputs) else ties
            return Shape(columns, first.table, keys, first.table, retracts, ties, receipt, apart=apart, full=full)
        case "group":
            return Shape(_grouped(first, options), True, options["by"], retracts=True, ties=None, null_key=True)
        case "latest":
            return replace(first, table=True, key=options["key"], retracts=True, ties="value", null_key=True)
        case "clock":
            return replace(first, ties="log" if options["one_partition"] else None, apart=None)
        case "match":
            measured = {"rows": "bigint", "first_of_a": first.columns[options["measured"]]}
            bounds = {"match_start": "timestamp", "match_end": "timestamp"}
            columns = {**{name: first.columns[name] for name in options["by"]}, **measured, **bounds}
            retracts = options["late"][0] == "correct"
            return Shape(columns, False, retracts=retracts, ties=None, receipt=None, last=True)
        case "percolate":
            theirs = {
                f"{name}{SUFFIX}" if name in first.columns else name: kind for name, kind in inputs[1].columns.items()
            }
            return replace(first, columns={**first.columns, **theirs}, ties=None, receipt=None, apart=None)
        case "window":
            key = (*options["by"], *options["keep"], "window_start", "window_end")
            retracts = options["late"][0] == "correct" or options["update"] or options["window"][0] == "session"
            return Shape(
                _grouped(first, options, {"window_start": "timestamp", "window_end": "timestamp"})
                | {name: first.columns[name] for name in options["keep"]},
                True,
                key,
                retracts=retracts or first.retracts,
                ties=None,
                window=options["window"],
                null_key=True,
            )
        case "versus":
            before = {f"{name}_before": kind for name, kind in first.columns.items() if name not in first.key}
            return replace(first, columns={**first.columns, **before}, window=None)
        case "top":
            rank = {options["rank"]: "int"} if options["rank"] else {}
            key = tuple(dict.fromkeys([*options["per"], *first.key]))
            hidden = first.hidden_key or not first.table
            ties = "value" if first.ties == "value" else None
            return Shape({**first.columns, **rank}, True, key, hidden, True, ties, null_key=True, full=first.full)
        case "changes":
            columns = {"_op": "string", "_before": STRUCT, "_after": STRUCT}
            return Shape(columns, False, ties=None, receipt=None, untimed=not first.timed)
        case "apply":
            columns = {**{name: first.columns[name] for name in options["by"]}, "n": "bigint"}
            return Shape(columns, False, ties=None, receipt=None)
    return _shape_of_join(operation, inputs)


def _shape_of_join(operation: Operation, inputs: Sequence[Shape]) -> Shape:
    left, right = inputs
    joined = joining(operation, inputs)
    columns = {}
    for name, side, column in joined.columns:
        if side == "key":
            columns[name] = common([left.columns[column], right.columns[joined.on[column]]])
        else:
            columns[name] = "string" if column == "_version" else (left if side == "left" else right).columns[column]
    match operation.kind:
        case "join_streams":
            return Shape(columns, False, retracts=left.retracts or right.retracts, ties=None, receipt=None)
        case "lookup":
            return replace(left, columns=columns)
        case "as_of":
            corrects = operation.options["late"][0] == "correct"
            ties = left.ties if not (corrects or left.retracts) else "value"
            receipt = left.receipt if corrects or left.receipt is None else "time"
            return replace(left, columns=columns, retracts=left.retracts or corrects, ties=ties, receipt=receipt)
    key = tuple(dict.fromkeys([*left.key, *joined.right_names(right.key)]))
    hidden = left.hidden_key or right.hidden_key
    full = operation.options["how"] == "full"
    if full and not hidden and set(key) <= set(joined.on):
        key = tuple(dict.fromkeys([*key, *joined.on]))  # what is in no key tells apart who is alone
    return Shape(columns, True, key, hidden, True, None, null_key=True, full=full or left.full or right.full)


def _apart(inputs: Sequence[Shape]) -> frozenset[str] | None:
    """The topics of all inputs, where each has its own."""
    topics = [one.apart for one in inputs]
    whole = frozenset().union(*(one or () for one in topics))
    return whole if None not in topics and len(whole) == sum(len(one or ()) for one in topics) else None


def joining(operation: Operation, inputs: Sequence[Shape]) -> Joined:
    """How a join puts the rows of its inputs together."""
    on, (left, right) = operation.options["on"], inputs
    pairs = dict(on) if isinstance(on, Mapping) else {name: name for name in on}
    doubles = [
        mine for mine, theirs in pairs.items() if common([left.columns[mine], right.columns[theirs]]) == "double"
    ]
    extra = ["_version"] if operation.kind == "as_of" else []
    return Joined(on, list(left.columns), [*right.columns, *extra], doubles, operation.options.get("rename"))


def common(kinds: Sequence[str]) -> str:
    """The type that columns of these types have together."""
    if len(set(kinds)) == 1:
        return kinds[0]
    if all(kind in INTEGRAL for kind in kinds):
        return max(kinds, key=INTEGRAL.index)
    return "double" if "double" in kinds or "float" in kinds else "decimal"


def kind_of(expression: Expression, shape: Shape) -> str:
    """The type of an expression over the columns of a node."""
    operation, *parts = expression
    match operation:
        case "column":
            return shape.columns[parts[0]]
        case "literal":
            names = {bool: "boolean", int: "int", float: "double", str: "string"}
            return names.get(type(parts[0]), "decimal(12,2)")
        case "coalesce":
            return kind_of(parts[0], shape)
        case "case":
            return kind_of(parts[1], shape)
        case "long":
            return "bigint"
        case "double":
            return "double"
        case "+" | "*":
            return "double" if "double" in {kind_of(part, shape) for part in parts} else "bigint"
        case "concat" | "upper" | "lower":
            return "string"
        case "length":
            return "int"
    return "boolean"


def _grouped(shape: Shape, options: Mapping[str, Any], more: Mapping[str, str] | None = None) -> dict[str, str]:
    by = {name: shape.columns[name] for name in options["by"]}
    return {**by, **(more or {}), **{made.name: _result(made, shape) for made in options["aggregations"]}}


def _result(made: Aggregation, shape: Shape) -> str:
    match made.function:
        case "count" | "distinct":
            return "bigint"
        case "avg" | "stddev" | "quantile" | "rate":
            return "double"
        case "collect" | "top":
            return ARRAY
    assert made.value is not None
    kind = kind_of(made.value, shape)
    if made.function == "sum":
        return "bigint" if kind in INTEGRAL else "double" if kind in ("float", "double") else "decimal"
    return kind
