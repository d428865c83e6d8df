"""Other processes that do a part of the work, started once and used by every round."""

from __future__ import annotations

import multiprocessing
import signal
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection
from typing import Any, Self


class Crew:
    """`size` processes. They end with the program that started them, also when it is interrupted."""

    def __init__(self, size: int) -> None:
        # Not forked: Arrow has threads.
        context = multiprocessing.get_context("spawn")
        self._lines: list[Connection] = []
        self._processes = []
        for _ in range(size):
            mine, theirs = context.Pipe()
            process = context.Process(target=_serve, args=(theirs,), daemon=True)
            process.start()
            theirs.close()
            self._lines.append(mine)
            self._processes.append(process)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for line in self._lines:
            line.close()
        for process in self._processes:
            process.terminate()
            process.join()

    def prepare(self, prepare: Callable[..., Any], *arguments: Any) -> None:
        """Let every process make ready: `prepare` gets its number and the arguments. Returns when all of them are."""
        for number, line in enumerate(self._lines):
            line.send((_prepare, (prepare, number, *arguments)))
        self.results()

    def begin(self, work: Callable[[Any], Any]) -> None:
        """Let all of them work on what they prepared."""
        for line in self._lines:
            line.send((_work, (work,)))

    def results(self) -> Sequence[Any]:
        """What the work gave, when all are done; the first error is raised here."""
        answers = [line.recv() for line in self._lines]
        for answer in answers:
            if isinstance(answer, BaseException):
                raise answer
        return answers

    def together(self, prepare: Callable[..., Any], work: Callable[[Any], Any], *arguments: Any) -> Sequence[Any]:
        """Prepare, work, results."""
        self.prepare(prepare, *arguments)
        self.begin(work)
        return self.results()


_prepared: Any = None


def _prepare(prepare: Callable[..., Any], *arguments: Any) -> None:
    global _prepared
    _prepared = prepare(*arguments)


def _work(work: Callable[[Any], Any]) -> Any:
    global _prepared
    prepared, _prepared = _prepared, None
    return work(prepared)


def _serve(line: Connection) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the one who started us decides
    while True:
        try:
            task, arguments = line.recv()
        except EOFError:
            return
        try:
            answer = task(*arguments)
        except BaseException as error:
            answer = error
        line.send(answer)
