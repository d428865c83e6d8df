"""Values that people write into SQL for SQLite: it has no times, no dates and no decimals, so they become what columns of
these types are shown as.

Times and dates are shown as strings, whose order is theirs. A literal such as '2026-01-31T12:00:00Z' becomes the string
of the same moment where it is compared with a time; what it is compared with, sqlglot finds out. Nothing else in the SQL is
touched, and SQL that sqlglot does not understand stays as it is.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time
from decimal import Decimal
from math import isnan, nan
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from riverrun.views.spec import ViewSpec
from riverrun.views.sql.sqlite_binding import NAN

if TYPE_CHECKING:
    from sqlglot import exp

_DIALECT = "sqlite"
_MARK = "riverrun:"
_LOCAL, _MOMENT, _DAY, _DOUBLE = "timestamp", "timestamptz", "date", "double"
_TIMES = (_LOCAL, _MOMENT, _DAY)
_HAS_DAY = re.compile(r"'\s*\d{4}-\d\d-\d\d")
_TIME = re.compile(r"\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?\s*(?:Z|[+-]\d\d(?::?\d\d)?)?)?", re.IGNORECASE)

Parameters = Sequence[Any] | Mapping[str, Any]
Views = Callable[[], Sequence[ViewSpec]]  # asked only where it matters


@dataclass(frozen=True, slots=True)
class _Place:
    """A time or a date in a query: a literal, or the mark of a parameter."""

    start: int
    end: int
    value: date
    parameter: int | None = None

    def compared_with(self, kind: str) -> str:
        """The value as a string that can be compared with what is shown of a column. As in PostgreSQL, a literal is read as
        the column's type; a parameter has a type of its own."""
        value = self.value
        if kind == _DAY:
            midnight = not isinstance(value, datetime) or _utc(value).time() == time()
            if self.parameter is None or midnight:
                return date(value.year, value.month, value.day).isoformat()
        moment = value if isinstance(value, datetime) else datetime.combine(value, time())
        return shown(moment.replace(tzinfo=None) if kind == _LOCAL and self.parameter is None else moment)


def shown(moment: datetime) -> str:
    """A time as its column is shown; without a zone it is UTC.

    >>> shown(datetime(2026, 1, 31, 12, 0, 0, 250_000))
    '2026-01-31 12:00:00.25'
    """
    text = _utc(moment).replace(tzinfo=None).isoformat(" ")
    return text.rstrip("0") if "." in text else text


def _utc(moment: datetime) -> datetime:
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)


def bound(value: Any) -> Any:
    """A parameter as SQLite takes it: decimals are shown as numbers, NaN as a string."""
    if isinstance(value, datetime):
        return shown(value)
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, Decimal):
        value = float(value) if not value.is_finite() or abs(value) >= 1 << 63 or value % 1 else int(value)
    return NAN if isinstance(value, float) and isnan(value) else value


def written(sql: str, parameters: Parameters, views: Views) -> tuple[str, Parameters]:
    """The query and its parameters, times and dates as the columns are shown that they are compared with."""
    if isinstance(parameters, Mapping):
        return _with_literals(sql, (), views)[0], {name: bound(value) for name, value in parameters.items()}
    return _with_literals(sql, parameters, views)


def _with_literals(sql: str, parameters: Sequence[Any], views: Views) -> tuple[str, list[Any]]:
    plain = [bound(value) for value in parameters]
    if not _HAS_DAY.search(sql) and not any(isinstance(value, date) for value in parameters):
        return sql, plain
    places = _places(sql, parameters)
    for place, kind in zip(reversed(places), reversed(_compared(sql, places, views)), strict=True):
        if kind is None:
            continue
        if place.parameter is None:
            sql = f"{sql[: place.start]}'{place.compared_with(kind)}'{sql[place.end :]}"
        else:
            plain[place.parameter] = place.compared_with(kind)
    return sql, plain


