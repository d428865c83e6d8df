"""How far an epoch reads of topics whose rows nobody knows before they are read: by when messages were received.

The broker is asked which offsets were received up to a moment, and the moment is searched for that makes an epoch of about
the wanted size. Where producers write the time of receipt themselves it may go back; of such topics an epoch takes a share.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from riverrun.log.topic import Topic
from riverrun.runtime.plan import Limit, Positions

_MILLISECOND = 1000


class Cut(NamedTuple):
    """Where an epoch ends, and up to when it has everything; None where that is not known, or it has all there is."""

    positions: dict[str, dict[int, int]]
    received: int | None


class ReceiptCut:
    """Cuts the backlog of some topics. `settled` has the moments up to which they can be read, of those where receive time
    rises."""

    def __init__(self, topics: Mapping[str, Topic], settled: Mapping[str, int]) -> None:
        self._topics = topics
        self._timed = settled

    def find(self, start: Positions, end: Positions, since: int, limit: Limit) -> Cut:
        """The next epoch behind `start`, which was reached at `since`, and up to `end`."""
        share = self._share(start, end, limit)
        if share <= 1:
            return Cut({name: dict(parts) for name, parts in end.items()}, None)
        parts = {name: self._fraction(name, start[name], end[name], share) for name in end if name not in self._timed}
        if not self._timed:
            return Cut(parts, None)
        moment, found = self._search(start, end, since, limit)
        return Cut({**parts, **found}, moment if not parts else None)

    def _search(
        self, start: Positions, end: Positions, since: int, limit: Limit
    ) -> tuple[int, dict[str, dict[int, int]]]:
        """The latest moment that is not too much, or else the first one that is anything."""
        waiting = {name: end[name] for name in self._timed if end[name] != start[name]}
        low, high = max(since, self._oldest(start, waiting)), min(self._timed.values())
        fits = False
        best: tuple[int, dict[str, dict[int, int]]] = (high, {name: dict(end[name]) for name in self._timed})
        while high - low > _MILLISECOND:
            middle = (low + high) // 2
            found = {name: self._received(name, middle, start[name], end[name]) for name in self._timed}
            share = self._share(start, found, limit)
            if share > 1:
                high = middle
                best = best if fits else (middle, found)
            elif share >= 0.5:
                return middle, found
            else:
                low = middle
                if share > 0:
                    fits, best = True, (middle, found)
        return best

    def _received(self, name: str, moment: int, start: Mapping[int, int], end: Mapping[int, int]) -> dict[int, int]:
        offsets = self._topics[name].backend.offsets_received(moment)
        return {p: max(start.get(p, 0), min(offsets[p], last)) for p, last in end.items()}

    def _oldest(self, start: Positions, waiting: Positions) -> int:
        found = (
            self._topics[name].first_received(p, start[name].get(p, 0), last)
            for name, parts in waiting.items()
            for p, last in parts.items()
            if last > start[name].get(p, 0)
        )
        return min((moment for moment in found if moment is not None), default=0)

    def _share(self, start: Positions, end: Positions, limit: Limit) -> float:
        """How many times the limit a range is."""
        rows = {name: self._topics[name].backend.count(start[name], parts) for name, parts in end.items()}
        size = sum(count * self._topics[name].backend.row_bytes() for name, count in rows.items() if count)
        return max(sum(rows.values()) / limit.rows, size / limit.size)

    def _fraction(self, name: str, start: Mapping[int, int], end: Mapping[int, int], share: float) -> dict[int, int]:
        grain = self._topics[name].backend.grain
        taken = {p: max(grain, int((last - start.get(p, 0)) / share) // grain * grain) for p, last in end.items()}
        return {p: min(last, start.get(p, 0) + taken[p]) for p, last in end.items()}
