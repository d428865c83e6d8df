"""What every node of a flow is: frozen data with a schema, a key, an event time, and the line it was declared on."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from riverrun.columns import TIME
from riverrun.ddl import Type
from riverrun.flow.expressions import Expression, Wanted
from riverrun.flow.place import Place
from riverrun.flow.schema import HIDDEN, Schema

if TYPE_CHECKING:
    from riverrun.flow.composition import Composition

# A field with this metadata is part of the node's id: it says which computation this is. The other fields say how it is
# done; they are in the fingerprint only, so that a changed node can be told from a new one.
IDENTITY = {"identity": True}

Columns = frozenset[str]

Emergence = Literal["log", "time", "mixed"]
"""In which order rows come out, over all epochs: that of the log; that of event time, where each waits for the watermark;
or, where some wait and others do not, one that epochs decide."""

InputTypes = Mapping[str, Mapping[str, Type]]
"""By input, the columns that reach a node and their types, also where the flow could not infer them."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Node:
    """A table or a stream, and how it is computed from its inputs. Nodes are compared by identity.

    A subclass's own fields are its whole configuration. The `id` is stable when other nodes come, go or move.
    """

    kind: ClassVar[str]
    word: ClassVar[str | None] = None
    """What people wrote to get it, where that is not the kind."""

    stateful: ClassVar[bool] = False
    """A kernel runs it: its rows are brought together by `routes`, which adds a stage."""

    by_spark: ClassVar[bool] = False
    """Only Spark can compute its rows: paths of rows begin here, as they do at sources and stateful nodes."""

    plans_watermark: ClassVar[bool] = False
    """Its watermark is planned from the rows of a topic, not derived from its inputs'."""

    input_names: ClassVar[tuple[str, ...]] = ("in",)
    """What the kernel calls its inputs."""

    hands_on_receipt: ClassVar[bool] = False
    """Its rows say when they came in (`_received`), so that others can be compared with them in the order of the log."""

    keeps_row_ids: ClassVar[bool] = False
    """It hands rows on under the ids they came with."""

    passes_rows: ClassVar[bool] = False
    """It hands rows on as they came: columns that nobody reads are left out of its results, too."""

    hands_on_wanted: ClassVar[bool] = False
    """Its results have only those of its columns that somebody reads: one row may come to be many."""

    key_travels: ClassVar[bool] = False
    """Hidden parts of an input's key reach the kernel, and those of its own key go on with its rows."""

    timed: ClassVar[bool] = False
    """The passing of event time alone may change its results: windows close, rows are found to have no partner."""

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
        """How far results may lag this node's watermark, in microseconds: it passes the watermark on minus this."""
        return 0

    @property
    def holds_watermark(self) -> bool:
        """Whether what it has open holds back the watermark it passes on, which only its kernel knows (`Step.watermark`)."""
        return False

    @property
    def timed_by(self) -> tuple[Node, ...]:
        """The inputs whose watermarks hold back this node's."""
        return self.inputs

    @property
    def hidden(self) -> Columns:
        """Those of the columns every row carries that expressions on this node may read."""
        return frozenset({TIME})

    @property
    def hidden_key(self) -> tuple[str, ...]:
        """The parts of its key that are none of its columns."""
        return unseen(self.key, self)

    @property
    def routes(self) -> tuple[tuple[str, ...], ...]:
        """For each input of a stateful node, the columns whose values bring rows together; () brings all together."""
        return ()

    @property
    def late_topics(self) -> Mapping[str, str]:
        """Where the late rows of its inputs go, of those whose rows go anywhere."""
        return {}

    @property
    def quarantines(self) -> Mapping[str, str]:
        """For inputs that may have rows it cannot take in, the topic they are from; "" where they are from none."""
        return {}

    @property
    def withholds(self) -> bool:
        """Whether results that cannot be handed on go to a topic, `<flow>.<node>.quarantine`."""
        return False

    @property
    def row_id_is_position(self) -> bool:
        """Whether what tells its rows apart is their position in the log, which every row carries."""
        return False

    @property
    def orders_by_receipt(self) -> bool:
        """Whether its rows can be put in the order of the log: they say when they came in."""
        return self.hands_on_receipt

    @property
    def emergence(self) -> Emergence:
        """In which order the rows of a stream come out, over all epochs. `_received` says where a row stands in it."""
        return self.inputs[0].emergence

    @property
    def has_versions(self) -> bool:
        """Whether its rows are those of a changelog, so that the versions of a row can be read as they came."""
        return False

    @property
    def functions(self) -> tuple[Callable[..., Any], ...]:
        """The user's own functions that it calls."""
        return ()

    @property
    def label(self) -> str:
        """What a picture says about it."""
        return self.word or self.kind

    def reads_receipt(self, number: int) -> bool:
        """Whether the kernel needs to know when the rows of this input came in."""
        return self.reads_versions(number)

    def reads_versions(self, number: int) -> bool:
        """Whether the kernel reads the versions of a table, as they came in, and not its changes."""
        return False

    def reads_absences(self, number: int) -> bool:
        """Whether the kernel also gets rows that a `where` leaves out, marked: they say from when on there is none."""
        return False

    def reads(self, number: int, columns: Sequence[str]) -> Wanted:
        """What the kernel is given of an input, of which `columns` are needed by anybody."""
        return [(name, None) for name in columns]

    def passed_by(self, number: int) -> Columns:
        """What is read of an input but is no business of the kernel: late rows have it, state does not."""
        return frozenset()

    def key_types(self, number: int) -> Mapping[str, Type]:
        """Columns of an input that have to be converted before they are compared with another input's."""
        return {}

    def resolve(self, inputs: InputTypes) -> list[tuple[str, Type | None]]:
        """Its columns with their types, now that those of the inputs are known; None where nobody can tell."""
        came = inputs[self.input_names[0]]
        columns = [(name, came.get(name) if known is None else known) for name, known in self.schema.columns]
        if self.schema.open:
            named = {name for name, _ in columns}
            columns += [(name, known) for name, known in came.items() if name not in named and not name.startswith("_")]
        return columns

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

    @property
    def base_id(self) -> str:
        """The id, unless another node has it already."""
        return f"{self.kind}-{hashlib.sha256(self.identity.encode()).hexdigest()[:10]}"


