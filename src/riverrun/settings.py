"""All settings in one table: name, default, help. A file wins over the default, the environment over the file,
an argument over both. `riverrun.toml` has the names as they stand here; the environment has RIVERRUN_<NAME>.

>>> Settings.load(environ={"RIVERRUN_SEGMENT_BYTES": "1 MiB"}).segment_bytes
1048576
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Literal, Self

from riverrun.durations import micros
from riverrun.errors import Invalid, NotFound, did_you_mean

# Not settings of the engine but places; `River` reads them from the same file and environment.
PLACES = ("river", "log", "views", "views_read", "checkpoints", "master", "environment")
MOST_SHARDS = 10_000  # each is a task of every large epoch
# Databases to capture, a table of the file each: [captures.shop].
CAPTURES = "captures"
_CAPTURE_OPTIONS = ("source", "tables", "snapshot", "form", "keys", "publication", "decimal")
_OTHER_VARIABLES = ("RIVERRUN_DEBUG", "RIVERRUN_FAILPOINTS")
# Kubernetes gives every container the addresses of services; one of them may be called riverrun.
_SERVICE_ADDRESS = re.compile(r"RIVERRUN_(\w+_)?(SERVICE_(HOST|PORT\w*)|PORT(_\d+_(TCP|UDP)\w*)?)")


def _size(default: str, about: str) -> Any:
    return field(default=byte_count(default), metadata={"help": about, "parse": byte_count, "shown": default})


def _time(default: str, about: str) -> Any:
    return field(default=micros(default), metadata={"help": about, "parse": micros, "shown": default})


def _number(default: int, about: str, parse: Callable[[str | int], int] | None = None) -> Any:
    return field(default=default, metadata={"help": about, "parse": parse or _whole, "shown": str(default)})


def _text(about: str) -> Any:
    return field(default="", metadata={"help": about, "parse": str, "shown": ""})


def _choice(default: str, others: tuple[str, ...], about: str) -> Any:
    def parse(value: str) -> str:
        if value not in (default, *others):
            raise Invalid(f"not one of {', '.join((default, *others))}: {value!r}")
        return value

    return field(default=default, metadata={"help": about, "parse": parse, "shown": default})


def _flag(default: bool, about: str) -> Any:
    return field(default=default, metadata={"help": about, "parse": _yes, "shown": "true" if default else "false"})


def _addresses(about: str) -> Any:
    # Not in the repr, since passwords are part of addresses.
    return field(default=(), repr=False, metadata={"help": about, "parse": address_list, "shown": "none"})


_SIZE = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([kmgt]?)(i?)b?\s*", re.IGNORECASE)


def byte_count(value: str | int) -> int:
    """Bytes of "64 MiB", "10 kB" or a whole number.

    >>> byte_count("64 MiB"), byte_count("10 kB"), byte_count(7)
    (67108864, 10000, 7)
    """
    found = _SIZE.fullmatch(str(value)) if not isinstance(value, bool) else None
    if not found:
        raise Invalid(f"not a size: {value!r}", hint='Write "64 MiB", "10 kB", or a whole number of bytes')
    power = " kmgt".index(found[2].lower() or " ")
    return int(float(found[1]) * (1024 if found[3] else 1000) ** power)


def _whole(value: str | int) -> int:
    try:
        return int(str(value))
    except ValueError:
        raise Invalid(f"not a whole number: {value!r}") from None


def _shard_count(value: str | int) -> int:
    count = _whole(value)
    if not 0 <= count <= MOST_SHARDS:
        raise Invalid(
            f"not a number of shards: {count}", hint=f"Write one from 1 to {MOST_SHARDS}, or 0 for the default"
        )
    return count


def _yes(value: str | bool) -> bool:
    found = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}.get(str(value).lower())
    if found is None:
        raise Invalid(f"neither true nor false: {value!r}")
    return found


def address_list(value: str | list[str]) -> tuple[str, ...]:
    """Addresses: a list, or a string with commas or blanks between them. Errors do not show them.

    >>> address_list("mailto://ada@example.com, json://host/a,b")
    ('mailto://ada@example.com', 'json://host/a,b')
    """
    parts = re.split(r"[,\s]+(?=[a-zA-Z][a-zA-Z0-9+.-]*://)", value) if isinstance(value, str) else value
    if not isinstance(parts, list) or not all(isinstance(part, str) and "://" in part for part in parts):
        raise Invalid("not a list of addresses", hint='Write ["mailto://…", "jsons://…"], or one string with commas')
    return tuple(part.strip().rstrip(",") for part in parts)


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings in force; sizes in bytes, durations in microseconds."""

    segment_bytes: int = _size("64 MiB", "a topic's journal is cut into files of about this size")
    max_record_bytes: int = _size("1 MiB", "a larger record is refused at the producer")
    lock_timeout: int = _time("10 seconds", "how long a writer waits for another one before it names it and gives up")
    member_lease: int = _time("5 seconds", "a consumer that has not been heard of for this long loses its partitions")
    poll_limit: int = _time("5 minutes", "a consumer that takes longer than this for one batch loses its partitions")
    tombstone_grace: int = _time("1 day", "compaction keeps tombstones this long, so that slow readers see the delete")
    producer_memory: int = _size("64 MiB", "what one producer() may hold in memory before its on_full policy decides")
    spill_bytes: int = _size("1 GiB", 'what one producer(on_full="spill") may put on disk before it blocks')
    driver_memory: int = _size(
        "2 GiB", "heap of Spark's driver; on one machine that is all of Spark but its Python workers"
    )
    epoch_rows: int = _number(500_000, "an epoch of a flow takes about this many rows of a backlog")
    epoch_bytes: int = _size("256 MiB", "and not more than about this; what an epoch needs in memory follows it")
    shards: int = _number(
        0,
        "parts that the state of a new flow is cut into, which tasks share; 0: one for each processor, on a cluster four;"
        " another number later computes the flow from the log again",
        parse=_shard_count,
    )
    state_cache_bytes: int = _size(
        "4 GiB", "copies that each machine keeps of state which is in an object store; what was used longest ago goes"
    )
    expressions: Literal["arrow", "spark"] = _choice(
        "arrow",
        ("spark",),
        "what computes a flow's SQL: the tasks, on Arrow, where that is known to be the same; or Spark",
    )
    producer_expiry: int = _time("7 days", "sequences of producers without a fence are forgotten after this long")
    max_producers: int = _number(
        20_000, "names of producers that a topic remembers; an append under one more is refused"
    )
    capture_chunk_rows: int = _number(
        100_000, "a snapshot of a captured table is read in chunks of at most this many rows"
    )
    capture_transaction_rows: int = _number(
        500_000, "a transaction of a captured database with more changes is appended in parts of this many"
    )
    capture_held_bytes: int = _size(
        "10 GiB", "operators are told when a captured database keeps more than this on its disk for a capture; 0: never"
    )
    kafka_timeout: int = _time(
        "30 seconds", "how long a call waits for a Kafka broker that does not answer before it gives up"
    )
    alert_attempts: int = _number(10, "after so many an alert's rows become dead letters of the address")
    alert_timeout: int = _time("10 seconds", "how long the receiver of an alert may take to answer")
    alert_private_addresses: bool = _flag(
        False, "whether alerts may go to webhooks on this machine, in private networks and at link-local addresses"
    )
    alert_to: tuple[str, ...] = _addresses(
        "where operators are told that a run fails, is behind, drops late rows or switches rules off"
    )
    alert_lag: int = _time("5 minutes", "operators are told when a run is more than this behind; 0: never")
    alert_late: int = _number(0, "operators are told when more late rows than this are dropped in a minute; 0: never")
    http_body_bytes: int = _size("16 MiB", "a larger HTTP body is refused; of a compressed one, both sizes count")
    http_rows: int = _number(250_000, "a body with more rows is refused")
    http_memory: int = _size(
        "64 MiB",
        "bodies that are being received and appended, and as much again of answers that wait to be taken; of one client"
        " half of it; more are refused with 429",
    )
    http_rate: int = _number(1000, "requests per second with one token; more are refused with 429; 0: no limit")
    http_clients: int = _number(1000, "streams of events (SSE) that are followed at the same time, by one client half")
    http_connections: int = _number(
        2000,
        "connections at the same time, of one machine half; and never more than half of the files a process may open",
    )
    http_hosts: str = _text("names this server is reached by beside its address, separated by commas")
    tokens_file: str = _text("file with the tokens of HTTP clients: NAME ROLE,… sha256:HEX in each line")
    tokens: str = _text("the same lines, separated by semicolons, where there is no file")

    @classmethod
    def load(
        cls,
        file: str | os.PathLike[str] | None = None,
        environ: Mapping[str, str] | None = None,
        **arguments: Any,
    ) -> Self:
        """Defaults, then the file, then RIVERRUN_* of the environment, then the arguments that are not None."""
        values = {**(_from_file(file) if file else {}), **_from_environment(os.environ if environ is None else environ)}
        values.update({name: value for name, value in arguments.items() if value is not None})
        table = {f.name: f.metadata["parse"] for f in fields(cls)}
        chosen = {}
        for name, value in values.items():
            if name in PLACES or name == CAPTURES:
                continue
            _check_known(name)
            try:
                chosen[name] = table[name](value)
            except Invalid as error:
                raise Invalid(f"setting {name}: {error.message}", hint=error.hint) from None
        return replace(cls(), **chosen)

    @classmethod
    def table(cls) -> list[tuple[str, str, str]]:
        """(name, default, help) of every setting, for the docs and `riverrun doctor`."""
        return [(f.name, f.metadata["shown"], f.metadata["help"]) for f in fields(cls)]


