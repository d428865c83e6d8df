"""What the figures were measured on."""

from __future__ import annotations

import os
import platform
import time
from importlib.metadata import version
from pathlib import Path
from statistics import median


def facts(scratch: str) -> dict[str, str]:
    """Name and value of everything that matters for the figures. `scratch` is where they write."""
    return {
        "cores": f"{len(os.sched_getaffinity(0))} ({_processor()})",
        "load": " ".join(f"{load:.1f}" for load in os.getloadavg()),
        "memory": f"{os.sysconf('SC_PHYS_PAGES') * os.sysconf('SC_PAGE_SIZE') / 2**30:.1f} GiB",
        "kernel": f"{platform.system()} {platform.release()}",
        "python": f"{platform.python_version()}, pyarrow {version('pyarrow')}, numpy {version('numpy')}",
        "disk": f"{_filesystem(scratch)}, fdatasync of 4 kB {_sync_time(scratch) * 1e3:.2f} ms",
    }


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.machine()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), platform.machine())


def _filesystem(path: str) -> str:
    """Device and type of the file system that holds `path`."""
    found = ("", "?", "?")
    try:
        lines = Path("/proc/mounts").read_text(encoding="utf-8").splitlines()
    except OSError:
        return "unknown"
    for line in lines:
        device, place, kind = line.split()[:3]
        if os.path.commonpath([place, os.path.realpath(path)]) == place and len(place) >= len(found[0]):
            found = (place, device, kind)
    return f"{found[1]} {found[2]}"


def _sync_time(scratch: str) -> float:
    path = f"{scratch}/sync"
    fd = os.open(path, os.O_WRONLY | os.O_CREAT, 0o644)
    times = []
    try:
        for _ in range(20):
            os.write(fd, bytes(4096))
            begin = time.perf_counter()
            os.fdatasync(fd)
            times.append(time.perf_counter() - begin)
    finally:
        os.close(fd)
        os.unlink(path)
    return median(times)
