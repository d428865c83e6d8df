"""Memory of this process and of everything it has started, each page counted once (Linux)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import psutil


def proportional() -> dict[str, int]:
    """Bytes by kind of process: `driver` is this one, `jvm` is Spark's, `workers` are all others. Pages that several have,
    as those of mapped state, are shared out among them."""
    taken = {"driver": 0, "jvm": 0, "workers": 0}
    for process in _family():
        try:
            kind = "driver" if process.pid == psutil.Process().pid else "jvm" if process.name() == "java" else "workers"
            taken[kind] += _share(process.pid)
        except (psutil.NoSuchProcess, FileNotFoundError, ProcessLookupError):
            continue  # it has just ended
    return taken


def _family() -> Iterator[psutil.Process]:
    yield psutil.Process()
    yield from psutil.Process().children(recursive=True)


def _share(process: int) -> int:
    lines = Path(f"/proc/{process}/smaps_rollup").read_text(encoding="utf-8").splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:"))
