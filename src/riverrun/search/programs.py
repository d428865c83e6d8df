"""Queries as flat arrays: their nodes, and the words of which one must occur.

A query is a row of nodes, the root first. An inner node holds when at least `need` of the nodes below it do: all, or one.
Any node may be negated. A leaf's `operand` is the number of a word, or the place of a phrase or of a range.

Beside it are its *groups*: in a document that meets the query, at least one word of each group occurs. A query that has none
(`NOT a`, or a range alone) can only be found by trying it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from riverrun.search.fields import SearchFields
from riverrun.search.flat import Grown, Numbers, spread
from riverrun.search.tree import AllOf, AnyOf, Negation, QueryPattern, QueryPhrase, QueryRange, QueryTerm, QueryTree
from riverrun.search.vocabulary import Vocabulary

INNER, TERM, PHRASE, RANGE = range(4)
IN_ORDER = -1
_MOST_GROUPS = 16


@dataclass
class _Compiled:
    """Some queries on their way into the arrays."""

    kind: list[int] = field(default_factory=list)
    parent: list[int] = field(default_factory=list)
    depth: list[int] = field(default_factory=list)
    need: list[int] = field(default_factory=list)
    negated: list[bool] = field(default_factory=list)
    operand: list[int] = field(default_factory=list)
    group: list[int] = field(default_factory=list)
    word: list[int] = field(default_factory=list)
    node_ends: list[int] = field(default_factory=list)
    word_ends: list[int] = field(default_factory=list)


class Programs:
    """The arrays of all queries, by slot. Slots are given in the order in which queries come, and never again."""

    def __init__(self, fields: SearchFields, vocabulary: Vocabulary) -> None:
        self.vocabulary = vocabulary
        self._columns = {one.name: number for number, one in enumerate(fields.fields)}
        self._floats = {one.name for one in fields.fields if one.kind == "float"}
        self.kind, self.depth, self.negated = Grown(np.uint8), Grown(np.uint8), Grown(np.bool_)
        self.parent, self.need, self.operand = Grown(np.int32), Grown(np.int32), Grown(np.int32)
        self.node_ends, self.word_ends = Grown(np.int64), Grown(np.int64)
        self.group, self.word = Grown(np.int32), Grown(np.int32)
        self.phrase_ends, self.phrase_words, self.phrase_times = Grown(np.int64), Grown(np.int32), Grown(np.int32)
        self.phrase_near, self.phrase_length = Grown(np.int32), Grown(np.int32)
        self.range_column, self.range_low, self.range_high = Grown(np.int32), Grown(np.int64), Grown(np.int64)

    def __len__(self) -> int:
        return len(self.node_ends)

    def add(self, trees: Iterable[QueryTree]) -> None:
        """More queries, in the next slots."""
        made = _Compiled()
        nodes, words = len(self.kind), len(self.word)
        for tree in trees:
            self._node(made, tree, len(made.kind), -1, 0, False)
            for number, group in enumerate(self._groups(tree)[:_MOST_GROUPS]):
                made.word.extend(group)
                made.group.extend([number] * len(group))
            made.node_ends.append(nodes + len(made.kind))
            made.word_ends.append(words + len(made.word))
        for name in _Compiled.__dataclass_fields__:
            getattr(self, name).extend(getattr(made, name))

    def _node(self, made: _Compiled, tree: QueryTree, start: int, parent: int, depth: int, negated: bool) -> None:
        while isinstance(tree, Negation):
            tree, negated = tree.part, not negated
        at = len(made.kind) - start
        inner = isinstance(tree, AllOf | AnyOf)
        kind, operand = (INNER, 0) if isinstance(tree, AllOf | AnyOf) else self._leaf(tree)
        made.kind.append(kind)
        made.operand.append(operand)
        made.parent.append(parent)
        made.depth.append(depth)
        made.negated.append(negated)
        made.need.append(len(tree.parts) if isinstance(tree, AllOf) else 1)
        if inner:
            for part in tree.parts:  # type: ignore[union-attr]
                self._node(made, part, start, at, depth + 1, False)

    def _leaf(self, tree: QueryTerm | QueryPhrase | QueryPattern | QueryRange) -> tuple[int, int]:
        match tree:
            case QueryTerm():
                return TERM, self.vocabulary.term(tree.field, tree.word)
            case QueryPattern():
                return TERM, self.vocabulary.pattern(tree.field, tree.pattern)
            case QueryPhrase():
                return PHRASE, self._phrase(tree)
        low, high = np.array([tree.low, tree.high], np.float64 if tree.column in self._floats else np.int64).view(
            np.int64
        )
        self.range_column.extend([self._columns[tree.column]])
        self.range_low.extend([low])
        self.range_high.extend([high])
        return RANGE, len(self.range_column) - 1

    def _phrase(self, tree: QueryPhrase) -> int:
        codes = [self.vocabulary.term(tree.field, word) for word in tree.words]
        distinct = codes if tree.near is None else list(dict.fromkeys(codes))
        self.phrase_words.extend(distinct)
        self.phrase_times.extend([1 if tree.near is None else codes.count(code) for code in distinct])
        self.phrase_ends.extend([len(self.phrase_words)])
        self.phrase_near.extend([IN_ORDER if tree.near is None else tree.near])
        self.phrase_length.extend([len(codes)])
        return len(self.phrase_ends) - 1

    def _groups(self, tree: QueryTree) -> list[list[int]]:
        """Sets of words, of each of which one occurs in every document that meets the query."""
        match tree:
            case QueryTerm():
                return [[self.vocabulary.term(tree.field, tree.word)]]
            case QueryPattern():
                return [[self.vocabulary.pattern(tree.field, tree.pattern)]]
            case QueryPhrase():
                return [[self.vocabulary.term(tree.field, word)] for word in tree.words]
            case AllOf():
                return [group for part in tree.parts for group in self._groups(part)]
            case AnyOf():
                return self._either([self._groups(part) for part in tree.parts])
        return []

    def _either(self, parts: Sequence[list[list[int]]]) -> list[list[int]]:
        """One of the parts holds, so a word of the rarest group of one of them occurs."""
        if not all(parts):
            return []
        seen = self.vocabulary.seen
        chosen = [min(groups, key=lambda group: float(seen[group].sum())) for groups in parts]
        return [list(dict.fromkeys(code for group in chosen for code in group))]

    def nodes(self, slots: Numbers) -> tuple[Numbers, Numbers]:
        """The nodes of some queries: for each the place in `slots`, and its place in the arrays."""
        return spread(*_bounds(self.node_ends, slots))

    def words(self, slots: Numbers) -> tuple[Numbers, Numbers]:
        """The words of the groups of some queries, in the same way."""
        return spread(*_bounds(self.word_ends, slots))

    def phrase_bounds(self, phrases: Numbers) -> tuple[Numbers, Numbers]:
        """Where the words of some phrases begin, and how many there are."""
        return _bounds(self.phrase_ends, phrases)

    def only(self, slots: Numbers, fields: SearchFields) -> Programs:
        """The programs of these slots alone, in new slots and with a vocabulary of what they ask for."""
        _, nodes = self.nodes(slots)
        _, words = self.words(slots)
        kind, operand = self.kind.values[nodes], self.operand.values[nodes].astype(np.int64)
        phrases, ranges = operand[kind == PHRASE], operand[kind == RANGE]
        starts, lengths = self.phrase_bounds(phrases)
        _, spelled = spread(starts, lengths)
        asked = [operand[kind == TERM], self.word.values[words], self.phrase_words.values[spelled]]
        vocabulary, new = self.vocabulary.only(np.unique(np.concatenate(asked)))
        kept = Programs(fields, vocabulary)
        operand[kind == TERM] = new[operand[kind == TERM]]
        operand[kind == PHRASE] = np.arange(len(phrases))
        operand[kind == RANGE] = np.arange(len(ranges))
        for name, values in (
            ("kind", kind),
            ("operand", operand),
            ("word", new[self.word.values[words]]),
            ("phrase_words", new[self.phrase_words.values[spelled]]),
            ("phrase_times", self.phrase_times.values[spelled]),
            ("phrase_ends", np.cumsum(lengths)),
            ("group", self.group.values[words]),
            ("node_ends", np.cumsum(_bounds(self.node_ends, slots)[1])),
            ("word_ends", np.cumsum(_bounds(self.word_ends, slots)[1])),
        ):
            getattr(kept, name).extend(values)
        for name in ("parent", "depth", "need", "negated"):
            getattr(kept, name).extend(getattr(self, name).values[nodes])
        for name in ("phrase_near", "phrase_length"):
            getattr(kept, name).extend(getattr(self, name).values[phrases])
        for name in ("range_column", "range_low", "range_high"):
            getattr(kept, name).extend(getattr(self, name).values[ranges])
        return kept


def _bounds(ends: Grown, at: Numbers) -> tuple[Numbers, Numbers]:
    """Where each of some runs begins, and its length."""
    values: npt.NDArray[np.int64] = ends.values
    starts = np.where(at > 0, values[at - 1], 0) if len(values) else np.empty(0, np.int64)
    return starts, values[at] - starts
