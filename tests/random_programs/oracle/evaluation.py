"""A program evaluated epoch by epoch, from what the log has, in plain Python."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import Any

from random_programs.oracle.facts import Epoch, Fact, Node
from random_programs.oracle.pattern_nodes import Match
from random_programs.oracle.percolation import Percolate
from random_programs.oracle.row_nodes import Union, row_node
from random_programs.oracle.sources import Clock, Source, StreamSource, TableSource
from random_programs.oracle.stream_nodes import AsOf, CountUp, Dedupe, JoinStreams, Lookup, Sample, key_of
from random_programs.oracle.table_nodes import Changes, Group, JoinTables, Latest, Top, Versus
from random_programs.oracle.windows import KINDS
from random_programs.program import Operation, Outlet, Program
from random_programs.shapes import Shape, joining, shapes

Chosen = Callable[[Operation, Hashable], bool]
"""Whether a `sample` keeps a key."""


class Evaluation:
    """The nodes of a program, by name."""

    def __init__(self, program: Program, chosen: Chosen) -> None:
        self.program, self.shapes = program, shapes(program)
        self.nodes: dict[str, Node] = {
            read.name: (TableSource if read.table else StreamSource)(read) for read in program.reads
        }
        for operation in program.operations:
            self.nodes[operation.name] = self._node(operation, chosen)

    def _node(self, operation: Operation, chosen: Chosen) -> Node:
        inputs = [self.nodes[name] for name in operation.inputs]
        below = [self.shapes[name] for name in operation.inputs]
        first, options = inputs[0], operation.options
        by_value = below[0].table or below[0].retracts
        match operation.kind:
            case "where" | "select" | "with_columns" | "drop":
                return row_node(first, operation.kind, options)
            case "union":
                columns = self.shapes[operation.name].columns
                return Union(tuple(inputs), list(columns), [name for name, kind in columns.items() if kind == "double"])
            case "dedupe":
                return Dedupe(first, options)
            case "sample":
                return Sample(first, options, lambda key: chosen(operation, key))
            case "apply":
                return CountUp(first, options)
            case "clock":
                assert isinstance(first, Source)
                return Clock(first, options)
            case "match":
                return Match(first, options)
            case "percolate":
                return Percolate(first, inputs[1], options)
            case "group":
                return Group(first, options, by_value)
            case "window":
                kind = options["window"][0]
                # Sliding and session windows keep their rows, with their places; the others keep values.
                return KINDS[kind](first, options, by_value and kind not in ("sliding", "session"))
            case "latest":
                return Latest(first, options)
            case "top":
                return Top(first, options, below[0].key if below[0].table else None)
            case "changes":
                return Changes(first)
            case "versus":
                return Versus(first, options, below[0].key)
        joined = joining(operation, below)
        if operation.kind == "join_tables":
            right = below[1]
            return JoinTables(*inputs, options, joined, joined.right_names(right.key), right.hidden_key)
        joins: dict[str, Any] = {"join_streams": JoinStreams, "lookup": Lookup, "as_of": AsOf}
        node: Node = joins[operation.kind](*inputs, options, joined)
        return node

    def play(self, epochs: Sequence[Epoch]) -> Iterator[Epoch]:
        """Steps through the epochs; after each, `nodes` have what there is then."""
        for epoch in epochs:
            for node in self.nodes.values():
                node.step(epoch)
            yield epoch

    def shown(self, outlet: Outlet) -> list[Fact]:
        """The rows of a view, or those that the topic of a stream has got."""
        node, shape = self.nodes[outlet.input], self.shapes[outlet.input]
        if outlet.key is None or shape.table or (outlet.kind == "topic" and not shape.retracts):
            return list(node.rows.values())
        return newest(node.rows.values(), outlet.key, shape)


def newest(rows: Any, key: Sequence[str], shape: Shape) -> list[Fact]:
    """The newest row of each key: in the order of the log, and by event time where rows may be corrected."""
    order = (lambda row: (row.time, row.place)) if shape.retracts else (lambda row: row.log_order)
    kept: dict[Hashable, Fact] = {}
    for row in sorted(rows, key=order):
        kept[key_of(row, key)] = row
    return list(kept.values())