_SHARED = {part.name for part in fields(Node)}


@dataclass(frozen=True, eq=False, kw_only=True)
class Row(Node):
    """A node that looks at one row at a time and keeps nothing."""

    @property
    def hidden(self) -> Columns:
        return frozenset.intersection(*(node.hidden for node in self.inputs))

    @property
    def has_versions(self) -> bool:
        return all(node.has_versions for node in self.inputs)

    @property
    def orders_by_receipt(self) -> bool:
        return all(node.orders_by_receipt for node in self.inputs)

    @property
    def row_id_is_position(self) -> bool:
        return all(node.row_id_is_position for node in self.inputs)

    @property
    def emergence(self) -> Emergence:
        return together(self.inputs)

    def compose(self, rows: Composition, below: Node) -> None:
        """Say what becomes of the rows of one input, which comes from `below`, in terms of where they began."""

    def widen(self, below: Sequence[str]) -> list[str]:
        """All its columns, where the schema is open and the input turned out to have these."""
        return list(dict.fromkeys([*below, *self.schema]))


@dataclass(frozen=True, eq=False, kw_only=True)
class ColumnsNode(Row):
    """A node that changes the columns and lets every row through."""

    @property
    def anchor(self) -> str:
        return self.inputs[0].anchor


def together(inputs: Sequence[Node]) -> Emergence:
    """In which order rows of several inputs come out. Those that wait do so for watermarks of their own."""
    if len(inputs) == 1:
        return inputs[0].emergence
    return "log" if all(node.emergence == "log" for node in inputs) else "mixed"


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
