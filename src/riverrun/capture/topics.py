"""Which topics a capture writes: their names, columns and keys.

>>> topic_name("shop", ("public", "Order items"))
'shop.public.Order-20items'
>>> table_parts("shop.public.Order-20items")
('public', 'Order items')
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from riverrun import ddl
from riverrun.capture.changes import CapturedTable
from riverrun.columns import KEY_TYPES, POSITION, TRANSACTION, check_name
from riverrun.errors import Invalid
from riverrun.log.spec import TopicSpec

TRANSACTIONS_SCHEMA = "transaction string, position string, at timestamp, ends string, rows bigint, kind string"
_PLAIN = re.compile(r"[A-Za-z0-9_]")
_HEX = re.compile(r"-([0-9A-F]{2})")
_RENAMED = re.compile(r"(col_)*_")
_UNWRITABLE = re.compile(r'["\\\x00-\x1f\x7f]')
_UNWRITABLE_OR_PERCENT = re.compile(r'["\\\x00-\x1f\x7f%]')


def check_capture_name(name: object) -> str:
    """A capture's name begins those of its topics, up to the first dot."""
    if not isinstance(name, str) or "." in check_name(name, "capture"):
        raise Invalid(f"{name!r} cannot be the name of a capture", hint="Write it without dots")
    return name


def transactions_topic(capture: str) -> str:
    """Where a capture says which transactions are in its topics as a whole."""
    return f"{capture}.transactions"


def topic_name(capture: str, parts: Sequence[str]) -> str:
    """The topic of a table. Letters, digits and underscores stay; every other byte (of UTF-8) is a dash and two
    hexadecimal digits, as addresses have it with a percent sign, which no topic can have in its name."""
    escaped = [_escape(part) for part in parts]
    if escaped == ["transactions"]:
        escaped = ["-74ransactions"]  # the capture's own
    return check_name(".".join([capture, *escaped]))


def table_parts(topic: str) -> tuple[str, ...]:
    """The way back."""
    return tuple(_unescape(part) for part in topic.split(".")[1:])


def _escape(part: str) -> str:
    return "".join(c if _PLAIN.fullmatch(c) else "".join(f"-{byte:02X}" for byte in c.encode()) for c in part)


def _unescape(part: str) -> str:
    pieces = _HEX.split(part)
    found = b"".join(bytes.fromhex(piece) if i % 2 else piece.encode() for i, piece in enumerate(pieces))
    return found.decode()


def column_name(source: str) -> str:
    """What a topic calls a column. Names with an underscore first are Riverrun's own, so they get `col_` before it; so do
    those that already look like that, and the way back is unique.

    >>> column_name("_id"), column_name("col__id"), column_name("amount")
    ('col__id', 'col_col__id', 'amount')
    """
    name = f"col_{source}" if _RENAMED.match(source) else source
    if _UNWRITABLE.search(name):
        name = _UNWRITABLE_OR_PERCENT.sub(lambda found: f"%{ord(found[0]):02X}", name)
    return name


def key_type(kind: str) -> str:
    """The type of a column that is part of the key: where values of a type may be written in several ways, it is text.

    >>> key_type("bigint"), key_type("double"), key_type("decimal(12,2)")
    ('bigint', 'string', 'decimal(12,2)')
    """
    return kind if kind in KEY_TYPES or kind.startswith("decimal") else "string"


def table_spec(capture: str, table: CapturedTable) -> TopicSpec:
    """The topic of a table's rows: event time is when a transaction was committed (`_time`)."""
    columns = ", ".join(f"{ddl.quoted(column.name)} {column.type}" for column in table.columns)
    return TopicSpec(
        topic_name(capture, table.parts),
        f"{columns}, {POSITION} string, {TRANSACTION} string",
        key=table.key,
        time=None,
        compact=True,
    )


def transactions_spec(capture: str) -> TopicSpec:
    """One partition: its rows are in the order of the source. They are needed until every flow has read past them."""
    return TopicSpec(
        transactions_topic(capture),
        TRANSACTIONS_SCHEMA,
        time="at",
        partitions=1,
        retention="30 days",
        compression="lz4",
    )


def renamed_columns(table: CapturedTable) -> dict[str, str]:
    """Columns that are called otherwise in the topic, and what the source calls them."""
    return {column.name: column.source for column in table.columns if column.name != column.source}


def name_key(table: str) -> str:
    """How a capture is told which columns tell the rows of a table apart, in a program and in the command."""
    return f'keys={{"{table}": [...]}}, or --key {table}=COLUMN,… of the command'
