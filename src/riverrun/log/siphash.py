"""SipHash-1-3 of keys: 64 bits for an index of keys that strangers choose.

Whoever does not know the secret cannot find two keys with the same hash, so that nobody makes another one's key slow.
The hash of a column is computed for all rows at once.

>>> secret = bytes(range(16))
>>> hex(siphash(b"seat-12", secret))
'0x61e6fd3f28bb68c1'
>>> siphash(b"seat-12", secret) == int(siphash_column(pa.array(["seat-12"]), secret)[0])
True
"""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
import pyarrow as pa

_INITIAL = (0x736F6D6570736575, 0x646F72616E646F6D, 0x6C7967656E657261, 0x7465646279746573)
_MASK = (1 << 64) - 1
_FINAL_ROUNDS = 3
_WORD = 8
_FEW = 24  # below this, plain Python is faster than setting up arrays

Hashes = np.ndarray[Any, np.dtype[np.uint64]]


def siphash(data: bytes, secret: bytes) -> int:
    """The hash of one key."""
    low, high = struct.unpack("<QQ", secret)
    state = (low ^ _INITIAL[0], high ^ _INITIAL[1], low ^ _INITIAL[2], high ^ _INITIAL[3])
    whole = len(data) & ~(_WORD - 1)
    last = int.from_bytes(data[whole:], "little") | (len(data) & 0xFF) << 56
    for word in (*struct.unpack_from(f"<{whole // _WORD}Q", data), last):
        a, b, c, d = _round(state[0], state[1], state[2], state[3] ^ word)
        state = (a ^ word, b, c, d)
    state = (state[0], state[1], state[2] ^ 0xFF, state[3])
    for _ in range(_FINAL_ROUNDS):
        state = _round(*state)
    return state[0] ^ state[1] ^ state[2] ^ state[3]


def _round(a: int, b: int, c: int, d: int) -> tuple[int, int, int, int]:
    a = (a + b) & _MASK
    b = _turned(b, 13) ^ a
    a = _turned(a, 32)
    c = (c + d) & _MASK
    d = _turned(d, 16) ^ c
    a = (a + d) & _MASK
    d = _turned(d, 21) ^ a
    c = (c + b) & _MASK
    b = _turned(b, 17) ^ c
    return a, b, _turned(c, 32), d


def _turned(value: int, bits: int) -> int:
    return (value << bits | value >> (64 - bits)) & _MASK


def siphash_column(keys: pa.Array, secret: bytes) -> Hashes:
    """The hash of every string of a column without nulls."""
    if len(keys) < _FEW:
        return np.array([siphash(key.encode(), secret) for key in keys.to_pylist()], np.uint64)
    _, offset_buffer, data_buffer = keys.buffers()
    offsets = np.frombuffer(offset_buffer, np.int32, len(keys) + 1, keys.offset * 4).astype(np.int64)
    lengths = np.diff(offsets)
    first, last = int(offsets[0]), int(offsets[-1])
    data = np.zeros(last - first + _WORD, np.uint8)  # a word can be read at every byte, and one behind the last
    data[: last - first] = np.frombuffer(data_buffer or b"", np.uint8)[first:last]
    word_at = np.ndarray((last - first + 1,), np.dtype("<u8"), data, strides=(1,))
    at, whole = offsets[:-1] - first, lengths // _WORD
    state = _Columns(secret, len(keys))
    for number in range(int(whole.max(initial=0))):
        some = np.flatnonzero(whole > number)
        state.absorb(word_at[at[some]], None if len(some) == len(keys) else some)
        at[some] += _WORD
    left = ((lengths % _WORD) * 8).astype(np.uint64)
    rest = word_at[at] & ((np.uint64(1) << left) - np.uint64(1))
    state.absorb(rest | (lengths.astype(np.uint64) & np.uint64(0xFF)) << np.uint64(56), None)
    return state.finish()


class _Columns:
    """The four words of every row."""

    def __init__(self, secret: bytes, rows: int) -> None:
        low, high = struct.unpack("<QQ", secret)
        self._words = [
            np.full(rows, start ^ half, np.uint64) for start, half in zip(_INITIAL, (low, high) * 2, strict=True)
        ]

    def absorb(self, words: Hashes, rows: np.ndarray | None) -> None:
        """Take a word of each of these rows, or of all."""
        mine = self._words if rows is None else [column[rows] for column in self._words]
        mine[3] ^= words
        _turn(mine)
        mine[0] ^= words
        if rows is not None:
            for column, changed in zip(self._words, mine, strict=True):
                column[rows] = changed

    def finish(self) -> Hashes:
        a, b, c, d = self._words
        c ^= np.uint64(0xFF)
        for _ in range(_FINAL_ROUNDS):
            _turn(self._words)
        return a ^ b ^ c ^ d


def _turn(words: list[Hashes]) -> None:
    """One round of all rows, in place."""
    a, b, c, d = words
    a += b
    _rotate(b, 13)
    b ^= a
    _rotate(a, 32)
    c += d
    _rotate(d, 16)
    d ^= c
    a += d
    _rotate(d, 21)
    d ^= a
    c += b
    _rotate(b, 17)
    b ^= c
    _rotate(c, 32)


def _rotate(words: Hashes, bits: int) -> None:
    high = words << np.uint64(bits)
    words >>= np.uint64(64 - bits)
    words |= high
