"""Whether documents meet queries, for many pairs of both at once."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from riverrun.search.documents import PLACE_BITS, Documents
from riverrun.search.flat import Numbers, spread
from riverrun.search.programs import IN_ORDER, INNER, PHRASE, RANGE, TERM, Programs

Mask = npt.NDArray[np.bool_]


def verify(programs: Programs, documents: Documents, document: Numbers, slot: Numbers) -> Mask:
    """For each pair, whether the document meets the query."""
    pair, node = programs.nodes(slot)
    kind, depth = programs.kind.values[node], programs.depth.values[node]
    roots = np.flatnonzero(depth == 0)
    above = roots[pair] + programs.parent.values[node]
    below = np.zeros(len(node), np.int64)
    holds = np.zeros(len(node), np.bool_)
    leaves = np.flatnonzero(kind != INNER)
    holds[leaves] = _leaves(programs, documents, document[pair[leaves]], node[leaves], kind[leaves])
    holds[leaves] ^= programs.negated.values[node[leaves]]
    for level in range(int(depth.max(initial=0)), -1, -1):
        here = np.flatnonzero(depth == level)
        inner = here[kind[here] == INNER]
        holds[inner] = (below[inner] >= programs.need.values[node[inner]]) ^ programs.negated.values[node[inner]]
        if level:
            np.add.at(below, above[here[holds[here]]], 1)
    return holds[roots]


def _leaves(programs: Programs, documents: Documents, document: Numbers, node: Numbers, kind: Numbers) -> Mask:
    operand = programs.operand.values[node].astype(np.int64)
    holds = np.zeros(len(node), np.bool_)
    for which, decide in ((TERM, _terms), (PHRASE, _phrases), (RANGE, _ranges)):
        mine = np.flatnonzero(kind == which)
        if len(mine):
            holds[mine] = decide(programs, documents, document[mine], operand[mine])
    return holds


def _terms(_: Programs, documents: Documents, document: Numbers, word: Numbers) -> Mask:
    return documents.find(document, word)[1]


def _ranges(programs: Programs, documents: Documents, document: Numbers, place: Numbers) -> Mask:
    holds = np.zeros(len(place), np.bool_)
    columns = programs.range_column.values[place]
    for column in np.unique(columns).tolist():
        mine = np.flatnonzero(columns == column)
        values, there = documents.values[column]
        value = values[document[mine]]
        low, high = (
            bound.values[place[mine]].view(values.dtype) for bound in (programs.range_low, programs.range_high)
        )
        holds[mine] = there[document[mine]] & (low <= value) & (value <= high)
    return holds


def _phrases(programs: Programs, documents: Documents, document: Numbers, phrase: Numbers) -> Mask:
    """Phrases and near words. A document has the words of few of its candidates' phrases, which is seen first."""
    holds = np.zeros(len(phrase), np.bool_)
    starts, lengths = programs.phrase_bounds(phrase)
    which, place = spread(starts, lengths)
    term, there = documents.find(document[which], programs.phrase_words.values[place].astype(np.int64))
    whole = np.bincount(which, weights=there, minlength=len(phrase)) == lengths
    near = programs.phrase_near.values[phrase]
    first = np.cumsum(lengths) - lengths  # of each phrase, in `term`
    for kind, decide in ((whole & (near == IN_ORDER), _in_order), (whole & (near != IN_ORDER), _close)):
        mine = np.flatnonzero(kind)
        if len(mine):
            holds[mine] = decide(programs, documents, phrase[mine], term, first[mine], lengths[mine])
    return holds


def _in_order(
    _: Programs, documents: Documents, phrase: Numbers, term: Numbers, first: Numbers, lengths: Numbers
) -> Mask:
    """Phrases whose words are all there: whether they stand one after the other somewhere."""
    which, at = _occurrences(documents, term[first])
    for word in range(1, int(lengths.max())):
        more = lengths[which] > word
        wanted = (term[first[which] + np.where(more, word, 0)] << PLACE_BITS) | (at + word)
        found = np.minimum(np.searchsorted(documents.places, wanted), len(documents.places) - 1)
        stays = ~more | (documents.places[found] == wanted)
        which, at = which[stays], at[stays]
    return np.bincount(which, minlength=len(phrase)) > 0


def _close(
    programs: Programs, documents: Documents, phrase: Numbers, term: Numbers, first: Numbers, lengths: Numbers
) -> Mask:
    """Near words that are all there: whether some stretch has them all, and not too many others.

    Such a stretch begins with one of the words; from each of their places, the next of each of the words is looked for.
    """
    begins, _ = programs.phrase_bounds(phrase)
    members, place = spread(first, lengths)
    one, at = _occurrences(documents, term[place])
    which = members[one]
    last = at.copy()
    for word in range(int(lengths.max())):
        mine = np.flatnonzero(lengths[which] > word)
        wanted = term[first[which[mine]] + word]
        times = programs.phrase_times.values[begins[which[mine]] + word]
        found = np.searchsorted(documents.places, (wanted << PLACE_BITS) | at[mine]) + times - 1
        inside = found < len(documents.places)
        reached = documents.places[np.where(inside, found, 0)]
        inside &= reached >> PLACE_BITS == wanted
        reached = np.where(inside, reached & ((1 << PLACE_BITS) - 1), 1 << (PLACE_BITS + 1))
        last[mine] = np.maximum(last[mine], reached)
    others = last - at + 1 - programs.phrase_length.values[phrase[which]]
    return np.bincount(which[others <= programs.phrase_near.values[phrase[which]]], minlength=len(phrase)) > 0


def _occurrences(documents: Documents, term: Numbers) -> tuple[Numbers, Numbers]:
    """All places of some terms: for each the number of the one asked for, and the place in its document."""
    starts = np.searchsorted(documents.places, term << PLACE_BITS)
    behind = np.searchsorted(documents.places, (term + 1) << PLACE_BITS)
    which, at = spread(starts, behind - starts)
    return which, documents.places[at] & ((1 << PLACE_BITS) - 1)
