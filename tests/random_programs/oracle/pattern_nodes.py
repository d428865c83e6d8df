"""Matches of a pattern over rows in the order of event time."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import Any

from oracles.patterns import Attempt, ExpectedMatch, MatchSetting, matches
from random_programs.expressions import Expression, value
from random_programs.oracle.facts import END, SECOND, Epoch, Fact, Node
from random_programs.oracle.stream_nodes import key_of
from random_programs.values import moment
from riverrun.patterns.language import parse

Options = Mapping[str, Any]


class Match(Node):
    """What is decided of the rows that the watermark has passed, of those that were in time."""

    def __init__(self, input: Node, options: Options) -> None:
        super().__init__()
        self.inputs = (input,)
        self._options = options
        self._pattern = parse(options["pattern"])
        self._conditions = {name: _condition(asked) for name, asked in options["define"].items()}
        within = options["within"]
        self._within = None if within is None else int(within * SECOND)
        self._setting = MatchSetting(self._within, options["after"])
        self._horizon = int(options["late"][1] * SECOND) if options["late"][0] == "correct" else 0
        self._accepted: list[Fact] = []
        self.aside: list[Mapping[str, Any]] = []

    def after(self, epoch: Epoch) -> Iterable[Fact]:
        start, end = self.judged
        came = self.inputs[0].came
        late = [row for row in came if row.time < start - self._horizon]
        timely = [row for row in came if row.time >= start - self._horizon]
        self._accepted += timely
        if self._options["late"][0] == "side":
            self.aside += [{**row.values, "_watermark": moment(start)} for row in late]
            self.count("in", len(came), late_aside=len(late))
        else:
            self.count("in", len(came), late_dropped=len(late))
        self.counts["in"]["corrected"] = sum(row.time < start for row in timely)
        by_key: dict[Hashable, list[Fact]] = {}
        for row in sorted(self._accepted, key=lambda row: (row.time, row.place)):
            if row.time < end:
                by_key.setdefault(key_of(row, self._options["by"]), []).append(row)
        watermark = None if end >= END else end
        for key, rows in by_key.items():
            told = [{**row.values, "time": row.time} for row in rows]
            for found in matches(self._pattern, self._conditions, told, self._setting, watermark):
                yield self._result(key, rows, found)

    def _result(self, key: Hashable, rows: list[Fact], found: ExpectedMatch) -> Fact:
        assert found.outcome == "match"
        taken = [row for row, _ in found.taken]
        first, last = rows[taken[0]], rows[taken[-1]]
        of_a = [row for row, name in found.taken if name == "a"]
        values = {
            **{name: first.values[name] for name in self._options["by"]},
            "rows": len(taken),
            "first_of_a": rows[of_a[0]].values[self._options["measured"]] if of_a else None,
            "match_start": moment(first.time),
            "match_end": moment(last.time),
        }
        over = first.time + (self._within or 0) if self._pattern.absent else last.time
        return Fact((key, first.id), values, over)


def _condition(asked: Expression) -> Callable[[Attempt], bool | None]:
    return lambda at: value(asked, at.rows[at.row])
