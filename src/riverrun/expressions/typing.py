"""Types of the columns that expressions name, for the translation of expressions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa

from riverrun import ddl
from riverrun.ddl import Struct, Type


def column_types(fields: pa.Schema) -> Callable[[Any], Type | None]:
    """The type of `rows`.`column`, and of fields inside it, for rows with these fields."""

    def of(column: Any) -> Type | None:
        _, name, *inner = (part.name for part in column.parts)
        known: Any = ddl.from_arrow(fields.field(name).type)
        for step in inner:
            if not isinstance(known, Struct):
                return None
            known = next((part.type for part in known.fields if part.name.lower() == step.lower()), None)
        return known  # type: ignore[no-any-return]

    return of
