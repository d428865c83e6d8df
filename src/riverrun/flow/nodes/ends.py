"""Where results go: views, topics, alerts."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from riverrun.columns import ROW_ID
from riverrun.flow.nodes.node import Node
from riverrun.flow.place import Place


@dataclass(frozen=True, eq=False, kw_only=True)
class End:
    """A result with a name."""

    kind: ClassVar[str]
    name: str
    node: Node
    place: Place

    @property
    def id(self) -> str:
        """Stable, since names are unique among ends of a kind."""
        return f"{self.kind}-{self.name}"


@dataclass(frozen=True, eq=False, kw_only=True)
class ViewEnd(End):
    """A queryable table. Without a key of its own it has the node's; a stream's rows are told apart by their hidden id.

    `history` in microseconds keeps versions; `to` is the store, None the river's own.
    """

    kind = "view"
    key: tuple[str, ...]
    history: int | None = None
    to: str | None = None

    @property
    def keeps_all(self) -> bool:
        """Whether every row of a stream stays, instead of the newest of each key."""
        return not self.node.is_table and self.key == (ROW_ID,)


@dataclass(frozen=True, eq=False, kw_only=True)
class TopicEnd(End):
    """A derived topic: rows of a stream, or one row or tombstone per changed key of a table."""

    kind = "topic"
    key: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False, kw_only=True)
class AlertEnd(End):
    """A message per row, at most one per `every` microseconds. Addresses hold passwords, and are not in the repr."""

    kind = "alert"
    to: tuple[str, ...] = field(repr=False)
    message: str | None
    every: int
