"""A pattern as a tree. `at` is the place in the text, for errors."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

ANY = "_"
"""The variable that every row is."""


@dataclass(frozen=True, slots=True)
class RowVariable:
    """One row that is this variable; names are in lower case."""

    name: str
    at: int = 0


@dataclass(frozen=True, slots=True)
class Gap:
    """`->`: as few rows as possible, none of which is one of the `absent` variables; they are not part of the match."""

    absent: tuple[str, ...] = ()
    at: int = 0


@dataclass(frozen=True, slots=True)
class Chain:
    """One after the other. A gap is neither the first nor the last part."""

    parts: tuple[Tree, ...]


@dataclass(frozen=True, slots=True)
class PatternChoice:
    """One of several; earlier ones are preferred."""

    parts: tuple[Tree, ...]


@dataclass(frozen=True, slots=True)
class Repeat:
    """From `low` to `high` times (None: any number); as often as possible where it is `greedy`, else as seldom."""

    part: Tree
    low: int
    high: int | None
    greedy: bool = True
    at: int = 0


@dataclass(frozen=True, slots=True)
class Permutation:
    """All parts, in any order; the written one is preferred."""

    parts: tuple[Tree, ...]
    at: int = 0


Tree = RowVariable | Gap | Chain | PatternChoice | Repeat | Permutation


@dataclass(frozen=True, slots=True)
class MatchPattern:
    """A whole pattern: the tree, and the variables that no row may be after the match until its time is over."""

    text: str
    tree: Tree
    absent: tuple[str, ...] = ()

    @property
    def variables(self) -> tuple[str, ...]:
        """The names of all variables, in the order they are written."""
        names = [name for part in walk(self.tree) for name in _names(part)]
        return tuple(dict.fromkeys([*names, *self.absent]))

    @property
    def matched(self) -> tuple[str, ...]:
        """The names of those that rows of a match can be."""
        return tuple(dict.fromkeys(part.name for part in walk(self.tree) if isinstance(part, RowVariable)))


def parts_of(tree: Tree) -> tuple[Tree, ...]:
    """What a tree is made of."""
    match tree:
        case Chain() | PatternChoice() | Permutation():
            return tree.parts
        case Repeat():
            return (tree.part,)
    return ()


def walk(tree: Tree) -> Iterator[Tree]:
    """The tree and everything in it, in the order it is written."""
    yield tree
    for part in parts_of(tree):
        yield from walk(part)


def can_be_empty(tree: Tree) -> bool:
    """Whether it matches no row at all."""
    match tree:
        case RowVariable():
            return False
        case Gap():
            return True
        case PatternChoice():
            return any(can_be_empty(part) for part in tree.parts)
        case Repeat():
            return tree.low == 0 or can_be_empty(tree.part)
    return all(can_be_empty(part) for part in parts_of(tree))


def _names(tree: Tree) -> tuple[str, ...]:
    match tree:
        case RowVariable():
            return (tree.name,)
        case Gap():
            return tree.absent
    return ()
