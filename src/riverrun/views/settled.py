"""Changes of a view that only have to be written: settled where the rows are made, which needs no store."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec
import pyarrow as pa

from riverrun.columns import WEIGHT
from riverrun.errors import Invalid
from riverrun.views.layout import INSERT, OP, layout_of
from riverrun.views.spec import ViewSpec

if TYPE_CHECKING:
    import polars as pl

_SHAPE = b"riverrun:shape"


@dataclass(frozen=True, slots=True)
class Settled:
    """The net changes of a view, or of some of its keys: each key once, sorted by key, in the layout of stores.

    `batch` is plain Arrow: written as IPC and mapped again it is the same, without copies. It knows the columns and the
    key that it was made for.
    """

    batch: pa.RecordBatch

    @classmethod
    def from_batch(cls, batch: pa.RecordBatch) -> Settled:
        """The way back from `batch`, also by way of IPC; `Invalid` for a batch of anything else."""
        if _SHAPE not in (batch.schema.metadata or {}):
            raise Invalid(f"not changes of a view: a batch of {', '.join(batch.schema.names)}")
        return cls(batch)

    @classmethod
    def from_frame(cls, spec: ViewSpec, changes: pl.DataFrame) -> Settled:
        """Changes that `net` gave for kept rows of the view."""
        from riverrun.state.frames import to_arrow

        return cls(to_arrow(changes, settled_schema(spec)))

    def to_frame(self) -> pl.DataFrame:
        """The changes for Polars; numbers are not copied."""
        from riverrun.state.frames import from_arrow

        return from_arrow(self.batch)

    def check(self, spec: ViewSpec) -> None:
        """`Invalid` unless these are changes of such a view."""
        shape = self.batch.schema.metadata[_SHAPE]
        if shape != _shape(spec):
            raise Invalid(f"changes of view {spec.name!r}, {_shape(spec).decode()}, were settled for {shape.decode()}")


def settle(spec: ViewSpec, rows: pa.Table) -> Settled:
    """What rows of the view, with `_weight` and in log order, come to by key. Nothing but the rows is looked at.

    Everything that a key has in an epoch must be among the rows: parts of an epoch that are settled apart share no key.
    """
    from riverrun.views.keyed_changes import net

    layout = layout_of(spec)
    return Settled.from_frame(spec, net(layout.keep(rows), WEIGHT, layout.key))


def settle_new(spec: ViewSpec, rows: pa.Table) -> Settled:
    """The same for rows that are all new, each with a key that no other row ever had: there is nothing to compare."""
    import polars as pl

    from riverrun.state.key_order import sort_by_key

    layout = layout_of(spec)
    kept = sort_by_key(layout.keep(rows).drop(WEIGHT), layout.key)
    return Settled.from_frame(spec, kept.with_columns(pl.lit(INSERT, pl.Int8).alias(OP)))


def settled_schema(spec: ViewSpec) -> pa.Schema:
    """The columns of settled parts of a view, as their batches have them."""
    return layout_of(spec).changes.with_metadata({_SHAPE: _shape(spec)})


def settled_parts(spec: ViewSpec, changes: pa.Table | Sequence[Settled]) -> list[Settled]:
    """The changes that an epoch has for a view, settled now unless they are; without parts that change nothing."""
    if isinstance(changes, pa.Table):
        changes = [settle(spec, changes)] if changes.num_rows else []
    for part in changes:
        part.check(spec)
    return [part for part in changes if part.batch.num_rows]


def _shape(spec: ViewSpec) -> bytes:
    return msgspec.json.encode({"schema": spec.schema, "key": spec.key})
