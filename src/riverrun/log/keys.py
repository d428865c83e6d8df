"""Keys as people give them: one value, or several of a key of several columns, → the text that a log keeps them by."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from riverrun.columns import OFFSET, PARTITION
from riverrun.errors import Invalid
from riverrun.log.rows import key_text

if TYPE_CHECKING:
    from riverrun.log.topic import Start, Topic


def tombstone(topic: Topic, key: Any) -> dict[str, Any]:
    """The row that says that a key has none."""
    columns = topic.spec.key
    values = key if isinstance(key, list | tuple) else [key]
    if len(values) != len(columns):
        raise Invalid(f"topic {topic.name}: the key is {list(columns)}, {len(values)} values were given")
    return {**dict(zip(columns, values, strict=True)), "_deleted": True}


def key_texts(topic: Topic, keys: Sequence[Any]) -> list[str]:
    """The keys of a topic with versions as text."""
    if not topic.spec.versions:
        raise Invalid(
            f"topic {topic.name} does not count the rows of a key, nor finds them by it",
            hint="Make the topic with versions=True",
        )
    texts: list[str] = key_text(topic.checked([tombstone(topic, key) for key in keys]), topic.spec.key).to_pylist()
    return texts


def check_expected(topic: Topic, expect: Mapping[Any, int]) -> dict[str, int]:
    """What an append expects of keys, by their text."""
    for key, version in expect.items():
        if not isinstance(version, int) or isinstance(version, bool) or version < 0:
            raise Invalid(f"topic {topic.name}: a key is expected at a version from 0, not {version!r}: {key!r}")
    return dict(zip(key_texts(topic, list(expect)), expect.values(), strict=True))


def read_key(topic: Topic, key: Any, start: Start, end: Start, columns: Sequence[str] | None) -> pa.Table:
    """The rows of a key, of those between two places."""
    (text,) = key_texts(topic, [key])
    if start is None and end is None:
        return topic.backend.rows_of(text, columns)
    wanted = None if columns is None else list(dict.fromkeys([*columns, PARTITION, OFFSET]))
    rows = topic.backend.rows_of(text, wanted)
    first, last = topic.offsets(start), topic.offsets(end, "latest")
    partition, offset = rows.column(PARTITION).to_pylist(), rows.column(OFFSET).to_pylist()
    inside = [first[p] <= at < last[p] for p, at in zip(partition, offset, strict=True)]
    rows = rows.filter(pa.array(np.array(inside, np.bool_)))
    return rows if columns is None else rows.select(columns)
