"""Dead letters: how many wait, and sending them again.

They are rows of the topics "<topic>.dead.<group>", of a queue, and "<topic>.dead", of an alert. A mark in the coordination
database says which have been sent again; what is behind it waits, until somebody asks. Those of a queue are handed out
once more, to its group alone. Those of an alert are sent by the run of its flow, which has the addresses: for it there
is a second mark, up to where they are to be sent.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from typing import Literal

from riverrun.errors import Invalid, NotFound, did_you_mean
from riverrun.log.coordination import Coordination
from riverrun.log.dead_letters import COLUMNS
from riverrun.log.offset_commits import committed_offsets, put_offsets
from riverrun.log.topic import Topic
from riverrun.position import Position

# Beside the offsets of groups; no group can have such a name.
_DONE, _ASKED = "~sent again", "~to be sent again"


@dataclass(frozen=True)
class DeadLetterTopic:
    """A topic of dead letters: of which topic they were and, with a queue, of which group. Of `rows` in all, `waiting` were
    not sent again, and `asked` of these are about to be."""

    topic: str
    kind: Literal["queue", "alert"]
    source: str
    group: str | None
    rows: int
    waiting: int
    asked: int = 0


@dataclass(frozen=True)
class Resent:
    """What became of a request to send dead letters again: `rows` are on their way; `gone` cannot be delivered any more,
    since retention has removed them from the source."""

    topic: str
    rows: int
    gone: int = 0


class Redelivery:
    """The dead letters of one river."""

    def __init__(
        self,
        coordination: Coordination,
        names: Callable[[], list[str]],
        open_topic: Callable[[str], Topic],
        briefly: Callable[[str], AbstractContextManager[Topic]],
    ) -> None:
        self._coordination = coordination
        self._names = names
        self._open = open_topic
        self._briefly = briefly

    def topics(self) -> list[DeadLetterTopic]:
        """Every topic of dead letters, in order of names."""
        return list(self._found())

    def describe(self, name: str) -> DeadLetterTopic:
        """One of them; `NotFound` when it is none."""
        found = self._describe(name) if name in self._names() else None
        if found is None:
            others = [one.topic for one in self._found()]
            raise NotFound(f"there is no topic of dead letters {name!r}", hint=did_you_mean(name, others))
        return found

    def waiting(self, name: str) -> int:
        """How many of a topic were not sent again; 0 also where there is no such topic yet."""
        found = self._describe(name) if name in self._names() else None
        return found.waiting if found else 0

    def send_again(self, name: str) -> Resent:
        """Send all that wait, once. A second call finds none, unless they have come back."""
        found = self.describe(name)
        if found.kind == "queue":
            return self._hand_out_again(found)
        end = self._open(name).ends()[0]
        with self._coordination.transaction() as db:
            put_offsets(db, _ASKED, {(name, 0): end})
        return Resent(name, found.waiting)

    def asked(self, name: str) -> tuple[int, int]:
        """From where to where dead letters of an alert are to be sent again."""
        with self._coordination.reading() as db:
            done, asked = (committed_offsets(db, mark, name).get(0, 0) for mark in (_DONE, _ASKED))
        return done, max(done, asked)

    def done(self, name: str, offset: int) -> None:
        """Those before the offset have been sent again."""
        with self._coordination.transaction() as db:
            put_offsets(db, _DONE, {(name, 0): offset})

    def _found(self) -> Iterator[DeadLetterTopic]:
        for name in self._names():
            with suppress(NotFound):  # dropped meanwhile
                found = self._describe(name)
                if found is not None:
                    yield found

    def _describe(self, name: str) -> DeadLetterTopic | None:
        source, of_queue, group = name.rpartition(".dead.")
        if not of_queue and not name.endswith(".dead"):
            return None
        with self._briefly(name) as topic:
            if not is_of_dead_letters(topic):
                return None  # somebody's own topic that is called so
            begin, end = topic.begins()[0], topic.ends()[0]
        done, asked = self.asked(name)
        waiting = end - max(done, begin)
        rows = end - begin
        if of_queue:
            return DeadLetterTopic(name, "queue", source, group, rows, waiting)
        return DeadLetterTopic(name, "alert", name.removesuffix(".dead"), None, rows, waiting, asked - done)

    def _hand_out_again(self, found: DeadLetterTopic) -> Resent:
        letters, source = self._open(found.topic), self._open(found.source)
        begins, end = source.begins(), letters.ends()[0]
        place = (found.group, found.source)
        with self._coordination.transaction() as db:
            handed_out = dict(
                db.execute("select partition, next from cursors where grp = ? and topic = ?", place).fetchall()
            )
            if not handed_out:
                raise NotFound(
                    f"there is no group {found.group} any more that takes topic {found.source} as a queue",
                    hint="Start one of its workers, then send them again",
                )
            begin = max(committed_offsets(db, _DONE, found.topic).get(0, 0), letters.begins()[0])
            places = _places(letters, found.source, begin, end)
            there = [(p, offset) for p, offset in places if p in handed_out and offset >= begins.get(p, offset + 1)]
            db.executemany(
                "insert or ignore into messages values (?, ?, ?, ?, 0, null, null, 0, null, 'sent again')",
                # What is behind the cursor, because somebody moved it back, comes anyway.
                [(*place, partition, offset) for partition, offset in there if offset < handed_out[partition]],
            )
            put_offsets(db, _DONE, {(found.topic, 0): end})
        source.backend.ring()
        return Resent(found.topic, len(there), len(places) - len(there))


def is_of_dead_letters(topic: Topic) -> bool:
    """Whether a topic has the dead letters of a queue or of an alert."""
    is_called_so = ".dead." in topic.name or topic.name.endswith(".dead")
    return is_called_so and {column.name for column in COLUMNS} <= set(topic.schema.names)


def _places(letters: Topic, source: str, begin: int, end: int) -> list[tuple[int, int]]:
    """Where the messages were in their topic."""
    found = []
    for batch in letters.batches({0: begin}, {0: end}, ["dead_position"]):
        for text in batch.column("dead_position").to_pylist():
            with suppress(Invalid):  # of somebody who wrote there by hand
                found += list(Position.parse(text or "").get(source, {}).items())
    return found
