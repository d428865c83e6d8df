"""An expression of Spark SQL as a tree.

Operators are calls like functions: `a + b` is `Call("+", (a, b))`. What SQL writes in several ways has one form here:
`a <> b` and `NOT a = b` are the same tree, a simple CASE is a searched one, `struct(a, b)` is a `named_struct`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from riverrun.ddl import Scalar, Type
from riverrun.errors import Invalid

VOID = Scalar("void")
"""The type of NULL."""


class UnknownSyntax(Invalid):
    """A text that is no expression, or one in words that only Spark reads."""


class TooDeep(UnknownSyntax):
    """An expression that is nested deeper than it can be read."""


@dataclass(frozen=True, slots=True)
class Name:
    """A column or a variable of a lambda, with the fields inside it: `a`, `a.b.c`."""

    parts: tuple[str, ...]
    text: str = field(default="", compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Constant:
    """A value that is written out. Dates are days, timestamps microseconds, intervals months or microseconds."""

    type: Type
    value: object
    text: str = field(default="", compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Call:
    """A function or an operator, by its name in lower case, and what it is applied to."""

    name: str
    arguments: tuple[Tree, ...]
    text: str = field(default="", compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Cast:
    """A value in another type; where that is impossible, an error, or null if it is `safe` (try_cast)."""

    value: Tree
    type: Type
    safe: bool = False
    text: str = field(default="", compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Field:
    """A field of a struct that is not a column: `f(a).b`."""

    value: Tree
    name: str
    text: str = field(default="", compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Lambda:
    """`x -> x + 1`, or `(x, i) -> x + i`."""

    variables: tuple[str, ...]
    body: Tree
    text: str = field(default="", compare=False, repr=False)


Tree = Name | Constant | Call | Cast | Field | Lambda


def parts(tree: Tree) -> tuple[Tree, ...]:
    """What a tree is made of, in the order it is written."""
    match tree:
        case Call():
            return tree.arguments
        case Cast() | Field():
            return (tree.value,)
        case Lambda():
            return (tree.body,)
    return ()


def walk(tree: Tree) -> Iterator[Tree]:
    """The tree and everything in it."""
    yield tree
    for part in parts(tree):
        yield from walk(part)
