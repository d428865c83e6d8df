"""Which queries are candidates for a document: each is filed under the words of one of its groups, the rarest.

Queries that come together are filed together, as a segment of slots. Segments of like size become one, so that there are
few, and a query is filed again a few times only: by then more is known of which words are rare.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from riverrun.search.flat import Numbers, spread
from riverrun.search.programs import Programs

Slots = npt.NDArray[np.int32]


@dataclass(frozen=True)
class PostingSegment:
    """The slots [first, behind) by word; `loose` are those that no word can find."""

    first: int
    behind: int
    words: Slots
    starts: Numbers
    slots: Slots
    loose: Slots

    @property
    def size(self) -> int:
        return self.behind - self.first


def file_slots(programs: Programs, first: int, behind: int) -> PostingSegment:
    """A segment, filed by what is known of words now."""
    slots = np.arange(first, behind)
    which, places = programs.words(slots)
    word, group = programs.word.values[places], programs.group.values[places]
    filed = np.zeros(behind - first, np.bool_)
    filed[which] = True
    if len(word):
        begins = np.flatnonzero(np.r_[True, (which[1:] != which[:-1]) | (group[1:] != group[:-1])])
        cost = np.add.reduceat(programs.vocabulary.seen[word].astype(np.float64), begins)
        order = np.lexsort((cost, which[begins]))
        best = order[np.r_[True, np.diff(which[begins][order]) > 0]]
        lengths = np.diff(np.r_[begins, len(word)])
        _, chosen = spread(begins[best], lengths[best])
        word, which = word[chosen], which[chosen]
        order = np.argsort(word, kind="stable")
        word, which = word[order], which[order]
    words, starts = np.unique(word, return_index=True)
    return PostingSegment(
        first,
        behind,
        words,
        np.r_[starts, len(word)].astype(np.int64),
        (which + first).astype(np.int32),
        (np.flatnonzero(~filed) + first).astype(np.int32),
    )


class Postings:
    """The segments of all queries."""

    def __init__(self, programs: Programs) -> None:
        self._programs = programs
        self._segments: list[PostingSegment] = []
        self._documents = 0
        self._refile_at = 256

    @property
    def loose(self) -> int:
        """How many queries are tried on every document."""
        return sum(len(segment.loose) for segment in self._segments)

    def extend(self) -> None:
        """File the queries that came since."""
        first = behind = self._segments[-1].behind if self._segments else 0
        behind = len(self._programs)
        while self._segments and self._segments[-1].size <= 2 * (behind - first):
            first = self._segments.pop().first
        if behind > first:
            self._segments.append(file_slots(self._programs, first, behind))

    def count(self, documents: int) -> None:
        """So many more documents were seen; whenever that has doubled, all are filed again by what was learned."""
        self._documents += documents
        if self._documents >= self._refile_at:
            self._refile_at = 4 * self._documents
            self._segments = [file_slots(self._programs, one.first, one.behind) for one in self._segments]

    def sizes(self, document: Numbers, word: Numbers, height: int) -> Numbers:
        """How many candidates each of `height` documents has, of words in documents, each once."""
        total = np.full(height, self.loose)
        for segment in self._segments:
            hit, _, lengths = _found(segment, word)
            np.add.at(total, document[hit], lengths)
        return total

    def candidates(
        self, document: Numbers, word: Numbers, first: int, behind: int
    ) -> Iterator[tuple[Numbers, Numbers]]:
        """Documents and slots that may belong together, of the documents [first, behind) and the words in them."""
        for segment in self._segments:
            hit, starts, lengths = _found(segment, word)
            which, places = spread(starts, lengths)
            yield document[hit][which], segment.slots[places].astype(np.int64)
            if len(segment.loose):
                every = np.repeat(np.arange(first, behind), len(segment.loose))
                yield every, np.tile(segment.loose.astype(np.int64), behind - first)


def _found(segment: PostingSegment, word: Numbers) -> tuple[npt.NDArray[np.bool_], Numbers, Numbers]:
    """Which of the words a segment has, and where their slots begin, and how many there are."""
    if not len(segment.words):
        none = np.empty(0, np.int64)
        return np.zeros(len(word), np.bool_), none, none
    at = np.minimum(np.searchsorted(segment.words, word), len(segment.words) - 1)
    hit = segment.words[at] == word
    starts = segment.starts[at[hit]]
    return hit, starts, segment.starts[at[hit] + 1] - starts
