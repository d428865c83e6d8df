"""Lines of a file, a pipe or a terminal, many at a time, without waiting for more than there is."""

from __future__ import annotations

import os
import select
import stat
from collections.abc import Iterator
from dataclasses import dataclass

from riverrun.errors import Invalid

_BLOCK = 1 << 20


@dataclass(frozen=True)
class Lines:
    """Consecutive lines without their ends; `first` is the number of the first one, from 1."""

    lines: list[bytes]
    first: int
    bytes: int  # read so far


def read_lines(fd: int, size: int, longest: int) -> Iterator[Lines]:
    """Up to `size` lines at a time. What a pipe has so far is given when it pauses, so a slow one is not held up.

    A line of more than `longest` bytes is an error, before it fills the memory.
    """
    is_file = stat.S_ISREG(os.fstat(fd).st_mode)
    waiting: list[bytes] = []
    rest, number, total = b"", 1, 0
    while True:
        block = os.read(fd, _BLOCK)
        total += len(block)
        parts = (rest + block).split(b"\n")
        rest = parts.pop()
        waiting += parts
        if not block and rest:  # the last line needs no end
            waiting.append(rest)
            rest = b""
        if len(rest) > longest or max(map(len, parts), default=0) > longest:
            waiting, parts = _short_ones(waiting, longest)
            if waiting:
                yield Lines(waiting, number, total)
            raise Invalid(
                f"line {number + len(waiting)} is longer than {longest} bytes", hint="Is there one row per line?"
            )
        while len(waiting) >= size or (waiting and not (block and (is_file or _more(fd)))):
            yield Lines(waiting[:size], number, total)
            number += len(waiting[:size])
            del waiting[:size]
        if not block:
            return


def _short_ones(lines: list[bytes], longest: int) -> tuple[list[bytes], list[bytes]]:
    until = next((i for i, line in enumerate(lines) if len(line) > longest), len(lines))
    return lines[:until], lines[until:]


def _more(fd: int) -> bool:
    return bool(select.select([fd], [], [], 0)[0])
