"""Places where a test can make the program fail: killed, stopped, out of space, refused by the disk.

`RIVERRUN_FAILPOINTS="append.written=kill"` kills the process the first time it comes there, `"append.written:3=enospc"`
raises ENOSPC the third time. With `"append.written=kill?/tmp/done"` it happens once, however many processes come there: to
who makes the file. Without the variable a failpoint is one call of an empty function.
"""

from __future__ import annotations

import errno
import os
import signal
from collections.abc import Callable


def _kill() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _stop() -> None:
    os.kill(os.getpid(), signal.SIGSTOP)


def _enospc() -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def _eio() -> None:
    raise OSError(errno.EIO, os.strerror(errno.EIO))


def _is_first(path: str) -> bool:
    try:
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    except FileExistsError:
        return False
    return True


class Crashed(BaseException):
    """A crash as tests inside one process have it: nobody below catches it, and all memory is given up."""


def _crash() -> None:
    raise Crashed


ACTIONS: dict[str, Callable[[], None]] = {"kill": _kill, "stop": _stop, "enospc": _enospc, "eio": _eio, "crash": _crash}


class Failpoints:
    """What is armed, and how often each place was passed."""

    def __init__(self, spec: str) -> None:
        self.hits: dict[str, int] = {}
        self.armed: dict[str, tuple[int, Callable[[], None], str]] = {}
        for item in filter(None, spec.split(",")):
            place, _, what = item.partition("=")
            name, _, nth = place.partition(":")
            action, _, once = what.partition("?")
            self.armed[name] = (int(nth or 1), ACTIONS[action], once)

    def __call__(self, name: str) -> None:
        hit = self.hits[name] = self.hits.get(name, 0) + 1
        armed = self.armed.get(name)
        if armed and armed[0] == hit and (not armed[2] or _is_first(armed[2])):
            armed[1]()


def _nothing(name: str) -> None:
    return


_spec = os.environ.get("RIVERRUN_FAILPOINTS", "")
_active: Callable[[str], None] = Failpoints(_spec) if _spec else _nothing


def failpoint(name: str) -> None:
    """Fail here if a test asked for it."""
    _active(name)


def arm(spec: str) -> None:
    """Arm failpoints in this process; an empty string disarms them all."""
    global _active
    _active = Failpoints(spec) if spec else _nothing
