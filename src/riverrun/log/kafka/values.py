"""What the values of messages are: one of three formats. Each says how rows become values, and which values become rows."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from riverrun import ddl
from riverrun.log.stored_spec import StoredSpec


class Decoded(NamedTuple):
    """The rows of some values, in their order, and why others are none, by their place."""

    rows: pa.RecordBatch  # the topic's columns; more where the format carries them
    kept: Sequence[int] | np.ndarray  # of which value each row is
    bad: dict[int, str]


class Values(ABC):
    """The values of one topic's messages, for the columns of one version of its schema."""

    whole_batches = False  # whether a value has many rows

    def __init__(self, spec: StoredSpec, schemas: Mapping[int, pa.Schema], version: int) -> None:
        self.spec = spec
        self.schemas = schemas
        self.version = version
        self.columns = ddl.parse(spec.schema)
        self.schema = pa.schema([field.with_nullable(True) for field in schemas[version]])

    @abstractmethod
    def encode(self, rows: pa.RecordBatch) -> list[bytes]:
        """A value for each row, or for all of them where `whole_batches`."""

    @abstractmethod
    def decode(self, values: Sequence[bytes], versions: Sequence[int]) -> Decoded:
        """The rows of values, each written by this version of the schema (0: it does not say)."""


def values_of(spec: StoredSpec, schemas: Mapping[int, pa.Schema], version: int) -> Values:
    """The format that the topic has."""
    if spec.format == "avro":
        from riverrun.log.kafka.avro_values import AvroValues

        return AvroValues(spec, schemas, version)
    if spec.format == "arrow":
        from riverrun.log.kafka.arrow_values import ArrowValues

        return ArrowValues(spec, schemas, version)
    from riverrun.log.kafka.json_values import DocumentValues, JsonValues

    kind = DocumentValues if spec.schema == "json string" else JsonValues
    return kind(spec, schemas, version)
