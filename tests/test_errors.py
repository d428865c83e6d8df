"""One family; each error says what happened and what to do."""

from __future__ import annotations

import ast
import builtins
import inspect
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

import riverrun
from riverrun import errors
from riverrun.errors import RiverrunError, Unavailable, did_you_mean

SOURCE = Path(errors.__file__).parent
FAMILY = [kind for kind in vars(errors).values() if inspect.isclass(kind) and issubclass(kind, RiverrunError)]

# Not errors but ways to end a thread, a test, a command or a stream; nobody outside of their module sees them.
SIGNALS = {
    "log.upkeep._Stopped",
    "failpoints.Crashed",
    "cli.interruption.Interrupted",
    "serve.guard.Withdrawn",
    "capture.mariadb.stream._Cut",
    "log.kafka.avro_columns._Odd",
}


class Defined(NamedTuple):
    module: str
    name: str
    parent: str


def defined_errors() -> Iterator[Defined]:
    """All exceptions of the package, read from the source: importing all of it would need every extra."""
    classes = [
        Defined(".".join(path.relative_to(SOURCE).with_suffix("").parts), node.name, ast.unparse(base).split(".")[-1])
        for path in SOURCE.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.ClassDef)
        for base in node.bases[:1]
    ]
    kinds = {name for name, kind in vars(builtins).items() if inspect.isclass(kind) and issubclass(kind, BaseException)}
    while more := {one.name for one in classes if one.parent in kinds} - kinds:
        kinds |= more
    return (one for one in classes if one.name in kinds)


def drawn_errors() -> Iterator[Defined]:
    """What the drawing says: a name below another one derives from it."""
    above: dict[int, str] = {}  # by column
    for line in (errors.__doc__ or "").splitlines():
        found = re.match(r"([│├└─ ]*)([A-Z]\w+)(?: +([a-z_.]+): .*)?", line)
        if found and (found[1] or line == "RiverrunError"):
            column = len(found[1])
            yield Defined(found[3] or "errors", found[2], above.get(column - 4, "Exception"))
            above[column] = found[2]


def test_every_error_of_the_tree_is_in_the_family_and_drawn_at_the_top() -> None:
    known = [one for one in defined_errors() if f"{one.module}.{one.name}" not in SIGNALS]
    assert sorted(drawn_errors()) == sorted(known)


def test_a_class_outside_of_the_family_would_be_noticed() -> None:
    names = {f"{one.module}.{one.name}" for one in defined_errors()}
    assert names >= SIGNALS  # they are outside, and found
    assert {"errors.TimedOut", "serve.problems.Refused"} <= names


def test_all_of_it_is_public() -> None:
    for kind in FAMILY:
        assert getattr(riverrun, kind.__name__) is kind


@pytest.mark.parametrize("kind", FAMILY)
def test_the_hint_comes_after_the_message(kind: type[RiverrunError]) -> None:
    assert str(kind("it broke")) == "it broke"
    error = kind("it broke", hint="Fix it")
    assert (str(error), error.message, error.hint) == ("it broke. Fix it", "it broke", "Fix it")


def test_they_are_also_what_python_calls_them() -> None:
    assert issubclass(errors.Invalid, ValueError)
    assert issubclass(errors.NotFound, LookupError)
    assert issubclass(errors.TimedOut, TimeoutError)


def test_the_nearest_name_is_suggested() -> None:
    assert did_you_mean("amout", ["amount", "user"]) == "Did you mean 'amount'?"
    assert did_you_mean("x", ["amount", "user"]) == "There are: amount, user"
    assert did_you_mean("x", []) == "There are none yet"


def test_a_package_that_an_extra_would_have_brought_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "riverrun.flow", None)
    monkeypatch.delitem(vars(riverrun), "Flow", raising=False)
    with pytest.raises(
        Unavailable, match=r"rr\.Flow needs a package that is not installed .*pip install '\.\[spark\]'"
    ):
        _ = riverrun.Flow


def test_what_is_not_installed_is_said_in_one_way() -> None:
    """By `not_installed`, wherever it is."""
    said = [
        f"{path.relative_to(SOURCE)}: {line.strip()}"
        for path in SOURCE.rglob("*.py")
        if path.name != "errors.py"
        for line in path.read_text(encoding="utf-8").splitlines()
        if "package" in line and "not installed" in line
    ]
    assert said == []
