"""Ways the same rows may arrive: in another order within the lateness, and cut into epochs in another way."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Any

from riverrun.durations import to_micros
from riverrun.errors import Invalid
from riverrun.flow import Flow
from riverrun.flow.nodes import Source, TableSource
from riverrun.testing.result import Rows, appendable
from riverrun.testing.script import Append, Crash, Process, Step

Arrival = list[tuple[str, Any]]


def in_order(inputs: Mapping[str, Any]) -> Arrival:
    """All rows one by one, topic after topic."""
    return [(topic, row) for topic, rows in inputs.items() for row in _listed(topic, rows)]


def shuffled(flow: Flow, inputs: Mapping[str, Any], dice: random.Random) -> Arrival:
    """Rows out of order by no more than their topic's lateness, so that none is late; topics are mixed.

    A topic that is read as a table keeps its order, which says what is newest, and so does one without event time.
    """
    placed: list[tuple[float, int, str, Any]] = []
    for topic, given in inputs.items():
        rows = _listed(topic, given)
        sources = [node for node in flow.nodes if isinstance(node, Source) and node.topic == topic]
        times = {node.event_time for node in sources}
        if any(isinstance(node, TableSource) for node in sources) or "_received" in times or len(times) != 1:
            low, high = _extent(flow, inputs)
            places = sorted(dice.uniform(low, high) for _ in rows)
            ties = sorted(dice.randrange(1 << 30) for _ in rows)
        else:
            (column,) = times
            slack = min(node.lateness for node in sources)
            places = [to_micros(row[column]) + dice.uniform(0, slack) for row in rows]
            ties = [dice.randrange(1 << 30) for _ in rows]
        placed += [(place, tie, topic, row) for place, tie, row in zip(places, ties, rows, strict=True)]
    placed.sort(key=lambda item: item[:2])
    return [(topic, row) for _, _, topic, row in placed]


def batched(arrival: Arrival, dice: random.Random, crashes: bool) -> list[Step]:
    """The rows in this order, each received at its own time, processed in epochs of random sizes."""
    script: list[Step] = []
    often = dice.choice([0.02, 0.1, 0.3, 0.7])
    for topic, row in arrival:
        script.append(Append(topic, [row]))
        if dice.random() < often:
            script.append(Process())
            if crashes and dice.random() < 0.2:
                script.append(Crash())
    return [*script, Process()]


def _listed(topic: str, rows: Any) -> Sequence[Any]:
    if isinstance(rows, list) and not isinstance(rows, Rows):
        return rows
    made = appendable(rows)
    if hasattr(made, "to_pylist"):
        return list(made.to_pylist())
    if hasattr(made, "to_dicts"):
        return list(made.to_dicts())
    raise Invalid(f"topic {topic!r}: rows to be mixed are a list of dicts, an Arrow or a Polars table, not {rows!r}")


def _extent(flow: Flow, inputs: Mapping[str, Any]) -> tuple[float, float]:
    """Smallest and largest event time of all input."""
    found = []
    for node in flow.nodes:
        if isinstance(node, Source) and node.event_time != "_received" and node.topic in inputs:
            rows = _listed(node.topic, inputs[node.topic])
            found += [to_micros(row[node.event_time]) for row in rows if row.get(node.event_time)]
    return (min(found), max(found)) if found else (0.0, 1.0)
