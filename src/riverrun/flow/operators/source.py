"""Where rows come from: a topic, read as a stream."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from riverrun.columns import RECEIVED, TIME
from riverrun.flow.operators.node import IDENTITY, Columns, Node, all_hidden
from riverrun.flow.schema import Schema


@dataclass(frozen=True, eq=False, kw_only=True)
class Source(Node):
    """A topic. Durations are microseconds; `producers` is the column that names who wrote a row, None the partition."""

    plans_watermark = True
    emergence = "log"

    topic: str = field(metadata=IDENTITY)
    columns: Schema
    topic_key: tuple[str, ...] = ()
    event_time: str = RECEIVED
    lateness: int = 0
    producers: str | None = None
    idle: int | None = None
    max_skew: int | None = None

    @property
    def schema(self) -> Schema:
        return self.columns

    @property
    def time(self) -> str:
        return TIME if self.event_time == RECEIVED else self.event_time

    @property
    def label(self) -> str:
        return self.topic

    @property
    def base_id(self) -> str:
        return f"{self.kind}-{self.topic}"

    def needs(self, wanted: Columns) -> tuple[Columns, ...]:
        return ()

    def settings(self, wanted: Columns) -> dict[str, Any]:
        # A column nobody reads may come and go without a rebuild, and columns may change places.
        read = tuple(
            sorted((name, str(self.columns[name])) for name in self.columns if name in {*wanted, self.event_time})
        )
        return {**super().settings(wanted), "columns": read}


@dataclass(frozen=True, eq=False, kw_only=True)
class StreamSource(Source):
    """Every row of the topic, as it was appended."""

    kind = "stream"
    hands_on_receipt = True
    is_table = False
    key = ()
    retracts = False

    @property
    def hidden(self) -> Columns:
        return all_hidden()

    def settings(self, wanted: Columns) -> dict[str, Any]:
        # The topic's key decides which partition a row is in, not what is computed.
        return {name: value for name, value in super().settings(wanted).items() if name != "topic_key"}
