"""A process and those it started. When it is killed, the others are to end by themselves; if not, they are ended."""

from __future__ import annotations

import os
import signal
import time

from riverrun.log.process import identity_of, is_gone, pid_of


def list_descendants(process: int) -> list[str]:
    """The names of a process's descendants, as far as the system tells (Linux)."""
    children: dict[int, list[int]] = {}
    for entry in os.listdir("/proc") if os.path.isdir("/proc") else []:
        if entry.isdigit():
            children.setdefault(_parent(int(entry)), []).append(int(entry))
    descendants, open_ = [], [process]
    while open_:
        below = children.get(open_.pop(), [])
        descendants += below
        open_ += below
    return [name for name in map(identity_of, descendants) if name is not None]


def await_end(names: list[str], patience: float) -> None:
    """Wait for processes to end, and end those that do not."""
    deadline = time.monotonic() + patience
    left = names
    while left:
        left = [name for name in left if not is_gone(name)]
        if left and time.monotonic() > deadline:
            for name in left:
                _kill(name)
            return
        time.sleep(0.05)


def _kill(name: str) -> None:
    try:
        if not is_gone(name):
            os.kill(pid_of(name), signal.SIGKILL)
    except ProcessLookupError:
        pass


def _parent(process: int) -> int:
    try:
        with open(f"/proc/{process}/stat", encoding="utf-8", errors="replace") as file:
            return int(file.read().rpartition(")")[2].split()[1])  # the name before may hold anything
    except OSError:
        return 0
