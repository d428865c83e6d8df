"""Values as Spark SQL writes them, with their types."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal as Exact

from riverrun import ddl
from riverrun.ddl import Decimal, Scalar, Type
from riverrun.errors import Invalid
from riverrun.flow.schema import BIGINT, BINARY, DATE, DOUBLE, INT, TIMESTAMP
from riverrun.flow.syntax import Constant, UnknownSyntax

YEAR_MONTH = {"year": 12, "month": 1}
DAY_TIME = {
    "week": 604_800_000_000,
    "day": 86_400_000_000,
    "hour": 3_600_000_000,
    "minute": 60_000_000,
    "second": 1_000_000,
    "millisecond": 1000,
    "microsecond": 1,
}
_FIELDS = ("day", "hour", "minute", "second")  # of an interval's type
_SUFFIXED = {"l": ("bigint", 63), "s": ("smallint", 15), "y": ("tinyint", 7)}
_NUMBER = re.compile(r"(-?)(\d*)(?:\.(\d*))?(e[+-]?\d+)?(bd|[lsyfd])?")
_TIMESTAMP = re.compile(r"\d{4}-\d\d-\d\d(?:[ T]\d\d:\d\d:\d\d(?:\.\d{1,6})?)?(Z)?")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def number(text: str, source: str) -> Constant:
    """A number in lower case, with its sign; its digits and its suffix decide the type."""
    match = _NUMBER.fullmatch(text)
    if match is None:
        raise UnknownSyntax(f"cannot read the number {source}")
    sign, whole, fraction, exponent, suffix = match.groups()
    digits = text.removesuffix(suffix or "")
    if suffix in _SUFFIXED:
        name, bits = _SUFFIXED[suffix]
        return _integer(int(digits), Scalar(name), bits, source)
    if suffix in ("f", "d") or (exponent and not suffix):
        return _approximate(float(digits), Scalar("float") if suffix == "f" else DOUBLE, source)
    if exponent:
        raise UnknownSyntax(f"cannot read the number {source}")
    if fraction is None and suffix is None and -(1 << 63) <= int(digits) < 1 << 63:
        return Constant(INT if -(1 << 31) <= int(digits) < 1 << 31 else BIGINT, int(digits), source)
    scale = len(fraction or "")
    precision = max(len((whole + (fraction or "")).lstrip("0")), scale, 1)
    if precision > 38:
        raise UnknownSyntax(f"{source} has more than 38 digits")
    return Constant(Decimal(precision, scale), Exact(sign + (whole or "0") + "." + (fraction or "0")), source)


def _integer(value: int, kind: Type, bits: int, source: str) -> Constant:
    if not -(1 << bits) <= value < 1 << bits:
        raise UnknownSyntax(f"{source} is too large for {kind}")
    return Constant(kind, value, source)


def _approximate(value: float, kind: Type, source: str) -> Constant:
    if abs(value) > (3.4028234663852886e38 if str(kind) == "float" else 1.7976931348623157e308):
        raise UnknownSyntax(f"{source} is too large for {kind}")
    return Constant(kind, value, source)


def typed(name: str, text: str, source: str) -> Constant:
    """date'2026-01-31', timestamp'…', x'1F'. Other ways to write a time, and words such as today, are left to Spark."""
    try:
        match name:
            case "x":
                return Constant(BINARY, bytes.fromhex(text if len(text) % 2 == 0 else "0" + text), source)
            case "date" if re.fullmatch(r"\d{4}-\d\d-\d\d", text):
                return Constant(DATE, (date.fromisoformat(text) - _EPOCH.date()).days, source)
            case "timestamp" | "timestamp_ltz" | "timestamp_ntz" if match := _TIMESTAMP.fullmatch(text):
                moment = datetime.fromisoformat(text.removesuffix("Z")).replace(tzinfo=UTC)
                kind = TIMESTAMP if name != "timestamp_ntz" else Scalar("timestamp_ntz")
                if kind == TIMESTAMP or not match[1]:
                    return Constant(kind, (moment - _EPOCH) // timedelta(microseconds=1), source)
    except ValueError:
        pass
    raise UnknownSyntax(f"cannot read {source}")


def interval(pieces: Sequence[tuple[str, str, str]], source: str) -> Constant:
    """INTERVAL 1 DAY 2 HOURS: signs, amounts and units. Its type has the largest and the smallest unit."""
    units = [unit for _, _, unit in pieces]
    lengths = YEAR_MONTH if units[0] in YEAR_MONTH else DAY_TIME
    if not all(unit in lengths for unit in units):
        raise UnknownSyntax(f"{source} has both months and days")
    total = 0
    for sign, amount, unit in pieces:
        if not re.fullmatch(r"[+-]?\d{1,9}" if unit != "second" else r"[+-]?\d{1,9}(\.\d{1,6})?", amount.strip()):
            raise UnknownSyntax(f"cannot read {amount!r} in {source}")
        value = Exact(amount.strip()) * lengths[unit]
        total += int(-value if sign == "-" else value)
    bits = 31 if lengths is YEAR_MONTH else 63
    if not -(1 << bits) <= total < 1 << bits:
        raise UnknownSyntax(f"{source} is too long")
    return Constant(interval_type(units), total, source)


def interval_type(units: Sequence[str]) -> Type:
    """The type of an interval that has these units: interval day, interval hour to second, interval year to month."""
    if units[0] in YEAR_MONTH:
        ordered = [unit for unit in YEAR_MONTH if unit in units]
    else:
        fields = {"week": "day", "millisecond": "second", "microsecond": "second"}
        ordered = [field for field in _FIELDS if field in {fields.get(unit, unit) for unit in units}]
    first, last = ordered[0], ordered[-1]
    return Scalar(f"interval {first}" if first == last else f"interval {first} to {last}")


def type_named(text: str) -> Type:
    """A type as a cast names it. Strings of a limited length are left to Spark."""
    if re.search(r"\b(varchar|char|character)\b", text, re.IGNORECASE):
        raise UnknownSyntax(f"{text} is not known")
    try:
        return ddl.parse_type(text)
    except Invalid as error:
        raise UnknownSyntax(error.message) from None
