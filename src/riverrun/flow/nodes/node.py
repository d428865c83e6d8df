"""What every node of a flow is: frozen data with a schema, a key, an event time, and the line it was declared on."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields
from typing import Any, ClassVar

from riverrun.columns import TIME
from riverrun.flow.expressions import Expression
from riverrun.flow.place import Place
from riverrun.flow.schema import HIDDEN, Schema

# A field with this metadata is part of the node's id: it says which computation this is. The other fields say how it is
# done; they are in the fingerprint only, so that a changed node can be told from a new one.
IDENTITY = {"identity": True}

Columns = frozenset[str]


@dataclass(frozen=True, eq=False, kw_only=True)
class Node:
    """A table or a stream, and how it is computed from its inputs. Nodes are compared by identity.

    A subclass's own fields are its whole configuration. The `id` is stable when other nodes come, go or move.
    """

    kind: ClassVar[str]
    # A kernel runs it: its rows are brought together by `routes`, which adds a stage.
    stateful: ClassVar[bool] = False

    inputs: tuple[Node, ...] = ()
    place: Place
    id: str = ""

    @property
    def schema(self) -> Schema:
        """The columns a user sees."""
        return self.inputs[0].schema

    @property
    def is_table(self) -> bool:
        """Whether it is a table; else a stream."""
        return self.inputs[0].is_table

    @property
    def key(self) -> tuple[str, ...]:
        """The columns that name one row of a table, hidden parts included; a stream has none."""
        return self.inputs[0].key

    @property
    def time(self) -> str:
        """The column that holds the event time; `_time` where only the hidden one does."""
        return self.inputs[0].time

    @property
    def retracts(self) -> bool:
        """Whether a row that was issued may be taken back."""
        return any(node.retracts for node in self.inputs)

    @property
    def hold(self) -> int:
        """How long after a row's time the passing of time alone still changes results, in microseconds."""
        return 0

    @property
    def delay(self) -> int:
        """How far results may lie behind this node's watermark, in microseconds: it passes it on minus this."""
        return 0

    @property
    def hidden(self) -> Columns:
        """Those of the columns every row carries that expressions on this node may read."""
        return frozenset({TIME})

    @property
    def routes(self) -> tuple[tuple[str, ...], ...]:
        """For each input of a stateful node, the columns whose values bring rows together; () brings all together."""
        return ()

    @property
    def label(self) -> str:
        """What a picture says about it."""
        return self.kind

    def needs(self, wanted: Columns) -> tuple[Columns, ...]:
        """For each input, the columns it must give so that this node can give the `wanted` ones.

        A stateful node computes all of its columns, whoever wants them: its state depends on nobody downstream.
        """
        return tuple(frozenset(node.schema) for node in self.inputs)

    def settings(self, wanted: Columns) -> dict[str, Any]:
        """The configuration that matters for the `wanted` columns, by field."""
        return {part.name: getattr(self, part.name) for part in self.own()}

    @classmethod
    def own(cls) -> list[Any]:
        """The fields of this kind of node, without those all nodes have."""
        return [part for part in fields(cls) if part.name not in _SHARED]

    @property
    def anchor(self) -> str:
        """What a stateful node above makes its id from. Columns that come and go must not change that id."""
        return self.id

    @property
    def identity(self) -> str:
        """What the id is made from: the inputs and the fields marked so."""
        parts = [canonical(getattr(self, part.name)) for part in self.own() if part.metadata.get("identity")]
        below = [node.anchor if self.stateful else node.id for node in self.inputs]
        return "|".join([self.kind, *below, *parts])


_SHARED = {part.name for part in fields(Node)}


@dataclass(frozen=True, eq=False, kw_only=True)
class Row(Node):
    """A node that looks at one row at a time and keeps nothing."""

    @property
    def hidden(self) -> Columns:
        return frozenset.intersection(*(node.hidden for node in self.inputs))


@dataclass(frozen=True, eq=False, kw_only=True)
class ColumnsOnly(Row):
    """A node that changes the columns and lets every row through."""

    @property
    def anchor(self) -> str:
        return self.inputs[0].anchor


def canonical(value: Any) -> str:
    """A text that is equal for equal configurations, whatever spaces and case an expression is written in."""
    if isinstance(value, Expression):
        return value.canonical
    if isinstance(value, tuple | list):
        return f"({','.join(canonical(part) for part in value)})"
    if hasattr(value, "__dataclass_fields__") and not isinstance(value, type):
        inner = ",".join(f"{part.name}={canonical(getattr(value, part.name))}" for part in fields(value))
        return f"{type(value).__name__}({inner})"
    return repr(value)


def all_hidden() -> Columns:
    """What the rows of a topic carry."""
    return frozenset(HIDDEN)


def unseen(key: Iterable[str], node: Node) -> tuple[str, ...]:
    """The parts of a key that are none of the node's columns."""
    return tuple(name for name in key if name.startswith("_") and name not in node.schema)
