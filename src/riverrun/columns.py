"""Columns that rows carry beside those people see, what they are called, and what may be a column or a name.

Below everything that handles rows: the log, flows, kernels, views.
"""

from __future__ import annotations

import re

from riverrun.errors import Invalid

TIME = "_time"
"""Event time."""

RECEIVED = "_received"
"""When the log took the row in. Behind an operator, where a row stands in the order of its stream: where rows wait for
the watermark that is their event time."""

KEY = "_key"
"""The row's key in the log, as text."""

PARTITION = "_partition"
OFFSET = "_offset"

DELETED = "_deleted"
"""Whether the row is a tombstone."""

WEIGHT = "_weight"
"""+1 inserts the row, -1 takes it back."""

CARRIED = (TIME, WEIGHT, PARTITION, OFFSET)
"""What every row of a flow has: its time, its weight, and where it stands in the order of its input."""

LOG_ORDER = (RECEIVED, PARTITION, OFFSET)
"""The order of the log. Rows of different partitions have no other one."""

ENVELOPE = "_envelope"
"""Of a table's row that was sent without values that did not change: the names of these (`kept`), and its message."""

ROW_ID = "_id"
"""Key part of rows that have no key: the hidden id of a row (topic, partition, offset; of a join, both)."""

BRANCH = "_branch"
"""Key part of a union of tables: which of them the row is from."""

SIDE = "_side"
"""Key part of a full join of tables: 1 or 2 for a row of the left or the right that is alone and has a null where it might
have matched, else 0. Nulls match nothing, so that a row of either side may be alone with the same key."""

WATERMARK = "_watermark"
VERSION = "_version"
OP, BEFORE, AFTER = "_op", "_before", "_after"

ERROR, POSITION = "_error", "_position"
"""What is wrong with a row that was put aside; and where a row stands in what it was read from: in its topic, or in the
log of a database it was captured from."""

MESSAGE, MESSAGE_KEY = "_message", "_message_key"
"""The bytes of a message that is no row of its topic."""

TRANSACTION = "_transaction"
"""The transaction of the database that a captured row comes from."""

WRITTEN = (OP, BEFORE, AFTER, VERSION, WATERMARK, ERROR, POSITION, MESSAGE, MESSAGE_KEY, TRANSACTION)
"""Columns that flows write into derived and late topics, and captures into theirs, so that such a topic can be read."""

KEY_TYPES = frozenset(
    {"string", "boolean", "tinyint", "smallint", "int", "bigint", "date", "timestamp", "timestamp_ntz"}
)
"""Values of these types have one way to be written, so that equal keys are equal bytes."""

_NAME = re.compile(r"[A-Za-z0-9._-]{1,200}")


def check_name(name: object, what: str = "topic") -> str:
    """The name of a topic, a flow or a view, if it can be one: it becomes part of paths and addresses.

    >>> check_name("shop.orders-2")
    'shop.orders-2'
    """
    if not isinstance(name, str) or not _NAME.fullmatch(name) or name in (".", ".."):
        raise Invalid(
            f"{name!r} cannot be the name of a {what}", hint="1 to 200 letters, digits, dots, dashes and underscores"
        )
    return name


def value_column(number: int) -> str:
    """Where a kernel finds what the aggregate of this number reads."""
    return f"_value{number}"


def filter_column(number: int) -> str:
    """Where a kernel finds an aggregate's `where`."""
    return f"_where{number}"


def own_column(name: str) -> str:
    """Where late rows keep a column that a join converts."""
    return f"_own_{name}"


def order_column(number: int) -> str:
    """Where a kernel finds what rows are ordered by."""
    return f"_order{number}"
