"""`transform(fn)`: plain Spark, row by row."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from riverrun.columns import TIME
from riverrun.flow.operators.node import Columns, Row
from riverrun.flow.schema import Schema
from riverrun.flow.user_code import hash_of, name_of


@dataclass(frozen=True, eq=False, kw_only=True)
class Transform(Row):
    """A function from DataFrame to DataFrame, row by row: the way out to plain Spark."""

    kind = "transform"
    by_spark = True
    time = TIME
    has_versions = False
    row_id_is_position = False
    function: Callable[[Any], Any]
    columns: Schema

    @property
    def schema(self) -> Schema:
        return self.columns

    @property
    def functions(self) -> tuple[Callable[..., Any], ...]:
        return (self.function,)

    @property
    def orders_by_receipt(self) -> bool:
        return not self.is_table and super().orders_by_receipt

    @property
    def identity(self) -> str:
        return f"{super().identity}|{self.label}"

    @property
    def label(self) -> str:
        return f"transform {name_of(self.function)}"

    def settings(self, wanted: Columns) -> dict[str, Any]:
        return {"code": hash_of(self.function), "columns": self.columns}