def with_numbers(sql: str, rows: list[Any], views: Views) -> list[Any]:
    """The rows of a query with NaN where a double is shown as a string."""
    if not any(value == NAN for row in rows for value in row):
        return rows
    tree = _understood(sql, views)
    kinds = [_kind(select) for select in tree.selects] if tree is not None else []
    if len(kinds) != len(rows[0]):
        return rows
    doubles = [kind == _DOUBLE for kind in kinds]
    return [
        [nan if double and value == NAN else value for value, double in zip(row, doubles, strict=True)] for row in rows
    ]


def _places(sql: str, parameters: Sequence[Any]) -> list[_Place]:
    import sqlglot
    from sqlglot.errors import SqlglotError
    from sqlglot.tokens import TokenType

    places: list[_Place] = []
    marks = 0
    try:
        tokens = sqlglot.tokenize(sql, read=_DIALECT)
    except SqlglotError:
        return []
    for token in tokens:
        start, end = token.start, token.end + 1
        if token.token_type == TokenType.PLACEHOLDER:
            if sql[end : end + 1].isdigit():  # ?7: not in the order of the parameters
                return [place for place in places if place.parameter is None]
            if marks < len(parameters) and isinstance(parameters[marks], date):
                places.append(_Place(start, end, parameters[marks], marks))
            marks += 1
        elif token.token_type == TokenType.STRING and (value := _read(token.text)) is not None:
            places.append(_Place(start, end, value))
    return places


def _read(text: str) -> date | None:
    if not _TIME.fullmatch(text.strip()):
        return None
    try:
        return datetime.fromisoformat(re.sub(r"\s+(?=[Z+-])", "", text.strip().upper()))
    except ValueError:
        return None


def _compared(sql: str, places: Sequence[_Place], views: Views) -> list[str | None]:
    """For each place the type of what it is compared with, where that is a time or a date."""
    from sqlglot import exp

    marked = sql
    for number, place in reversed(list(enumerate(places))):
        marked = f"{marked[: place.start]}'{_MARK}{number}'{marked[place.end :]}"
    kinds: list[str | None] = [None] * len(places)
    tree = _understood(marked, views) if places else None
    for literal in tree.find_all(exp.Literal) if tree is not None else ():
        compared = literal.parent
        if literal.is_string and literal.this.startswith(_MARK) and isinstance(compared, exp.Predicate):
            others = (_kind(other) for other in compared.iter_expressions())
            kinds[int(literal.this.removeprefix(_MARK))] = next((kind for kind in others if kind in _TIMES), None)
    return kinds


def _understood(sql: str, views: Views) -> exp.Query | None:
    """The query with the type of every expression; None when sqlglot cannot tell."""
    import sqlglot
    from sqlglot import exp
    from sqlglot.errors import SqlglotError
    from sqlglot.optimizer.annotate_types import annotate_types
    from sqlglot.optimizer.qualify import qualify

    schema = {view.name: {name: _type(view.arrow.field(name).type) for name in view.visible} for view in views()}
    log = logging.getLogger("sqlglot")
    silent, log.disabled = log.disabled, True
    try:
        tree = qualify(sqlglot.parse_one(sql, dialect=_DIALECT), schema=schema, dialect=_DIALECT)
        tree = annotate_types(tree, schema=schema, dialect=_DIALECT)
    except (SqlglotError, IndexError, AttributeError, TypeError, RecursionError):
        return None
    finally:
        log.disabled = silent
    return tree if isinstance(tree, exp.Query) else None


def _kind(expression: exp.Expression) -> str | None:
    return expression.type.this.value.lower() if expression.type is not None else None


def _type(kind: pa.DataType) -> str:
    is_ = pa.types
    if is_.is_timestamp(kind):
        return _MOMENT if kind.tz else _LOCAL
    if is_.is_date(kind):
        return _DAY
    if is_.is_floating(kind) or is_.is_decimal(kind):
        return _DOUBLE
    if is_.is_integer(kind) or is_.is_boolean(kind):
        return "bigint"
    return "blob" if is_.is_binary(kind) else "text"
