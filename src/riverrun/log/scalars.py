"""Values of NumPy and pandas in rows, as Python's own: what `df.to_dict("records")` has in it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from riverrun.errors import Invalid


def plain_rows(rows: Sequence[Any]) -> list[Any]:
    """The rows with Python's own values in the place of NumPy's and pandas'; what is neither stays as it is."""
    return [_plain_row(number, row) if isinstance(row, Mapping) else row for number, row in enumerate(rows)]


def _plain_row(number: int, row: Mapping[str, Any]) -> dict[str, Any]:
    made = {}
    for name, value in row.items():
        try:
            made[name] = _plain(value)
        except Invalid as error:
            raise Invalid(f"row {number}, column {name!r}: {error.message}", hint=error.hint) from None
    return made


def _plain(value: Any) -> Any:
    match type(value).__module__.partition(".")[0]:
        case "numpy":
            return _from_numpy(value)
        case "pandas":
            return _from_pandas(value)
    if isinstance(value, Mapping):
        return {_plain(key): _plain(inner) for key, inner in value.items()}
    return [_plain(inner) for inner in value] if isinstance(value, list | tuple) else value


def _from_numpy(value: Any) -> Any:
    kind = getattr(getattr(value, "dtype", None), "kind", None)
    if kind is None:
        return value
    if getattr(value, "ndim", 0):
        return [_plain(inner) for inner in value]
    if kind != "M":
        return _plain(value.item()) if kind == "O" else value.item()
    whole = value.astype("datetime64[us]")
    if whole != value and whole == whole:  # noqa: PLR0124 (NaT is not equal to itself)
        raise _too_fine(value)
    return whole.item()


def _from_pandas(value: Any) -> Any:
    if type(value).__name__ in ("NaTType", "NAType"):
        return None
    if not hasattr(value, "to_pydatetime"):
        return value
    if value.nanosecond:
        raise _too_fine(value)
    return value.to_pydatetime()


def _too_fine(value: Any) -> Invalid:
    return Invalid(f"{value} has nanoseconds, and times are microseconds", hint='Round it: value.floor("us")')
