"""Numbers of any size in columns that were given a precision (`decimal=` of a capture)."""

from __future__ import annotations

import re
from decimal import Decimal, localcontext

import pyarrow as pa

from riverrun.errors import Invalid

PRECISE = 38
_DECIMAL = re.compile(r"\s*(\d+)\s*,\s*(\d+)\s*")


def check_decimal(decimal: str | None) -> str | None:
    """The `decimal=` of a capture: "precision,scale"."""
    if decimal is None:
        return None
    found = _DECIMAL.fullmatch(decimal)
    if not found or not 1 <= int(found[1]) <= PRECISE or int(found[2]) > int(found[1]):
        raise Invalid(f"decimal is precision and scale, not {decimal!r}", hint='Write decimal="38,9"')
    return f"{int(found[1])},{int(found[2])}"


def fitting(texts: pa.Array, want: pa.DataType) -> pa.Array:
    """Text as decimals, rounded to their scale; null where a number has too many digits before the point."""
    unit = Decimal(1).scaleb(-want.scale)
    limit = Decimal(10) ** (want.precision - want.scale)

    def fit(text: str | None) -> Decimal | None:
        if text is None:
            return None
        with localcontext(prec=2000):
            value = Decimal(text).quantize(unit)
        return value if abs(value) < limit else None

    return pa.array([fit(text) for text in texts.to_pylist()], want)
