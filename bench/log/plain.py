"""The references: the same bytes to and from a plain file."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence

from bench.figure import Stopwatch, Took

INTERVAL = 0.2


def write(path: str, size: int, times: int, fsync: str) -> Took:
    """`times` writes of `size` bytes each to the end of a file, synced as the policy says."""
    data = bytes(size)
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    try:
        watch, synced = Stopwatch(), time.perf_counter()
        for _ in range(times):
            os.write(fd, data)
            if fsync == "batch":
                os.fdatasync(fd)
            elif fsync != "os" and time.perf_counter() - synced > INTERVAL:
                os.fdatasync(fd)
                synced = time.perf_counter()
        if fsync not in ("os", "batch"):
            os.fdatasync(fd)
        return watch.read()
    finally:
        os.close(fd)


def read(paths: Sequence[str]) -> Took:
    """The files from end to end, into one piece of memory again and again."""
    memory = memoryview(bytearray(1 << 20))
    watch = Stopwatch()
    for path in paths:
        fd = os.open(path, os.O_RDONLY)
        try:
            while os.readv(fd, [memory]):
                pass
        finally:
            os.close(fd)
    return watch.read()
