"""Key → partition, as Kafka's default partitioner does it, so that a move to Kafka keeps every key where it is.

>>> bool(partition_of(b"user-1", 4) == partition_keys(pa.array(["user-1"]), 4)[0])
True
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

_SEED = 0x9747B28C
_M = 0x5BD1E995
_MASK = 0xFFFFFFFF
_FEW = 40  # below this, plain Python is faster than setting up arrays


def murmur2(data: bytes) -> int:
    """Kafka's 32-bit murmur2 of one key."""
    h = (_SEED ^ len(data)) & _MASK
    whole = len(data) & ~3
    for i in range(0, whole, 4):
        k = int.from_bytes(data[i : i + 4], "little") * _M & _MASK
        k = (k ^ k >> 24) * _M & _MASK
        h = h * _M & _MASK ^ k
    if len(data) > whole:
        h = (h ^ int.from_bytes(data[whole:], "little")) * _M & _MASK
    h = (h ^ h >> 13) * _M & _MASK
    return h ^ h >> 15


def partition_of(key: bytes, partitions: int) -> int:
    return (murmur2(key) & 0x7FFFFFFF) % partitions


def partition_keys(keys: pa.Array, partitions: int) -> np.ndarray:
    """Partition of every key of a string column without nulls."""
    if partitions == 1:
        return np.zeros(len(keys), np.int64)
    if len(keys) < _FEW:
        return np.array([partition_of(key.encode(), partitions) for key in keys.to_pylist()], np.int64)
    return ((murmur2_column(keys) & np.uint32(0x7FFFFFFF)) % np.uint32(partitions)).astype(np.int64)


def murmur2_column(keys: pa.Array) -> np.ndarray:
    """murmur2 of every string of a column, all of them one step at a time."""
    _, offset_buffer, data_buffer = keys.buffers()
    offsets = np.frombuffer(offset_buffer, np.int32, len(keys) + 1, keys.offset * 4).astype(np.int64)
    lengths = np.diff(offsets)
    # Only what the keys cover, for a slice has the whole's bytes; and more, to read a word at every byte of the last.
    data = np.zeros(offsets[-1] - offsets[0] + 4, np.uint8)
    data[:-4] = np.frombuffer(data_buffer or b"", np.uint8)[offsets[0] : offsets[-1]]
    word_at = np.ndarray((len(data) - 3,), np.dtype("<u4"), data, strides=(1,))
    at = offsets[:-1] - offsets[0]
    m = np.uint32(_M)
    h = np.uint32(_SEED) ^ lengths.astype(np.uint32)
    words, rest = lengths >> 2, lengths & 3
    everyone = int(words.min(initial=1 << 31))
    for i in range(int(words.max(initial=0))):
        some = slice(None) if i < everyone else np.nonzero(words > i)[0]
        k = word_at[at[some]]
        k *= m
        k ^= k >> np.uint32(24)
        k *= m
        h[some] = h[some] * m ^ k
        at[some] += 4
    if rest.any():
        some = slice(None) if rest.all() else np.nonzero(rest)[0]
        last = word_at[at[some]] & np.array([0, 0xFF, 0xFFFF, 0xFFFFFF], np.uint32)[rest[some]]
        h[some] = (h[some] ^ last) * m
    h ^= h >> np.uint32(13)
    h *= m
    return h ^ h >> np.uint32(15)
