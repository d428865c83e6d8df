"""Where epochs may end in topics of captures: at the ends of the source's transactions, never inside of one.

A capture appends the rows of a transaction to their topics and then one row to `<capture>.transactions`, which has the end
of every topic of the capture. So these rows, not frames, are what an epoch takes of such topics; what lies behind the last
one is not read yet.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from riverrun.columns import RECEIVED
from riverrun.log.topic import Topic
from riverrun.log.wake import Bell
from riverrun.runtime.plan import Positions

_COLUMNS = {"transaction", "position", "at", "ends", "rows", "kind"}


@dataclass(frozen=True)
class WholeStep:
    """The topics of a capture after one more row of its transactions: when that row came, and how far they are."""

    received: int
    ends: Positions


def transactions_topic(topic: str) -> str | None:
    """The topic that tells which transactions of a topic are whole, if it is one of a capture."""
    capture, dot, table = topic.partition(".")
    return f"{capture}.transactions" if dot and table != "transactions" else None


def find_transactions(
    inputs: Mapping[str, Topic], there: set[str], open_topic: Callable[[str], Topic]
) -> dict[str, Topic]:
    """The transactions topics that matter for these inputs, by their name."""
    names = {name for name in map(transactions_topic, inputs) if name is not None and name in there}
    opened = {name: open_topic(name) for name in sorted(names)}
    return {name: topic for name, topic in opened.items() if set(topic.schema.names) >= _COLUMNS}


class WholeTransactions:
    """The ends of whole transactions in the topics of a flow. Topics of no capture are whole anywhere."""

    def __init__(self, topics: Mapping[str, Topic], transactions: Mapping[str, Topic]) -> None:
        self._topics = topics
        self._transactions = transactions
        self._captured = {
            name: [topic for topic in topics if transactions_topic(topic) == name] for name in transactions
        }
        self._hints: dict[str, int] = {}

    @property
    def captured(self) -> set[str]:
        """The topics that are of a capture."""
        return {topic for topics in self._captured.values() for topic in topics}

    def ends(self) -> dict[str, dict[int, int]]:
        """How far topics may be read now: to their end, those of a capture to that of their last whole transaction."""
        # First what is whole, then where topics end: the other way round a topic could end before its last transaction.
        whole = {topic: parts for name in self._transactions for topic, parts in self._last(name).items()}
        found = {name: topic.ends() for name, topic in self._topics.items()}
        for name, parts in whole.items():
            found[name] = {p: min(end, parts.get(p, end)) for p, end in found[name].items()}
        return found

    def _last(self, name: str) -> Positions:
        topic = self._transactions[name]
        end, begin = topic.ends()[0], topic.begins()[0]
        if end == begin:
            return {captured: self._topics[captured].begins() for captured in self._captured[name]}
        return self._ends_at(name, end - 1)

    def _ends_at(self, name: str, offset: int) -> Positions:
        rows = self._transactions[name].read_offsets({0: offset}, {0: offset + 1}, ["ends"])
        return self._parsed(name, rows.column("ends")[0].as_py())

    def _parsed(self, name: str, text: str) -> Positions:
        said = json.loads(text)
        return {topic: dict(enumerate(said[topic])) for topic in self._captured[name] if topic in said}

    def steps(self, positions: Positions, ends: Positions) -> Iterator[Iterator[WholeStep]]:
        """For each capture the steps behind `positions`, as far as they lie before `ends`, in order."""
        return (self._steps(name, positions, ends) for name in self._transactions)

    def _steps(self, name: str, positions: Positions, ends: Positions) -> Iterator[WholeStep]:
        topic = self._transactions[name]
        begin = self._first_after(name, positions)
        moment = 0
        for batch in topic.batches({0: begin}, topic.ends(), ["ends", RECEIVED]):
            received = batch.column(1).cast("int64").to_pylist()
            for text, when in zip(batch.column(0).to_pylist(), received, strict=True):
                step = self._parsed(name, text)
                if not _covers(ends, step):
                    return
                moment = max(moment, when)
                yield WholeStep(moment, step)

    def _first_after(self, name: str, positions: Positions) -> int:
        """The first row that says more than what `positions` have. Ends only grow, so it is searched for by halves."""
        topic = self._transactions[name]
        low, high = topic.begins()[0], topic.ends()[0]
        hint = self._hints.get(name, low)
        if low < hint <= high and _covers(positions, self._ends_at(name, hint - 1)):
            low = hint
        step = 1
        while low < high:  # most often it is near the last one that was found
            probe = min(low + step, high) - 1
            if not _covers(positions, self._ends_at(name, probe)):
                high = probe
                break
            low, step = probe + 1, step * 2
        while low < high:
            middle = (low + high) // 2
            if _covers(positions, self._ends_at(name, middle)):
                low = middle + 1
            else:
                high = middle
        self._hints[name] = low
        return low

    def attach(self, bell: Bell) -> None:
        """Let the bell ring whenever there may be more to read."""
        captured = self.captured
        for topic in [*self._transactions.values(), *(t for n, t in self._topics.items() if n not in captured)]:
            topic.attach(bell)


def _covers(positions: Positions, ends: Positions) -> bool:
    """Whether whoever is at `positions` has read up to `ends`."""
    return all(
        end <= positions[topic].get(p, 0)
        for topic, parts in ends.items()
        if topic in positions
        for p, end in parts.items()
    )
