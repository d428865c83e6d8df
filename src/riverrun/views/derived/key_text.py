"""The key of a row as one text, for stores that find rows by one. Values of columns have the same texts.

Several parts are joined by `:`; a `:` within one is `%3A`, a `%` is `%25`, and a null is `%-`.

| type | text |
|---|---|
| whole numbers, decimals, strings | as they are |
| floats | the shortest that gives the same number; nan, inf, -inf |
| boolean | true, false |
| date, timestamp | 2026-01-31, 2026-01-31T12:00:00.000000Z |
| binary | base64 |
| array, map, struct (not in keys) | JSON, as in SQLite |
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Sequence
from urllib.parse import unquote_to_bytes

import pyarrow as pa
import pyarrow.compute as pc

from riverrun.views.columns import give_back, is_nested, keep
from riverrun.views.spec import ViewSpec

_NULL = "%-"


def key_text(spec: ViewSpec, key: Sequence[pa.Array]) -> str:
    """The text of one key, given as one array of one value for each column."""
    if not spec.key:
        return ""
    kept = {f"c{spec.names.index(name)}": keep(part) for name, part in zip(spec.key, key, strict=True)}
    text: str = key_texts(spec, pa.table(kept))[0].as_py()
    return text


def key_texts(spec: ViewSpec, kept: pa.Table) -> pa.ChunkedArray | pa.Array:
    """The texts of the keys of kept rows."""
    if not spec.key:
        return pa.array([""] * kept.num_rows, pa.string())
    parts = []
    for name in spec.key:
        column = texts_of(kept.column(f"c{spec.names.index(name)}"), spec.arrow.field(name).type)
        escaped = pc.replace_substring(column.cast(pa.large_string()), "%", "%25")
        parts.append(pc.replace_substring(escaped, ":", "%3A"))
    colon = pa.scalar(":", pa.large_string())
    return pc.binary_join_element_wise(*parts, colon, null_handling="replace", null_replacement=_NULL)


def key_part(spec: ViewSpec, key: bytes, name: str) -> bytes | None:
    """The text of one column of a key, from the text of all."""
    text = key.split(b":")[spec.key.index(name)]
    return None if text == _NULL.encode() else unquote_to_bytes(text)


def texts_of(kept: pa.ChunkedArray, kind: pa.DataType) -> pa.ChunkedArray | pa.Array:
    """A kept column as texts."""
    if is_nested(kind) or pa.types.is_decimal(kind) or pa.types.is_string(kind):
        return kept
    if pa.types.is_binary(kind):
        return pa.array([None if one is None else b64encode(one).decode() for one in kept.to_pylist()], pa.string())
    texts = give_back(kept, kind).cast(pa.string())
    return pc.replace_substring(texts, " ", "T", max_replacements=1) if pa.types.is_timestamp(kind) else texts


def values_of(texts: Sequence[bytes | None], kind: pa.DataType) -> pa.Array:
    """The way back from `texts_of`; `ValueError` or an error of Arrow for what is no value of the type."""
    if pa.types.is_binary(kind):
        return pa.array([None if text is None else b64decode(text, validate=True) for text in texts], kind)
    plain = pa.array([None if text is None else text.decode() for text in texts], pa.string())
    return give_back(plain, kind) if is_nested(kind) else plain.cast(kind)
