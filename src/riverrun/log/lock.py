"""The lock around an append, held by one thread of one process of the machine."""

from __future__ import annotations

import fcntl
import os
import time

from riverrun.durations import show
from riverrun.errors import Busy, Unavailable
from riverrun.log.board import Board


class Locked:
    """flock with a time limit. flock, not lockf: closing another descriptor of the file does not drop it."""

    def __init__(self, fd: int, board: Board, timeout: int, topic: str) -> None:
        self._fd, self._board, self._timeout, self._topic = fd, board, timeout, topic

    def __enter__(self) -> None:
        if try_lock(self._fd):
            return
        deadline = time.monotonic_ns() // 1000 + self._timeout
        pause = 20e-6
        while not try_lock(self._fd):
            if time.monotonic_ns() // 1000 > deadline:
                holder = self._board.holder
                who = f"process {holder}" if holder else "another process"
                raise Busy(
                    f"topic {self._topic}: {who} has held the append lock for over {show(self._timeout)}",
                    hint=f"Is it stopped? Let it go on (kill -CONT {holder}) or end it" if holder else None,
                )
            time.sleep(pause)
            pause = min(pause * 1.5, 500e-6)

    def __exit__(self, *_: object) -> None:
        fcntl.flock(self._fd, fcntl.LOCK_UN)


def try_lock(fd: int) -> bool:
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def refuse_replaced(fd: int, path: str, topic: str) -> None:
    """Who restores or moves a river may forget a process that has it open: what that one appends would be nowhere."""
    try:
        is_there = os.path.samestat(os.fstat(fd), os.stat(path))
    except FileNotFoundError:
        is_there = False
    if not is_there:
        raise Unavailable(
            f"topic {topic}: {os.path.dirname(path)} was moved, removed or replaced while it was open here",
            hint="Put it back if that was not meant, and start this process again",
        )
