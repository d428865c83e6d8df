"""Rows beside the stored searches that they meet."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from oracles.search import Search
from random_programs.oracle.facts import Epoch, Fact, Node

SUFFIX = "_query"


class Percolate(Node):
    """Each row with each query that there is after the epoch in which the row was read."""

    def __init__(self, left: Node, queries: Node, options: Mapping[str, Any]) -> None:
        super().__init__()
        self.inputs = (left, queries)
        self._text, self._query = options["text"], options["query"]
        self._search = Search([self._text])

    @property
    def judged(self) -> tuple[int, int]:
        return self.inputs[0].watermarks

    def after(self, epoch: Epoch) -> Iterable[Fact]:
        left, queries = self.inputs
        found = list(self.rows.values())
        for row in left.came:
            for query in queries.rows.values():
                if self._search.meets(row.values, query.values[self._query]):
                    theirs = {f"{n}{SUFFIX}" if n in row.values else n: one for n, one in query.values.items()}
                    found.append(Fact((row.id, query.id), {**row.values, **theirs}, row.time, (), row.received))
        self.count("left", len(left.came))
        return found
