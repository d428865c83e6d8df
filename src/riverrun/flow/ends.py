"""Ends of a flow, checked: what a view's key must contain, what a topic needs, what a message may name."""

from __future__ import annotations

import string
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal as Exact
from typing import TypeVar

from riverrun.columns import OFFSET, RECEIVED, ROW_ID, SIDE, TIME, check_name
from riverrun.ddl import Array, Decimal, Map, Struct, Type
from riverrun.durations import Duration
from riverrun.errors import Invalid, NotFound, did_you_mean
from riverrun.flow import names
from riverrun.flow.expressions import ordering
from riverrun.flow.graph import Graph
from riverrun.flow.names import Names
from riverrun.flow.operators.ends import AlertEnd, End, TopicEnd, ViewEnd
from riverrun.flow.operators.node import Node
from riverrun.flow.operators.top import Newest, OnePerKey, Top
from riverrun.flow.place import caller
from riverrun.flow.schema import Schema
from riverrun.flow.spans import positive, span
from riverrun.store_address import NAMES, StoreAddress

Indexes = str | Sequence[Names]
"""Columns by which rows are found fast: each a name, or a list of names that are looked for together."""

# Values of each type that has a format in Python, to try one with.
_SAMPLES: Mapping[str, object] = {
    **dict.fromkeys(("tinyint", "smallint", "int", "bigint"), 1),
    **dict.fromkeys(("float", "double"), 1.0),
    "string": "",
    "boolean": True,
    "date": date(2026, 1, 31),
    "timestamp": datetime(2026, 1, 31, tzinfo=UTC),
    "timestamp_ntz": datetime(2026, 1, 31),
}

AnyEnd = TypeVar("AnyEnd", bound=End)


def one_per_key(graph: Graph, node: Node, key: Names | None) -> Node:
    """The rows of which a keyed end shows the newest. Where rows may be taken back, the one before has to be known: a
    table of the newest rows knows it."""
    if key is None or node.is_table or not node.retracts:
        return node
    return _newest(graph, node, key, (TIME, RECEIVED, OFFSET))


def newest(graph: Graph, node: Node, key: Names | None) -> Node:
    """The same for a view, which shows one row of each key: also where a later row of the log may come out earlier."""
    if key is None or node.is_table or node.retracts or node.emergence != "mixed":
        return one_per_key(graph, node, key)
    return _newest(graph, node, key, (RECEIVED, TIME, OFFSET))  # pairs that one append completes have only their times


def _newest(graph: Graph, node: Node, key: Names, by: Sequence[str]) -> Node:
    order = ordering(", ".join(f"{name} desc" for name in by), node.schema, node.hidden | frozenset(by))
    return graph.add(Newest(inputs=(node,), place=caller(), order=order, per=names.columns("key", key, node.schema)))


def view(
    name: str,
    node: Node,
    key: Names | None,
    history: Duration | None,
    index: Indexes | None,
    to: str | None = None,
    partition_by: Names | None = None,
) -> ViewEnd:
    """A view; the hidden parts of a table's key are always part of the view's."""
    check_name(name, "view")
    chosen = names.columns("key", key, node.schema)
    _check_key(f"view {name!r}", node, chosen if key is not None else node.key)
    hidden = [part for part in node.key if part.startswith("_")]
    whole = node.key if node.is_table else (ROW_ID,)
    kept = positive("history", history) if history is not None else None
    full = tuple(dict.fromkeys([*chosen, *hidden])) if key is not None else whole
    for part in full:
        if isinstance(node.schema.get(part), Array | Map | Struct):
            raise Invalid(
                f"view {name!r}: {part!r} is {node.schema[part]}, which cannot be part of a key",
                hint="Group by its fields, or by to_json of it",
            )
    found = [index] if isinstance(index, str) else index or ()
    indexes = tuple(names.some("index", columns, node.schema) for columns in found)
    address = _store_of(name, to, history, index)
    parts = names.columns("partition_by", partition_by, node.schema)
    if parts and (address is None or address.kind != "delta"):
        raise Invalid(f"view {name!r}: partition_by is for Delta tables", hint='Write to="delta:PATH", or leave it out')
    return ViewEnd(
        name=name,
        node=node,
        place=caller(),
        key=full,
        history=kept,
        index=indexes,
        to=address,
        partition_by=parts,
    )


def _store_of(name: str, to: str | None, history: Duration | None, index: Indexes | None) -> StoreAddress | None:
    """The store a view goes to, if that can do what is asked of it."""
    if to is None:
        return None
    try:
        address = StoreAddress.parse(to)
    except Invalid as error:
        raise Invalid(f"view {name!r}: {error.message}", hint=error.hint) from None
    if address.kind in ("redis", "search", "delta"):
        for option, given in (("history", history), ("index", index)):
            if given is not None:
                raise Invalid(
                    f"view {name!r} is in {NAMES[address.kind]}, which knows no {option}=",
                    hint="Leave it out, or keep the view in the river's own store or another database",
                )
    return address


