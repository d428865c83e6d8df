"""What a producer takes over from those before it: its name, and the rows they left on disk.

A spill file is `<id of the name>-<fence>` or `unnamed-<unique>`. A sequence is the fence and a row's number under it,
so the last sequence in the topic tells how much of a file was sent, also when the process died between the two.
"""

from __future__ import annotations

import logging
import os
import uuid
from collections.abc import Iterator
from typing import TYPE_CHECKING

from riverrun.errors import Conflict
from riverrun.log.frame import NO_SEQUENCE, producer_id
from riverrun.log.producers import Claim
from riverrun.log.spill import Spill

if TYPE_CHECKING:
    from riverrun.log.topic import Topic

log = logging.getLogger("riverrun.log")

_NUMBER_BITS = 40
_UNNAMED = "unnamed-"

Leftover = tuple[Spill, Claim]  # the claim's sequence is the last one that was appended


def sequence_of(fence: int, number: int) -> int:
    """The sequence of a producer's n-th row."""
    return fence << _NUMBER_BITS | number


def spill_name(producer: str | None, fence: int) -> str:
    return f"{producer_id(producer).hex()}-{fence}" if producer is not None else f"{_UNNAMED}{uuid.uuid4().hex}"


def take_name(topic: Topic, producer: str) -> Claim:
    """Shut out older producers of the name, and go on where they stopped."""
    claim = topic.backend.take_over(producer)
    if claim.sequence >> _NUMBER_BITS >= claim.fence:
        raise Conflict(
            f"topic {topic.name}: {producer!r} appended with sequences of its own, up to {claim.sequence}",
            hint="Give this producer another name",
        )
    return claim


def named_leftovers(topic: Topic, claim: Claim) -> Iterator[Leftover]:
    """Files of crashed producers of the name, to be sent before anything else."""
    for spill in Spill.leftovers(topic.backend.spill_directory, f"{producer_id(claim.name).hex()}-"):
        if claim.sequence >> _NUMBER_BITS > int(spill.name.rpartition("-")[2]):
            # Its owner still ran when another one took over; how much of it was sent before is not known any more.
            log.warning("%s: rows of %r, superseded while it ran; they are not sent", spill.path, claim.name)
            os.rename(spill.path, f"{spill.path}.refused")
            spill.let_go()
        else:
            yield spill, claim


def unnamed_leftovers(topic: Topic) -> Iterator[Leftover]:
    for spill in Spill.leftovers(topic.backend.spill_directory, _UNNAMED):
        claim = unnamed_claim(spill)
        last = topic.last_sequence(claim.name)
        yield spill, Claim(claim.name, NO_SEQUENCE if last is None else last)


def unnamed_claim(spill: Spill) -> Claim:
    """Rows that a producer without a name put aside are appended under the name of the file."""
    return Claim(f"spill-{spill.name.removeprefix(_UNNAMED)}")
