"""Where results go: views, topics, alerts."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, Literal

from riverrun.columns import ROW_ID
from riverrun.flow.operators.node import Node, unseen
from riverrun.flow.place import Place
from riverrun.store_address import StoreAddress


@dataclass(frozen=True, eq=False, kw_only=True)
class End:
    """A result with a name."""

    kind: ClassVar[str]
    settling: ClassVar[Literal["net", "upserts"] | None] = None
    """What the changes of a table are made into where all of a key's changes are together."""

    key: tuple[str, ...] = ()
    name: str
    node: Node
    place: Place

    @property
    def id(self) -> str:
        """Stable, since names are unique among ends of a kind."""
        return f"{self.kind}-{self.name}"

    @property
    def hidden_key(self) -> tuple[str, ...]:
        """Hidden parts of rows' keys that are written with them."""
        return ()

    @property
    def order_counts(self) -> bool:
        """Whether it matters which of two rows of a stream is the later one."""
        return False

    @property
    def settles_new(self) -> bool:
        """Whether every row is there for itself."""
        return False


@dataclass(frozen=True, eq=False, kw_only=True)
class ViewEnd(End):
    """A queryable table. Without a key of its own it has the node's; a stream's rows are told apart by their hidden id.

    `history` in microseconds keeps versions; `index` has lists of columns by which rows are found fast. `to` is where the
    rows are, None for the river's own store.
    """

    kind = "view"
    settling = "net"
    history: int | None = None
    index: tuple[tuple[str, ...], ...] = ()
    to: StoreAddress | None = None
    partition_by: tuple[str, ...] = ()

    @property
    def keeps_all(self) -> bool:
        """Whether every row of a stream stays, instead of the newest of each key."""
        return not self.node.is_table and self.key == (ROW_ID,)

    @property
    def hidden_key(self) -> tuple[str, ...]:
        return written_key(self.key, self.node)

    @property
    def order_counts(self) -> bool:
        return not self.node.is_table and not self.keeps_all

    @property
    def settles_new(self) -> bool:
        return self.keeps_all


@dataclass(frozen=True, eq=False, kw_only=True)
class TopicEnd(End):
    """A derived topic: rows of a stream, or one row or tombstone per changed key of a table."""

    kind = "topic"
    settling = "upserts"

    @property
    def order_counts(self) -> bool:
        return not self.node.is_table


@dataclass(frozen=True, eq=False, kw_only=True)
class AlertEnd(End):
    """A message per row, at most one per `every` microseconds. Addresses hold passwords, and are not in the repr."""

    kind = "alert"
    to: tuple[str, ...] = field(repr=False)
    message: str | None
    every: int

    @property
    def hidden_key(self) -> tuple[str, ...]:
        return written_key(self.node.key, self.node)


def written_key(key: tuple[str, ...], node: Node) -> tuple[str, ...]:
    """Hidden parts of a key that are columns of what is written; where rows stand in the log is carried anyway."""
    hidden = unseen(key, node)
    if not node.is_table or node.row_id_is_position:
        return tuple(name for name in hidden if name != ROW_ID)
    return hidden
