"""What a flow says about a topic it reads, checked."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum
from typing import Any, Protocol

from riverrun import ddl
from riverrun.columns import RECEIVED, TIME, WRITTEN, check_name
from riverrun.durations import Duration
from riverrun.envelopes.envelope import TOPIC_SCHEMA, MessageForm, check_column
from riverrun.errors import Invalid, NotFound
from riverrun.flow import names
from riverrun.flow.graph import Graph, InputTopic
from riverrun.flow.names import Names
from riverrun.flow.place import caller
from riverrun.flow.schema import STRING, TIMESTAMP, Schema, is_integral
from riverrun.flow.spans import positive, span
from riverrun.known_topics import find_spec


class Unsaid(Enum):
    """Marks what a declaration leaves out where None is an answer: "never"."""

    UNSAID = "unsaid"

    def __repr__(self) -> str:
        return "UNSAID"


UNSAID = Unsaid.UNSAID
IDLE_PARTITION = 60_000_000
"""After how long a silent partition stops holding time back, unless the flow says otherwise. A partition has no rows when
none of its keys has any, which says nothing about time; a named producer that is silent may come back with old rows."""


class TopicLike(Protocol):
    """What describes a topic: `rr.TopicSpec`, or anything else with these attributes.

    What is no text (a key: no text and no list of them) is left out.
    """

    @property
    def name(self) -> str: ...
    @property
    def schema(self) -> Any: ...
    @property
    def key(self) -> Any: ...
    @property
    def time(self) -> Any: ...
    @property
    def producers(self) -> Any: ...


@dataclass(frozen=True, slots=True)
class Said:
    """A declaration as it was written; None is what it leaves out."""

    topic: str
    schema: str | None
    time: str | None
    key: Names | None
    producers: str | None
    described: TopicLike | None = None
    form: MessageForm | None = None  # of the messages that the rows stand in


def enveloped(
    topic: str | TopicLike, schema: str | None, time: str | None, key: Names | None, form: MessageForm
) -> Said:
    """The declaration of a table inside the messages of a topic. What describes the topic says nothing of the table."""
    said = declared(topic, None, None, None, None)
    if schema is None:
        raise Invalid(f"table {said.topic!r} needs a schema", hint="Write the columns of the table in the database")
    return replace(said, schema=schema, time=time or TIME, key=key, producers=None, form=form)


def declared(
    topic: str | TopicLike, schema: str | None, time: str | None, key: Names | None, producers: str | None
) -> Said:
    """The declaration; what the arguments leave out, a topic's description says."""
    if isinstance(topic, str):
        return Said(topic, schema, time, key, producers)
    if not all(hasattr(topic, name) for name in ("name", "schema", "key", "time", "producers")):
        raise Invalid(f"a topic is a name or an rr.TopicSpec, not {topic!r}")
    text = _text(topic.schema)
    if schema is not None and text is not None and Schema.parse(schema) != Schema.parse(text):
        raise Invalid(
            f"topic {topic.name!r}: the schema is not that of its TopicSpec: {text}", hint="Leave the schema out"
        )
    named = topic.key if isinstance(topic.key, str | list | tuple) else None
    said_by = producers or _text(topic.producers)
    return Said(topic.name, text or schema, time or _text(topic.time), key or named, said_by, topic)


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def source(
    graph: Graph,
    said: Said,
    lateness: Duration,
    idle: Duration | Unsaid | None,
    max_skew: Duration | None,
    keyed: bool = False,
) -> dict[str, Any]:
    """The fields of a source node, checked; notes in the graph that the topic is read. `keyed` sources need a key."""
    topic = check_name(said.topic, "topic")
    before = graph.reads.get(topic)
    text = said.schema if said.schema is not None or not before else before.schema
    if text is None:
        said = _looked_up(said)
        text = said.schema
    assert text is not None
    columns = _columns(topic, text)
    time = _time(said.time, columns)
    key = names.topic_key("key", said.key, columns) or (before.key if before and said.form is None else ())
    if keyed and not key:
        raise Invalid(f"table {topic!r} needs a key", hint='Write key="…": the columns that name one row')
    producers = _producers(said.producers, columns)
    fields = {
        "topic": topic,
        "columns": columns,
        "topic_key": key,
        "event_time": time,
        "lateness": span("lateness", lateness),
        "producers": producers,
        "idle": _idle(idle, producers, time),
        "max_skew": positive("max_skew", max_skew) if max_skew is not None else None,
    }
    if said.form is not None:
        for name, kind in columns.columns:
            check_column(name, kind)
        graph.read(_messages(topic, said.described))
        return {**fields, "form": said.form}
    written = ddl.render(ddl.parse(text))
    own_time = None if time in (RECEIVED, TIME) else time
    graph.read(InputTopic(topic, written, key, own_time, producers, caller(), said.described))
    return fields


def _messages(topic: str, described: TopicLike | None) -> InputTopic:
    """A topic of messages, as it is made where it is missing."""
    text = (described and _text(described.schema)) or TOPIC_SCHEMA
    columns = {column.name: str(column.type) for column in ddl.parse(text)}
    if columns.get("json") != "string" or columns.get("key", "string") != "string":
        raise Invalid(
            f"topic {topic!r} has no messages: its schema is {text}", hint=f'Use "{TOPIC_SCHEMA}", or "json string"'
        )
    key = ("key",) if described is None else ()
    return InputTopic(topic, ddl.render(ddl.parse(text)), key, None, None, caller(), described, enveloped=True)


def _looked_up(said: Said) -> Said:
    """What the river that is open knows of a topic. Columns that captures and flows add for themselves are left out: who
    wants them names them in a schema."""
    found = find_spec(said.topic) if said.form is None else None  # what is inside messages, nobody knows
    if found is None:
        raise Invalid(
            f"topic {said.topic!r} needs a schema",
            hint='Write "user string, at timestamp", or give an rr.TopicSpec; of a topic that is there, a river that was opened'
            " before knows it",
        )
    own = ddl.render(column for column in ddl.parse(found.schema) if column.name not in WRITTEN)
    return replace(said, schema=own, key=said.key or found.key, time=said.time or found.time)


def _idle(idle: Duration | Unsaid | None, producers: str | None, time: str) -> int | None:
    if isinstance(idle, Unsaid):
        return IDLE_PARTITION if producers is None and time != RECEIVED else None
    return positive("idle", idle) if idle is not None else None


def _columns(topic: str, text: str) -> Schema:
    try:
        columns = Schema.parse(text)
    except Invalid as error:
        raise Invalid(f"topic {topic!r}: {error.message}", hint=error.hint) from None
    for name in columns:
        if name not in WRITTEN:
            names.made(name)
    return columns


def _producers(name: str | None, columns: Schema) -> str | None:
    found = next(iter(names.columns("producers", name, columns)), None)
    if found is not None and columns[found] != STRING and not is_integral(columns[found]):
        raise Invalid(f"producers: {found!r} is {columns[found]}, and a producer's name is text or a whole number")
    return found


def _time(name: str | None, columns: Schema) -> str:
    """The column, or one of the two moments that every row has: when it came in, and the topic's own event time."""
    if name is None or name in (RECEIVED, TIME):
        return name or RECEIVED
    try:
        found = columns.resolve(name)
    except NotFound as error:
        raise NotFound(f"time: {error.message}", hint=error.hint) from None
    if columns[found] != TIMESTAMP:
        raise Invalid(
            f"time: {found!r} is {columns[found]}, not timestamp",
            hint='Declare it as timestamp, or use time="_received", the time a row came in',
        )
    return found
