"""Who holds a lease, so that a dead holder is seen at once and not only when its lease runs out.

All holders are processes of one machine, so the system can be asked. A process is named by boot, process namespace, id
and start time: ids are used again, and in another container the same id is somebody else.
"""

from __future__ import annotations

import os

from riverrun.log.board import boot_id

_own: tuple[int, str] = (0, "")


def identity() -> str:
    """The name of this process."""
    global _own
    if _own[0] != os.getpid():
        _own = (os.getpid(), f"{boot_id():x}/{_namespace()}/{os.getpid()}/{_started(os.getpid())}")
    return _own[1]


def identity_of(pid: int) -> str | None:
    """The name of another process of this machine and namespace; None if it has ended."""
    started = _started(pid)
    return f"{boot_id():x}/{_namespace()}/{pid}/{started}" if started else None


def is_near(name: str) -> bool:
    """Whether it would be seen from here if it lives: a process of this machine, since it was started, and namespace."""
    return name.split("/")[:2] == identity().split("/")[:2]


def is_gone(name: str) -> bool:
    """True if that process has certainly ended. False if it lives, or nobody here can say (then its lease decides)."""
    boot, namespace, pid, started = name.split("/")
    own_boot, own_namespace, _, own_started = identity().split("/")
    if boot != own_boot:
        return True
    if namespace != own_namespace or not own_started:
        return False
    return _started(int(pid)) != started


def pid_of(name: str) -> int:
    return int(name.split("/")[2])


def _namespace() -> str:
    try:
        return os.readlink("/proc/self/ns/pid").strip("pid:[]")
    except OSError:
        return ""


def _started(pid: int) -> str:
    """When the process started, in the kernel's ticks; "" if there is none (or only its unreaped remains)."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            fields = file.read().rpartition(")")[2].split()  # the name before may hold anything
    except OSError:
        return ""
    return "" if fields[0] in "ZX" else fields[19]
