"""The times that Python, databases and people can say: the years 1 to 9999, in UTC. Arrow's go further, both ways.

Rows with others are refused where they come in. Where there are some nevertheless, kept from before or computed by a
flow, they are shown as the first or the last there is: nobody who reads them has to be ready for more.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from riverrun.durations import FIRST, LAST

_DAY = 86_400_000_000
_FEW = 32
# Of whole numbers that values of a type are views of, the least and the largest.
_MOMENTS = pa.int64(), np.dtype(np.int64), FIRST, LAST
_DAYS = pa.int32(), np.dtype(np.int32), FIRST // _DAY, LAST // _DAY


@cache
def has_times(kind: pa.DataType) -> bool:
    """Whether values of a type are times or dates, or have some inside."""
    if pa.types.is_nested(kind):
        return any(has_times(kind.field(i).type) for i in range(kind.num_fields))
    return bool(pa.types.is_timestamp(kind) or pa.types.is_date32(kind))


def fits(values: pa.Array | pa.ChunkedArray) -> bool:
    """Whether all times in a column (as `riverrun.ddl` makes them) lie within the calendar."""
    if isinstance(values, pa.ChunkedArray):
        return all(map(fits, values.chunks))
    if values.null_count == len(values):
        return True
    kind = values.type
    if pa.types.is_timestamp(kind) or pa.types.is_date32(kind):
        return _all_within(values, *_limits(kind))
    if not has_times(kind):
        return True
    if pa.types.is_struct(kind):
        return all(map(fits, values.flatten()))
    offsets = values.offsets
    begin, end = offsets[0].as_py(), offsets[-1].as_py()
    return fits(values.values.slice(begin, end - begin))


def _all_within(values: pa.Array, whole: pa.DataType, raw_type: np.dtype, first: int, last: int) -> bool:
    # Every append looks here, often with one row: NumPy answers before Arrow has begun.
    raw = np.frombuffer(values.buffers()[1], raw_type, len(values), values.offset * raw_type.itemsize)
    ends = raw.tolist() if len(values) < _FEW else [raw.min().item(), raw.max().item()]
    if first <= min(ends) and max(ends) <= last:
        return True
    found = pc.min_max(values.view(whole))  # which knows that what stands under a null is nothing
    least, largest = found["min"].as_py(), found["max"].as_py()
    return least is None or bool(first <= least and largest <= last)


def first_unfit(values: pa.Array) -> int:
    """The place of the first value of a column that does not fit."""
    low, high = 0, len(values)
    while high - low > 1:
        middle = (low + high) // 2
        if fits(values.slice(low, middle - low)):
            low = middle
        else:
            high = middle
    return low


def clamp(values: Any) -> Any:
    """The same column, or chunks of one, with the first or the last time there is for those beyond."""
    if fits(values):
        return values
    if isinstance(values, pa.ChunkedArray):
        return pa.chunked_array([clamp(chunk) for chunk in values.chunks], values.type)
    if pa.types.is_nested(values.type):
        return _clamp_nested(values)
    whole, _, first, last = _limits(values.type)
    raised = pc.max_element_wise(values.view(whole), pa.scalar(first, whole), skip_nulls=False)
    return pc.min_element_wise(raised, pa.scalar(last, whole), skip_nulls=False).view(values.type)


def clamp_table(table: pa.Table) -> pa.Table:
    """The same table, with all its times within the calendar."""
    for at, field in enumerate(table.schema):
        if has_times(field.type) and not fits(table.column(at)):
            table = table.set_column(at, field, clamp(table.column(at)))
    return table


def _limits(kind: pa.DataType) -> tuple[pa.DataType, np.dtype, int, int]:
    return _DAYS if pa.types.is_date32(kind) else _MOMENTS


def _clamp_nested(values: pa.Array) -> pa.Array:
    values = values.take(pa.array(range(len(values)), pa.int64()))  # no longer a slice: it begins where its buffers do
    kind = values.type
    if pa.types.is_struct(kind):
        children = [values.field(i) for i in range(kind.num_fields)]
    else:
        children = [values.values]
    own = values.buffers()[: kind.num_buffers]
    return pa.Array.from_buffers(kind, len(values), own, children=[clamp(child) for child in children])
