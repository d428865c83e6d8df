"""The client package: loaded when first used, and its errors as ours."""

from __future__ import annotations

from typing import Any

from riverrun.errors import (
    NotFound,
    OutOfRange,
    RecordTooLarge,
    RiverrunError,
    Transient,
    Unavailable,
    not_installed,
)

_GONE = {"UNKNOWN_TOPIC_OR_PART", "_UNKNOWN_TOPIC", "_UNKNOWN_PARTITION", "UNKNOWN_TOPIC_ID"}
_TOO_LARGE = {"MSG_SIZE_TOO_LARGE", "RECORD_LIST_TOO_LARGE"}
_REFUSED = {
    "_AUTHENTICATION",
    "SASL_AUTHENTICATION_FAILED",
    "UNSUPPORTED_SASL_MECHANISM",
    "ILLEGAL_SASL_STATE",
    "TOPIC_AUTHORIZATION_FAILED",
    "GROUP_AUTHORIZATION_FAILED",
    "CLUSTER_AUTHORIZATION_FAILED",
    "TRANSACTIONAL_ID_AUTHORIZATION_FAILED",
    "_SSL",
}
_SUPERSEDED = {"_FENCED", "INVALID_PRODUCER_EPOCH", "PRODUCER_FENCED", "INVALID_PRODUCER_ID_MAPPING", "_CONFLICT"}
_PASSING = {
    "_TRANSPORT",
    "_ALL_BROKERS_DOWN",
    "_TIMED_OUT",
    "_TIMED_OUT_QUEUE",
    "_MSG_TIMED_OUT",
    "_RESOLVE",
    "_RETRY",
    "_PURGE_QUEUE",
    "_PURGE_INFLIGHT",
    "_STATE",
    "REQUEST_TIMED_OUT",
    "INVALID_TXN_STATE",
    "TRANSACTION_COORDINATOR_FENCED",
    "UNKNOWN_PRODUCER_ID",
    "OUT_OF_ORDER_SEQUENCE_NUMBER",
}

# While a partition or a group changes brokers, a broker starts, and just after a topic was made.
_MOVING = {
    "NOT_LEADER_FOR_PARTITION",
    "LEADER_NOT_AVAILABLE",
    "FENCED_LEADER_EPOCH",
    "UNKNOWN_LEADER_EPOCH",
    "COORDINATOR_LOAD_IN_PROGRESS",
    "COORDINATOR_NOT_AVAILABLE",
    "NOT_COORDINATOR",
    "_DESTROY",  # another thread has replaced the client
    "_NOENT",  # no leaders are known
    "_TIMED_OUT",
    "_TRANSPORT",
    "REQUEST_TIMED_OUT",
}


def kafka() -> Any:
    """The package `confluent_kafka`."""
    try:
        import confluent_kafka
        import confluent_kafka.admin
    except ImportError as error:
        raise not_installed("Kafka", error, "kafka") from None
    return confluent_kafka


def cause(error: BaseException) -> Any:
    """What a client's exception is about, with code and name."""
    return error.args[0] if getattr(error, "args", None) else error


def is_superseded(error: BaseException) -> bool:
    """Whether somebody else has begun to write under the same transactional id."""
    return hasattr(cause(error), "name") and cause(error).name() in _SUPERSEDED


def is_moving(error: BaseException) -> bool:
    """Whether asking again in a moment helps: somebody else is about to answer for it."""
    return hasattr(cause(error), "name") and cause(error).name() in _MOVING


def translated(error: BaseException, what: str, brokers: str, topic: str | None = None) -> RiverrunError:
    """A client's error as one of the family. `what` is what could not be done."""
    found = cause(error)
    if not hasattr(found, "name"):
        return Unavailable(f"{what} ({error})")
    name, said = found.name(), found.str()
    if name in _GONE:
        return NotFound(
            f"{what}: Kafka at {brokers} has no topic {topic!r}" if topic else f"{what} ({said})",
            hint="Somebody has deleted it; forget it with: riverrun topic drop NAME, and make it again",
        )
    if name in _TOO_LARGE:
        return RecordTooLarge(
            f"{what}: a message is larger than Kafka takes ({said})",
            hint="Raise max.message.bytes of the topic, or store the large value elsewhere and send its address",
        )
    if name in ("_AUTO_OFFSET_RESET", "OFFSET_OUT_OF_RANGE"):
        return OutOfRange(f"{what}: the offset is no longer kept, or beyond the end ({said})")
    if name in _REFUSED:
        return Unavailable(
            f"{what}: Kafka at {brokers} does not let us ({said})",
            hint="Give login and rights: kafka://…?security.protocol=SASL_SSL&sasl.mechanism=PLAIN&sasl.username=…",
        )
    if name in _PASSING or name in _MOVING or found.retriable():
        return Transient(
            f"{what}: Kafka at {brokers} does not answer ({said})",
            hint="Is the broker running, and is the address the right one?",
        )
    return Unavailable(f"{what} ({name}: {said})")
