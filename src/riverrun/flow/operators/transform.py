"""`transform(fn)`: plain Spark, row by row."""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from riverrun.columns import TIME
from riverrun.flow.operators.node import Columns, Row
from riverrun.flow.schema import Schema


@dataclass(frozen=True, eq=False, kw_only=True)
class Transform(Row):
    """A function from DataFrame to DataFrame, row by row: the way out to plain Spark."""

    kind = "transform"
    by_spark = True
    function: Callable[[Any], Any]
    columns: Schema

    @property
    def schema(self) -> Schema:
        return self.columns

    @property
    def time(self) -> str:
        return TIME

    @property
    def functions(self) -> tuple[Callable[..., Any], ...]:
        return (self.function,)

    @property
    def has_versions(self) -> bool:
        return False

    @property
    def row_id_is_position(self) -> bool:
        return False

    @property
    def orders_by_receipt(self) -> bool:
        return not self.is_table and super().orders_by_receipt

    @property
    def identity(self) -> str:
        return f"{super().identity}|{self.label}"

    @property
    def label(self) -> str:
        return f"transform {getattr(self.function, '__qualname__', type(self.function).__qualname__)}"

    def settings(self, wanted: Columns) -> dict[str, Any]:
        return {"code": code(self.function), "columns": self.columns}


def code(function: Callable[[Any], Any]) -> str:
    """A hash of the function's text, or of its bytecode where there is no text, and of plain values it encloses."""
    try:
        text = inspect.getsource(function)
    except (OSError, TypeError):
        compiled = getattr(function, "__code__", None)
        text = f"{compiled.co_code!r}{compiled.co_names!r}{compiled.co_consts!r}" if compiled else repr(type(function))
    enclosed = [cell.cell_contents for cell in getattr(function, "__closure__", None) or ()]
    plain = [repr(value) for value in enclosed if isinstance(value, str | int | float | bool | tuple | None)]
    return hashlib.sha256("|".join([text, *plain]).encode()).hexdigest()
