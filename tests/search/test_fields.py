"""Values as queries write them, also those that no column can have."""

from __future__ import annotations

import pytest

from riverrun.search.fields import HIGHEST, LOWEST, NOT_A_VALUE, SearchField

WHOLE, DECIMAL = SearchField("n", "whole"), SearchField("d", "decimal", 2)


@pytest.mark.parametrize("field", [WHOLE, DECIMAL])
@pytest.mark.parametrize("large", ["1e40", "1e400", "1e999999", "1e99999999", "9" * 5000])
def test_a_bound_beyond_every_value_is_no_bound(field: SearchField, large: str) -> None:
    assert field.closed(None, large, False, False) == (LOWEST, HIGHEST)
    assert field.closed(f"-{large}", None, False, False) == (LOWEST, HIGHEST)
    low, high = field.closed(large, None, True, True)
    assert low > high or low >= HIGHEST
    low, high = field.closed(None, f"-{large}", True, True)
    assert high < low or high <= LOWEST


def test_small_numbers_are_rounded_to_what_counts() -> None:
    assert WHOLE.closed("1e-99999999", None, True, True) == (1, HIGHEST)
    assert WHOLE.closed("0.5", "2.5", True, True) == (1, 2)
    assert DECIMAL.closed("1.005", "2", False, True) == (101, 200)


@pytest.mark.parametrize("text", ["1e9999999999999999999999", "nan", "inf", "five", ""])
def test_what_is_no_value(text: str) -> None:
    with pytest.raises(NOT_A_VALUE):
        WHOLE.closed(text, None, True, True)
