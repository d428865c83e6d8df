"""A flow that commits epochs to a view store, and its views, for the contract of stores."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from riverrun.views import Epoch, Settled, Store, View, ViewSpec

SCHEMA = "user string, n bigint"
HOUR = 3_600_000_000


def weighted(schema: str, *rows: tuple) -> pa.Table:
    """Rows whose last value is the weight."""
    fields = ViewSpec("x", "f", schema, ()).arrow
    columns = list(zip(*rows, strict=True)) or [()] * (len(fields) + 1)
    arrays = [pa.array(column, field.type) for column, field in zip(columns, fields, strict=False)]
    return pa.table([*arrays, pa.array(columns[-1], pa.int8())], names=[*fields.names, "_weight"])


class ViewFlow:
    """A flow that commits epoch after epoch to one store."""

    def __init__(self, store: Store, *specs: ViewSpec, name: str = "shop") -> None:
        self.store, self.name = store, name
        for spec in specs:
            store.declare(spec)
        self.fence = store.take_fence(name)
        self.epoch = store.last(name).epoch

    def commit(
        self, changes: dict[str, pa.Table | Sequence[Settled]] | None = None, offset: int | None = None, **more
    ) -> bool:
        number = more.pop("epoch", self.epoch + 1)
        positions = {"orders": {0: number * 10 if offset is None else offset}}
        more = {"fence": self.fence, "positions": positions, **more}
        done = self.store.commit(Epoch(self.name, epoch=number, changes=changes or {}, **more))
        self.epoch = max(self.epoch, number)
        return done


def revenue(**more) -> ViewSpec:
    given = {"name": "revenue", "flow": "shop", "schema": SCHEMA, "key": ("user",), "topics": ("orders",), **more}
    return ViewSpec(**given)


def rows(*given: tuple) -> dict[str, pa.Table]:
    return {"revenue": weighted(SCHEMA, *given)}


def contents(store: Store, view: str = "revenue") -> list[tuple]:
    return [tuple(row.values()) for row in View(store, view).rows()]
