"""One family of errors; each says what happened, where, and what to do.

RiverrunError
├── Invalid            an argument, a name, a schema or a row that cannot be accepted (also a ValueError)
│   ├── RecordTooLarge
│   ├── Misfit         envelopes.connect: a declared column is something else by the schema in a message
│   ├── Miscalled      calls: arguments that a method does not take (also a TypeError)
│   ├── Misplaced      calls: a method that something does not have (also an AttributeError)
│   ├── NotQuick       search.quick: a stored search that has more to it than words
│   ├── NoZone         log.times: a time that may be meant in any zone
│   ├── PortInUse      another program listens there
│   ├── QueryError     search.parsing: a stored search that cannot be read
│   ├── UnknownSyntax  flow.syntax: an expression in words that only Spark reads
│   │   └── TooDeep    flow.syntax: brackets within brackets, more than anybody reads
│   ├── Unmatched      expressions.regex: a regular expression that Java reads in another way
│   └── Unverified     expressions.forms: an expression that only Spark computes
├── NotFound           a topic, view, group or column that does not exist (also a LookupError)
├── Conflict           it exists already and says something else
│   ├── VersionConflict   a key of a topic has another version than was expected
│   └── Behind         views.derived.marker: a store of views lacks what was committed before
├── OutOfRange         a position that is no longer kept, or beyond the end of the log
├── Fenced             a newer run, producer or group member has taken over
│   └── Superseded     log.kafka.writer: somebody else writes under the same name to Kafka
├── Corrupt            stored bytes are damaged; nothing is skipped silently
├── NewerFormat        written by a newer Riverrun
├── OlderFormat        written by an older Riverrun, in a way that this one does not read
├── Unavailable        a part that is not installed, or a directory that cannot be used
│   └── OutcomeUnknown log.kafka.writer: Kafka did not come back to say whether a commit was made
├── Closed             used after close
├── Refused            serve.problems: a request that HTTP has a status of its own for
├── Undelivered        alerts.retry: an address did not take a message
└── Transient          may be retried
    ├── DiskFull
    ├── Busy           another process holds the lock
    ├── JvmEnded       spark.failures: Spark's JVM is gone; the next run starts another one
    └── TimedOut       (also a TimeoutError)

Those with a module before the colon are defined there: only that part raises and catches them.
"""

from __future__ import annotations

import difflib
import errno
from collections.abc import Iterable, Mapping

_NO_ROOM = {errno.ENOSPC, errno.EDQUOT}
_NO_DESCRIPTOR = {errno.EMFILE, errno.ENFILE}
_NO_MEMORY = {errno.ENOMEM, errno.EAGAIN}


class RiverrunError(Exception):
    """Root of all errors. `hint` is what to do about it, when there is something to do."""

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        self.message = message
        self.hint = hint
        super().__init__(f"{message}. {hint}" if hint else message)


class Invalid(RiverrunError, ValueError):
    """An argument, a name, a schema or a row that cannot be accepted. Nothing was written."""


class RecordTooLarge(Invalid):
    """One record is larger than the topic's limit; the topic goes on."""


class PortInUse(Invalid):
    """Another process listens there."""


class NotFound(RiverrunError, LookupError):
    """There is no such topic, view, group or column."""


class Conflict(RiverrunError):
    """It exists already and says something else."""


class VersionConflict(Conflict):
    """Keys of a topic have other versions than were expected; `versions` has those they have, by key as text."""

    versions: Mapping[str, int] = {}

    @classmethod
    def of(cls, topic: str, expected: Mapping[str, int], found: Mapping[str, int]) -> VersionConflict:
        """`found` may have more keys than differ."""
        differing = {key: count for key, count in found.items() if count != expected[key]}
        key = next(iter(differing))
        more = f" (and {len(differing) - 1} other keys)" if len(differing) > 1 else ""
        error = cls(
            f"topic {topic}: {key!r} is at version {differing[key]}, not {expected[key]}{more}; nothing was appended",
            hint="Somebody was faster: read the key again, and decide on what is there now",
        )
        error.versions = differing
        return error


class OutOfRange(RiverrunError):
    """A position that is no longer kept, or beyond the end; the message has the valid range."""


class Fenced(RiverrunError):
    """A newer run, producer or group member has taken over; this one may write nothing more."""


class Corrupt(RiverrunError):
    """Stored bytes are damaged. The message names the file and the byte."""


class NewerFormat(RiverrunError):
    """The files were written by a newer Riverrun."""


class OlderFormat(RiverrunError):
    """The files were written by an older Riverrun, in a way that this one does not read; the hint is the way out."""


class Unavailable(RiverrunError):
    """A part that is not installed, or a directory or server that cannot be used."""


class Closed(RiverrunError):
    """Used after close."""


class Transient(RiverrunError):
    """The same call may succeed later."""


class DiskFull(Transient):
    """There is no room. Reads work; writes work again when there is room."""


class Busy(Transient):
    """Another process holds the lock for too long; the message names it."""


class TimedOut(Transient, TimeoutError):
    """It did not happen in the given time."""


def from_system(error: OSError, what: str, *, hint: str | None = None) -> RiverrunError:
    """What the system has refused, as one of the family: what it is short of will be there again.

    >>> from_system(OSError(errno.EMFILE, "Too many open files"), "orders cannot be opened")
    Transient('orders cannot be opened (Too many open files). Close some files, or raise the limit: ulimit -n')
    """
    why = error.strerror or str(error)
    if error.errno in _NO_ROOM:
        hint = "Free some space, or remove files where inodes are short; then try again"
        return DiskFull(f"{what}, there is no room ({why})", hint=hint)
    if error.errno in _NO_DESCRIPTOR:
        return Transient(f"{what} ({why})", hint="Close some files, or raise the limit: ulimit -n")
    if error.errno in _NO_MEMORY:
        return Transient(f"{what} ({why})", hint="The machine is short of memory; try again")
    return Unavailable(f"{what} ({why})", hint=hint)


def how_to_install(extras: str) -> str:
    """The command for some of Riverrun's extras. It is on no package index yet, so this is one for a clone: nobody shall
    fetch a stranger's package of that name.

    >>> how_to_install("postgres")
    "pip install '.[postgres]' (in a clone of Riverrun)"
    """
    return f"pip install '.[{extras}]' (in a clone of Riverrun)"


def not_installed(who: str, missing: ImportError | str, extras: str, otherwise: str = "") -> Unavailable:
    """`who` needs a package that an extra would have brought; `otherwise` is a way without.

    >>> print(not_installed("a capture", "psycopg2", "capture"))
    a capture needs a package that is not installed (psycopg2). Install it: pip install '.[capture]' (in a clone of Riverrun)
    """
    name = missing if isinstance(missing, str) else missing.name or str(missing)
    hint = f"Install it: {how_to_install(extras)}{otherwise and f'; {otherwise}'}"
    return Unavailable(f"{who} needs a package that is not installed ({name})", hint=hint)


def did_you_mean(name: str, others: Iterable[str]) -> str:
    """A hint with the nearest of the names there are, or the list of them.

    >>> did_you_mean("amout", ["amount", "user"])
    "Did you mean 'amount'?"
    >>> did_you_mean("x", ["amount", "user"])
    'There are: amount, user'
    """
    names = list(others)
    near = difflib.get_close_matches(name, names, n=1)
    if near:
        return f"Did you mean {near[0]!r}?"
    return f"There are: {', '.join(names)}" if names else "There are none yet"
