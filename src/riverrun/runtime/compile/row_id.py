"""What tells the rows of streams apart, and gives all of them one order: `_partition` and `_offset`.

`_partition` of a row in a flow has the log's partition in its lowest bits, then the number of the topic, then, where rows
come to a node in several ways (a union), the number of the way. So rows of all topics have one order, and every row an
id. Where rows of tables come together, the way is part of their key instead (`_branch`).
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from riverrun.columns import BRANCH, OFFSET, PARTITION, ROW_ID, SIDE

PARTITIONS = 1 << 10  # a topic has at most so many
TOPICS = 1 << 16
WAYS = 1 << 5
WAY = PARTITIONS * TOPICS  # what a way adds to the number of a row's partition
_LARGEST = (1 << 31) - 1

HIDDEN_KEYS = {BRANCH: pa.int32(), ROW_ID: pa.string(), SIDE: pa.int8()}
"""Parts of keys that are none of a node's columns."""


def topic_numbers(topics: Iterable[str]) -> dict[str, int]:
    """A number for each topic that stays when others come and go."""
    taken: dict[int, str] = {}
    for topic in topics:
        number = zlib.crc32(topic.encode()) % TOPICS
        while number in taken:
            number = (number + 1) % TOPICS
        taken[number] = topic
    return {topic: number for number, topic in taken.items()}


def partition_in_flow(partitions: npt.NDArray[np.int32], topic: int) -> pa.Array:
    """The numbers of the log's partitions as rows of a flow carry them; `topic` is the topic's number."""
    return pa.array((partitions.astype(np.int64) + topic * PARTITIONS).astype(np.int32))


def partition_in_log(carried: str) -> str:
    """SQL: the log's partition, of what rows of a flow carry."""
    return f"CAST({carried} % {PARTITIONS} AS INT)"


def partition_by_way(carried: str, way: int) -> str:
    """SQL: what rows carry once they have come a way."""
    return f"CAST((CAST({carried} AS BIGINT) + {way * WAY}) & {_LARGEST} AS INT)"


def hidden_type(name: str) -> pa.DataType:
    """The type of a hidden part of a key."""
    return HIDDEN_KEYS[_plain(name)]


def _plain(name: str) -> str:
    """A hidden part of a key is named after the side of a join where both have one."""
    while name.startswith("_") and name.endswith("_right"):
        name = name.removesuffix("_right")
    return name


def tell_apart(rows: pa.Table, way: int) -> pa.Table:
    """Rows that came one of several ways, as others see them."""
    if not way or not rows.num_rows:
        return rows
    at = rows.schema.get_field_index(PARTITION)
    moved = pc.add(rows.column(PARTITION).cast(pa.int64()), way * WAY)
    return rows.set_column(at, rows.schema.field(at), pc.bit_wise_and(moved, _LARGEST).cast(pa.int32()))


def with_key_part(rows: pa.Table, name: str, way: int, by_position: bool) -> pa.Table:
    """Rows with a hidden part of their key that they did not bring along: the way they came, or where they stand.

    `by_position` says that rows are told apart by their position in the log.
    """
    if name == BRANCH:
        ways = pa.array(np.full(rows.num_rows, way, np.int32))
        if BRANCH in rows.column_names:
            # It came by another union before, unless it is a row of an outer join that this side has no part in.
            before = pc.multiply(pc.fill_null(pc.add(rows.column(BRANCH), 1), 0), WAYS)
            return rows.set_column(rows.schema.get_field_index(BRANCH), BRANCH, pc.add(before, ways).cast(pa.int32()))
        return rows.append_column(BRANCH, ways)
    if name == ROW_ID and by_position:
        position = [rows.column(part).cast(pa.string()) for part in (PARTITION, OFFSET)]
        return rows.append_column(name, pc.binary_join_element_wise(*position, ":"))
    return rows.append_column(name, pa.nulls(rows.num_rows, hidden_type(name)))  # the others' of a union
