"""A topic as the catalogue on Kafka has it: the compacted topic `riverrun.catalog`, by name."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec
import pyarrow as pa

from riverrun import ddl
from riverrun.errors import Corrupt, Invalid
from riverrun.log.kafka.table import CompactedTable
from riverrun.log.spec import TopicSpec
from riverrun.log.stored_spec import StoredSpec


class _Written(msgspec.Struct):
    """As JSON has it."""

    id: str
    foreign: bool
    options: dict[str, Any]
    schemas: list[str]  # of every version


@dataclass(frozen=True)
class CatalogueEntry:
    """What is known of a topic. `id` is Kafka's; a `foreign` one was there before Riverrun knew it."""

    id: str
    foreign: bool
    spec: StoredSpec
    versions: tuple[str, ...]

    @property
    def version(self) -> int:
        return len(self.versions)

    @property
    def schemas(self) -> dict[int, pa.Schema]:
        return {i + 1: ddl.arrow_schema(ddl.parse(schema)) for i, schema in enumerate(self.versions)}

    @classmethod
    def read(cls, value: bytes, name: str) -> CatalogueEntry:
        """`Corrupt` for what is no entry."""
        try:
            found = msgspec.json.decode(value, type=_Written)
            options = {**found.options, "name": name}
            spec = TopicSpec(schema=found.schemas[-1], **options).resolve()
        except (msgspec.DecodeError, UnicodeDecodeError, Invalid, TypeError, IndexError) as error:
            raise Corrupt(f"the entry of topic {name} in riverrun.catalog cannot be read ({error})") from None
        return cls(found.id, found.foreign, spec, tuple(found.schemas))

    @classmethod
    def find(cls, table: CompactedTable, topic: str, name: str | None = None) -> CatalogueEntry | None:
        """The entry of a topic in the table as it was last refreshed."""
        found = table.rows.get(topic.encode())
        return cls.read(found.value, name or topic) if found else None

    def write(self) -> bytes:
        options = {name: value for name, value in self.spec.options().items() if name != "name"}
        return msgspec.json.encode(_Written(self.id, self.foreign, options, list(self.versions)))
