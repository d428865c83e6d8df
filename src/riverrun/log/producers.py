"""Fences and sequences: what makes a repeated append have no effect and a superseded producer fail.

Sequences go on over fences: what a run appended, the next one need not append again. Only those from before the first
fence do not count, because whoever used the name then is not whom it belongs to.

They are read from frame headers, in journal order, so they are atomic with the rows themselves and need no file.
"""

from __future__ import annotations

from dataclasses import dataclass

from riverrun.durations import wall_clock
from riverrun.errors import Conflict, Fenced, Invalid
from riverrun.log.frame import NO_PRODUCER, NO_SEQUENCE, Header
from riverrun.log.segment import ProducerMemory, RememberedAppend, SegmentSnapshot
from riverrun.settings import Settings


@dataclass(frozen=True, slots=True)
class Claim:
    """Who appends: a producer with a rising sequence, and a fence that older ones fail against."""

    name: str
    sequence: int = NO_SEQUENCE
    fence: int = 0


def turn_of(claim: Claim | None, turn: int) -> int:
    """Which turn round the partitions a batch without a key takes.

    A numbered batch takes the one of its number, so that a flow that computed it again after a crash writes the same
    topic; otherwise whose turn it is does not matter.
    """
    return turn if claim is None or claim.sequence == NO_SEQUENCE else claim.sequence


def claim_of(producer: str | None, sequence: int | None, fence: int | None) -> Claim | None:
    """The arguments of `append`, checked."""
    if producer is None:
        if sequence is not None or fence is not None:
            raise Invalid("sequence and fence belong to a producer", hint='Give producer="…" too')
        return None
    for name, value in (("sequence", sequence), ("fence", fence)):
        if value is not None and (isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 1 << 62):
            raise Invalid(f"{name} must be a whole number from 0, not {value!r}")
    return Claim(check_producer(producer), NO_SEQUENCE if sequence is None else sequence, fence or 0)


def check_producer(name: object) -> str:
    """A name that can be written; else `Invalid`."""
    try:
        if isinstance(name, str) and name.encode():
            return name
    except UnicodeEncodeError:  # half a character, as in names of files that are not UTF-8
        pass
    raise Invalid(f"producer must be a name, not {name!r}")


_REMEMBERED = 5  # repeats come soon after; an older one is answered with the oldest position still known


class Producers:
    """All producers of a topic as of some commit."""

    def __init__(self, snapshot: SegmentSnapshot) -> None:
        self.memories = {
            name: ProducerMemory(memory.fence, memory.received, list(memory.recent))
            for name, memory in snapshot.producers.items()
        }
        self.offsets = list(snapshot.offsets)
        self.appends = snapshot.appends

    def observe(self, header: Header) -> None:
        """Take in the next frame of the journal."""
        if header.span:
            self.offsets[header.partition] = header.offset + header.span
        if header.part == header.parts - 1 and header.producer != NO_PRODUCER:
            self.note(header.producer, header.fence, header.sequence, header.received)

    def note(self, producer: bytes, fence: int, sequence: int, received: int) -> None:
        """An append of this producer ends here."""
        memory = self.memories.setdefault(producer, ProducerMemory())
        if fence and not memory.fence:
            memory.recent.clear()  # numbers of somebody else, who had the name before it was anybody's
        memory.fence, memory.received = max(memory.fence, fence), received
        self.appends += 1
        if sequence != NO_SEQUENCE:
            memory.recent.append(RememberedAppend(sequence, tuple(self.offsets)))
            del memory.recent[:-_REMEMBERED]

    def admit(self, topic: str, claim: Claim, producer: bytes, settings: Settings) -> None:
        """Refuse one name more than a topic remembers. Every writer has all of them in memory, every segment begins with
        them. Who has a fence is one of few, a flow or a queue, and is not kept out by the others."""
        if claim.fence or producer in self.memories or len(self.memories) < settings.max_producers:
            return
        self.memories = self.snapshot(wall_clock(), settings.producer_expiry)
        if len(self.memories) >= settings.max_producers:
            raise Conflict(
                f"topic {topic} remembers {len(self.memories)} producers, and {claim.name!r} is not one of them",
                hint="Use fewer names, each for longer, or raise max_producers; unused ones are forgotten after"
                " producer_expiry",
            )

    def check(self, topic: str, name: str, producer: bytes, fence: int, sequence: int) -> tuple[int, ...] | None:
        """The ends after the first append of a repeated sequence, None for a new one; an older fence is refused."""
        memory = self.memories.get(producer)
        if memory is None:
            return None
        if fence < memory.fence:
            raise Fenced(
                f"topic {topic}: producer {name!r} with fence {fence} was superseded by fence {memory.fence}",
                hint="A newer run has taken over; stop this one",
            )
        if fence and not memory.fence:
            return None
        if sequence == NO_SEQUENCE or not memory.recent or sequence > memory.recent[-1].sequence:
            return None
        return next(recent.offsets for recent in memory.recent if recent.sequence >= sequence)

    def is_raised(self, producer: bytes, fence: int) -> bool:
        """Whether nobody of this name has had this fence yet, or a newer one."""
        return fence > self.memories[producer].fence

    def successor(self, name: str, producer: bytes) -> Claim:
        """The claim of whoever takes this name over: the next fence, and the last sequence that counts under it."""
        memory = self.memories.get(producer)
        if memory is None or not memory.fence:
            return Claim(name, fence=1)
        return Claim(name, memory.last_sequence, memory.fence + 1)

    def snapshot(self, received: int, expiry: int) -> dict[bytes, ProducerMemory]:
        """What the next segment must know: everybody with a fence, and whoever wrote not too long ago."""
        return {n: memory for n, memory in self.memories.items() if memory.fence or memory.received > received - expiry}
