"""One alert while its flow runs: a topic, and a line to each address."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from riverrun import durable
from riverrun.alerts import notes
from riverrun.alerts.address import Address, redact
from riverrun.alerts.dead import bury, bury_again, take_letters
from riverrun.alerts.line import Line, least_offsets
from riverrun.alerts.message import AlertMessage, compose
from riverrun.alerts.retry import Undelivered, is_given_up
from riverrun.alerts.stretch import Offsets, Stretch, count_between, read_stretch
from riverrun.durations import from_micros
from riverrun.errors import RiverrunError
from riverrun.failpoints import failpoint
from riverrun.log.redelivery import Redelivery
from riverrun.river import River
from riverrun.runtime.status import AlertStatus

log = logging.getLogger("riverrun.alerts")

Deliver = Callable[[Address, AlertMessage], None]


class Alert:
    """Sends what is in the alert's topic. `reached` is how far it has been read."""

    def __init__(
        self, flow: str, name: str, to: tuple[Address, ...], message: str | None, every: int, attempts: int
    ) -> None:
        self.name = name
        self.flow = flow
        self.to = to
        self.reached: Offsets = {}
        self.committed: Offsets = {}
        self._template = message
        self._every = every
        self._attempts = attempts
        self._lines: dict[str, Line] = {}
        self._rows = self._dead = 0
        self._last_error: str | None = None
        self._last_sent: int | None = None
        self._letters: Redelivery | None = None

    def open(self, river: River, topic: str, committed: Offsets) -> None:
        """Go on where every address was. May be called again; what was counted stays."""
        self._river = river
        self.topic = river.topic(topic)
        self._path = f"{river.path}/alerts/{topic}.json"
        durable.make_directory(f"{river.path}/alerts")
        self.committed, self.reached = dict(committed), dict(committed)
        self._letters = river.dead_letters
        before, names = self._lines, _name_apart(self.to)
        noted = notes.recall(self._path, names, committed)
        self._lines = {
            name: Line(address, self._every, noted[name]) for name, address in zip(names, self.to, strict=True)
        }
        for name, line in before.items():
            fresh = self._lines[name]
            fresh.sent, fresh.failed = line.sent, line.failed

    @property
    def lines(self) -> list[Line]:
        return list(self._lines.values())

    def due(self, now: int, hurry: bool = False) -> int | None:
        """When one of the lines has something to do; None: when rows come."""
        moments = [line.due(self.reached, now, hurry) for line in self.lines]
        return min((moment for moment in moments if moment is not None), default=None)

    def work(self, now: int, deliver: Deliver, hurry: bool = False) -> bool:
        """One attempt for the line that waits longest, if one is due; whether all addresses have more than before."""
        moments = [(line.due(self.reached, now, hurry), name) for name, line in self._lines.items()]
        ready = sorted((moment, name) for moment, name in moments if moment is not None and moment <= now)
        if not ready:
            return False
        name = ready[0][1]
        line = self._lines[name]
        if line.begin(self.reached, now):
            notes.write(self._path, self._lines, self.committed)
            failpoint("alerts.begun")
        self._attempt(name, line, now, deliver)
        return self.done != self.committed

    @property
    def done(self) -> Offsets:
        """What all addresses have."""
        return least_offsets(self.lines)

    def commit(self) -> None:
        """Note that the consumer group knows what is done."""
        before, self.committed = self.committed, self.done
        self._rows += count_between(before, self.committed)
        notes.write(self._path, self._lines, self.committed)

    def status(self) -> AlertStatus:
        """Has nothing secret in it."""
        lines = self.lines
        return AlertStatus(
            alert=self.name,
            sent=sum(line.sent for line in lines),
            rows=self._rows,
            waiting=max((count_between(line.note.done, self.reached) for line in lines), default=0),
            failed=sum(line.failed for line in lines),
            dead=self._count_dead(),
            last_error=self._last_error,
            last_sent=None if self._last_sent is None else from_micros(self._last_sent),
        )

    def _count_dead(self) -> int:
        if self._letters is not None:
            with suppress(RiverrunError):  # what it was before will do: a status ends no run
                self._dead = self._letters.waiting(self.dead_letters)
        return self._dead

    @property
    def dead_letters(self) -> str:
        """The topic of rows that an address never took."""
        return f"{self.topic.name}.dead"

    def send_again(self, now: int, deliver: Deliver) -> bool:
        """One message about dead letters that somebody wants to be sent again, if there are any; whether there were. What
        its address does not take now, either, is a dead letter once more."""
        assert self._letters is not None
        begin, end = self._letters.asked(self.dead_letters)
        if begin >= end:
            return False
        topic = self._river.topic(self.dead_letters)
        letters = take_letters(topic, self.topic.schema.names, begin, end)
        line = self._lines.get(letters.name)
        try:
            if line is None:
                raise Undelivered("the alert has no such address any more", final=True)
            key = f"{self.dead_letters}@0:{letters.start}-{letters.end - 1}"
            count = letters.end - letters.start
            deliver(line.address, self._compose(key, count, letters.rows))
        except Undelivered as error:
            self._failed(letters.name, error.message, f"its rows stay in {self.dead_letters}")
            bury_again(topic, letters, redact(error.message, self.to))
        else:
            assert line is not None
            line.sent += 1
            self._last_sent = now
        failpoint("alerts.again")
        self._letters.done(self.dead_letters, letters.end)
        return True

    def trouble(self, error: str) -> None:
        """Something that people should know went wrong."""
        self._last_error = redact(error, self.to)

    def _attempt(self, name: str, line: Line, now: int, deliver: Deliver) -> None:
        stretch = line.note.trying
        assert stretch is not None
        try:
            message = self._read(name, stretch)
            if message is not None:
                deliver(line.address, message)
        except Undelivered as error:
            line.failure(now)
            if not is_given_up(error, line.attempts, self._attempts):
                self._failed(name, error.message, "trying again later")
                return
            self._failed(name, error.message, f"its rows go to {self.dead_letters}")
            bury(self._river, self.topic, stretch, name, redact(error.message, self.to), line.attempts)
            failpoint("alerts.dead")
        else:
            if message is not None:
                failpoint("alerts.sent")
                line.sent += 1
                self._last_sent = now
        line.finish()
        notes.write(self._path, self._lines, self.committed)
        failpoint("alerts.noted")

    def _read(self, name: str, stretch: Stretch) -> AlertMessage | None:
        """What to say of a stretch; nothing, when retention has left nothing of it."""
        with _unsendable():
            read = read_stretch(self.topic, stretch)
        if read.lost:
            self.trouble(f"{name}: retention removed rows ({read.lost}) before they could be sent")
            log.warning("alert %s of flow %s: %s", self.name, self.flow, self._last_error)
        return self._compose(stretch.key(self.topic.name), read.count, read.rows) if read.count else None

    def _compose(self, key: str, count: int, rows: Sequence[Mapping[str, Any]]) -> AlertMessage:
        with _unsendable():
            return compose(self.flow, self.name, key, self._template, count, rows)

    def _failed(self, name: str, reason: str, then: str) -> None:
        self.trouble(f"{name}: {reason}")
        log.warning("alert %s of flow %s: %s; %s", self.name, self.flow, self._last_error, then)


@contextmanager
def _unsendable() -> Iterator[None]:
    """What is wrong with the rows themselves is final, so that nobody waits for them. The river's own troubles are not."""
    try:
        yield
    except (RiverrunError, OSError):
        raise
    except Exception as error:
        reason = f"no message can be made of the rows ({type(error).__name__}: {error})"
        raise Undelivered(reason, final=True) from error


def _name_apart(addresses: tuple[Address, ...]) -> list[str]:
    """Names to tell addresses apart by, without what is secret in them."""
    names: list[str] = []
    for address in addresses:
        same = sum(name.partition(" #")[0] == str(address) for name in names)
        names.append(f"{address} #{same + 1}" if same else str(address))
    return names
