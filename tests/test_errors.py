"""One family; each error says what happened and what to do."""

from __future__ import annotations

import inspect
import re

import pytest

import riverrun
from riverrun import errors
from riverrun.errors import RiverrunError, did_you_mean

FAMILY = [kind for kind in vars(errors).values() if inspect.isclass(kind) and issubclass(kind, RiverrunError)]


def test_the_family_is_drawn_at_the_top_as_it_is() -> None:
    drawn = {}
    above: dict[int, str] = {}  # by column
    for line in (errors.__doc__ or "").splitlines():
        found = re.match(r"([│├└─ ]*)(\w+)", line)
        if found and inspect.isclass(getattr(errors, found[2], None)):
            column = len(found[1])
            drawn[found[2]] = above.get(column - 4, "Exception")
            above[column] = found[2]
    assert drawn == {kind.__name__: kind.__bases__[0].__name__ for kind in FAMILY}


def test_all_of_it_is_public() -> None:
    for kind in FAMILY:
        assert getattr(riverrun, kind.__name__) is kind


@pytest.mark.parametrize("kind", FAMILY)
def test_the_hint_comes_behind_the_message(kind: type[RiverrunError]) -> None:
    assert str(kind("it broke")) == "it broke"
    error = kind("it broke", hint="Mend it")
    assert (str(error), error.message, error.hint) == ("it broke. Mend it", "it broke", "Mend it")


def test_they_are_also_what_python_calls_them() -> None:
    assert issubclass(errors.Invalid, ValueError)
    assert issubclass(errors.NotFound, LookupError)
    assert issubclass(errors.TimedOut, TimeoutError)


def test_the_nearest_name_is_suggested() -> None:
    assert did_you_mean("amout", ["amount", "user"]) == "Did you mean 'amount'?"
    assert did_you_mean("x", ["amount", "user"]) == "There are: amount, user"
    assert did_you_mean("x", []) == "There are none yet"