def topic(graph: Graph, name: str, node: Node, key: Names | None) -> TopicEnd:
    """A derived topic; where rows change, its key says which row is meant."""
    check_name(name, "topic")
    chosen = names.topic_key("key", key, node.schema)
    if not chosen and (node.is_table or node.retracts):
        what = "a table" if node.is_table else "a stream that corrects its results"
        visible = [part for part in node.key if not part.startswith("_")]
        hint = f"Write key={visible!r}" if visible else 'Write key="…"'
        raise Invalid(f"topic {name!r} is of {what} and needs a key", hint=hint)
    _check_key(f"topic {name!r}", node, chosen)
    if node.is_table and node.hidden_key and not _is_ranked(node, chosen):
        if not all(part.startswith(SIDE) for part in node.hidden_key):
            raise Invalid(
                f"topic {name!r}: several rows of this table may have the same key {list(chosen)}",
                hint="Of a union write each table to a topic of its own; "
                'of top(…, rank="r") let the key be `per` and the rank',
            )
        # With a null in its key, a row of each side of a full join may be there: when one goes, the other one stays.
        node = graph.add(OnePerKey(inputs=(node,), place=caller(), per=chosen))
    return TopicEnd(name=name, node=one_per_key(graph, node, key), place=caller(), key=chosen)


def alert(name: str, node: Node, to: str | Sequence[str], message: str | None, every: Duration) -> AlertEnd:
    """An alert; every name in braces in its message is a column."""
    check_name(name, "alert")
    addresses = tuple(names.listed("to", to))
    if not addresses or not all(isinstance(one, str) and "://" in one for one in addresses):
        raise Invalid(f"alert {name!r}: to is one or more addresses", hint='Write "mailto://…" or "json://…"')
    if message is not None:
        _check_message(f"alert {name!r}", message, node.schema)
    return AlertEnd(name=name, node=node, place=caller(), to=addresses, message=message, every=span("every", every))


def added(known: dict[str, AnyEnd], end: AnyEnd) -> AnyEnd:
    """Adds an end; its name must be new."""
    if isinstance(end, ViewEnd) and end.to is not None and end.to.kind == "delta":
        for other in known.values():
            if isinstance(other, ViewEnd) and other.to is not None and other.to.public == end.to.public:
                raise Invalid(
                    f"view {end.name!r}: view {other.name!r} is in the same Delta table",
                    hint="Give each a path of its own",
                )
    if end.name in known:
        where = known[end.name].place
        raise Invalid(f"there is a {end.kind} {end.name!r} already, at {where}", hint="Give it another name")
    known[end.name] = end
    return end


def _check_key(what: str, node: Node, key: Sequence[str]) -> None:
    lacking = [part for part in node.key if part not in key and not part.startswith("_")]
    if node.is_table and lacking:
        raise Invalid(
            f"{what}: key must contain the table's key, and lacks {', '.join(map(repr, lacking))}",
            hint=f"Write key={[part for part in node.key if not part.startswith('_')]!r}",
        )


def _is_ranked(node: Node, key: Sequence[str]) -> bool:
    """Whether the rank tells the rows of a group apart."""
    return isinstance(node, Top) and not node.ties and node.rank is not None and {*node.per, node.rank} <= set(key)


def _check_message(what: str, message: str, schema: Schema) -> None:
    try:
        fields = [(field, form) for _, field, form, _ in string.Formatter().parse(message) if field is not None]
    except (ValueError, AttributeError, TypeError):
        raise Invalid(
            f"{what}: cannot read the message {message!r}", hint='Write "{user} did it"; {{ is a brace'
        ) from None
    for field, form in fields:
        if field not in schema and not schema.open:
            raise NotFound(f"{what}: there is no column {field!r} in {message!r}", hint=did_you_mean(field, schema))
        if form and (kind := schema[field]) is not None and not _takes(kind, form):
            raise Invalid(
                f"{what}: {form!r} in {message!r} is no format for {field!r}, which is {kind}",
                hint=f"Write {{{field}}}, or a format that Python has for such values",
            )


def _takes(kind: Type, form: str) -> bool:
    """Whether values of the type can be written in a format of Python's."""
    sample: object = Exact(1) if isinstance(kind, Decimal) else _SAMPLES.get(str(kind), [])
    try:
        format(sample, form)
    except (ValueError, TypeError):
        return False
    return True
