"""The verified set: which functions and operators there is a translation for.

A form is a function with the names that it has in Spark SQL. It is only here if the tests compare it with Spark.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NoReturn

from riverrun.ddl import Type
from riverrun.errors import Invalid
from riverrun.expressions.term import Term
from riverrun.flow.schema import STRING
from riverrun.flow.syntax import Call

HINT = 'Spark computes it; in tests: engine="spark"'
UNKNOWN_HINT = 'Spark computes it, if it has such a function; in tests: engine="spark"'


class Unverified(Invalid):
    """An expression outside the set that is known to mean the same in DuckDB as in Spark."""


@dataclass(frozen=True, slots=True)
class Given:
    """A call that is to be translated: its arguments are translated already, and the type of its result is known."""

    call: Call
    arguments: tuple[Term, ...]
    type: Type

    def refuse(self, why: str = "is not in the verified set") -> NoReturn:
        raise refusal(self.call.text or self.call.name, why)

    def expect(self, least: int, most: int | None = None) -> tuple[Term, ...]:
        """The arguments, if there are so many."""
        if not least <= len(self.arguments) <= (least if most is None else most):
            self.refuse("has another number of arguments than expected")
        return self.arguments

    def whole(self, index: int) -> int | None:
        """The argument as a whole number, if it is written as one."""
        if index >= len(self.arguments):
            return None
        constant = self.arguments[index].constant
        return constant.value if constant is not None and type(constant.value) is int else None

    def text(self, index: int) -> str:
        """The argument as a string that is written out; other ones are refused."""
        constant = self.arguments[index].constant if index < len(self.arguments) else None
        if constant is None or constant.type != STRING or not isinstance(constant.value, str):
            self.refuse("is in the verified set only with a literal there")
        return constant.value


Form = Callable[[Given], Term]
FORMS: dict[str, Form] = {}


def form(*names: str) -> Callable[[Form], Form]:
    """Marks a function as the translation of calls by these names."""

    def add(rule: Form) -> Form:
        for name in names:
            assert name not in FORMS, name
            FORMS[name] = rule
        return rule

    return add


def refusal(text: str, why: str = "is not in the verified set", hint: str = HINT) -> Unverified:
    return Unverified(f"{text} {why}", hint=hint)
