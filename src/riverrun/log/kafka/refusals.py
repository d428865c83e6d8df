"""What a topic on Kafka does not do, and what to use instead. docs/kafka.md has this table, and a test compares them."""

from __future__ import annotations

from typing import NamedTuple

from riverrun.errors import Unavailable


class Refusal(NamedTuple):
    """Why a call is refused, and what to do instead."""

    why: str
    instead: str


REFUSALS = {
    "offsets_at": Refusal(
        "Kafka knows when a message was received, not the event time in it",
        "Read from a position and filter by the time column; topic.backend.offsets_received(moment) goes by receipt",
    ),
    "queue": Refusal(
        "Kafka moves a group on by offsets, not message by message",
        "Use topic.consumer, or keep the queue's topic in a river without log=",
    ),
    "versions": Refusal(
        "Kafka neither counts the messages of a key nor finds them by it",
        "Keep the topic in a river without log=, and riverrun mirror it to Kafka",
    ),
    "compact": Refusal(
        "the broker compacts when it likes", "Make the topic with compact=True; the broker's settings say how soon"
    ),
    "enforce_retention": Refusal(
        "the broker removes old segments when it likes", "Make the topic with retention= or retention_bytes="
    ),
    "archive": Refusal("removed segments are the broker's", "Use tiered storage of the broker, or riverrun mirror"),
    "fsync": Refusal(
        "when rows are on disk is the broker's matter", "Leave it out; min.insync.replicas of the topic decides"
    ),
    "repair": Refusal("its bytes are on the brokers' disks", "Use Kafka's own tools"),
    "capture": Refusal(
        "captures do not write to Kafka yet", "Capture into a river without log=, or use Kafka Connect for this"
    ),
}


def refusal(name: str, subject: str) -> Unavailable:
    """The error for a call that Kafka cannot answer."""
    found = REFUSALS[name]
    return Unavailable(f"{subject} is on Kafka, and {name} is not there: {found.why}", hint=found.instead)
