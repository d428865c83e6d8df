"""Times as Spark writes them in years that DuckDB writes in another way: before year 1 and after 9999."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from riverrun.expressions.datetime_patterns import to_write
from riverrun.expressions.readers import DAY, ERA

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def _shifted(micros: int) -> tuple[datetime, int]:
    """The moment in a year between 1970 and 2369 that has the same days, and what to add to its year."""
    eras = (micros // DAY) // ERA
    return _EPOCH + timedelta(microseconds=micros - eras * ERA * DAY), eras * 400


def _year(year: int) -> str:
    if year > 9999:
        return f"+{year}"
    return f"{year:04}" if year >= 0 else f"-{-year:04}"


def write_date(days: int) -> str:
    at, years = _shifted(days * DAY)
    return f"{_year(at.year + years)}-{at:%m-%d}"


def write_timestamp(micros: int) -> str:
    at, years = _shifted(micros)
    fraction = f".{at.microsecond:06}".rstrip("0").rstrip(".")
    return f"{_year(at.year + years)}-{at:%m-%d %H:%M:%S}{fraction}"


def write_pattern(micros: int, pattern: str) -> str:
    """By a pattern that `to_write` accepts."""
    at, years = _shifted(micros)
    year = at.year + years
    parsed = to_write(pattern)
    assert parsed is not None
    made = []
    for is_field, text in parsed.parts:
        if not is_field:
            made.append(text)
        elif text == "yyyy":
            made.append(_year(year))
        elif text == "yy":
            made.append(f"{abs(year) % 100:02}")
        elif text.startswith("S"):
            made.append(f"{at.microsecond:06}"[: len(text)])
        else:
            single = {"M": at.month, "d": at.day, "H": at.hour, "h": at.hour % 12 or 12, "m": at.minute, "s": at.second}
            format_ = parsed_format(text)
            made.append(str(single[text]) if text in single else at.strftime(format_))
    return "".join(made)


def parsed_format(text: str) -> str:
    """One field for `strftime`."""
    field = to_write(text)
    assert field is not None
    return field.strftime()