def places(file: str | os.PathLike[str] | None = None, environ: Mapping[str, str] | None = None) -> dict[str, str]:
    """Where the parts of a river live, as the file and the environment say."""
    values = {**(_from_file(file) if file else {}), **_from_environment(os.environ if environ is None else environ)}
    for name, value in values.items():
        _check_known(name)
        if name in PLACES and (not isinstance(value, str) or not value):
            raise Invalid(f"setting {name}: not a place: {value!r}", hint=f'Write {name} = "…"')
    return {name: value for name, value in values.items() if name in PLACES}


def capture_options(file: str | os.PathLike[str], name: str) -> dict[str, Any]:
    """What a settings file says of a capture: `source`, `tables`, and what else `river.capture` takes. A source that begins
    with a dollar sign is the name of a variable of the environment, where its password is in no file."""
    captures = _from_file(file).get(CAPTURES, {})
    if not isinstance(captures, dict) or name not in captures:
        raise NotFound(f"{file} has no capture {name!r}", hint=f"Write [captures.{name}] with source and tables")
    options = dict(captures[name])
    for option in options:
        if option not in _CAPTURE_OPTIONS:
            raise Invalid(
                f"{file}, captures.{name}: there is no option {option!r}", hint=did_you_mean(option, _CAPTURE_OPTIONS)
            )
    for option in ("source", "tables"):
        if option not in options:
            raise Invalid(f"{file}, captures.{name}: {option} is missing")
    return options


def _check_known(name: str) -> None:
    known = [*PLACES, *(f.name for f in fields(Settings))]
    if name not in known and name != CAPTURES:
        raise Invalid(f"there is no setting {name!r}", hint=did_you_mean(name, known))


def _from_environment(environ: Mapping[str, str]) -> dict[str, Any]:
    known = {*PLACES, *(f.name for f in fields(Settings))}
    named = {f"RIVERRUN_{name.upper()}": name for name in known}
    for key in environ:
        if (
            key.startswith("RIVERRUN_")
            and key not in (*named, *_OTHER_VARIABLES)
            and not _SERVICE_ADDRESS.fullmatch(key)
        ):
            raise Invalid(f"{key} is set in the environment, and is no setting", hint=did_you_mean(key, sorted(named)))
    return {named[key]: value for key, value in environ.items() if key in named and value}


def _from_file(file: str | os.PathLike[str]) -> dict[str, Any]:
    path = Path(file)
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise NotFound(f"there is no settings file {path}") from None
    except (OSError, UnicodeDecodeError) as error:
        raise Invalid(f"cannot read the settings file {path}: {error}") from None
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise Invalid(f"{path} is not TOML: {error}") from None
