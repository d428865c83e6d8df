"""Ways the same rows may arrive: in another order within the lateness, and cut into epochs in another way."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Any

from riverrun.durations import to_micros
from riverrun.flow import Flow
from riverrun.flow.operators.source import Source
from riverrun.flow.operators.table import TableSource
from riverrun.testing.script import Append, Crash, Process, Step

Row = dict[str, Any]
Inputs = Mapping[str, Sequence[Row]]
Arrival = list[tuple[str, Row]]


def in_order(inputs: Inputs) -> Arrival:
    """All rows one by one, topic after topic."""
    return [(topic, row) for topic, rows in inputs.items() for row in rows]


def shuffled(flow: Flow, inputs: Inputs, dice: random.Random) -> Arrival:
    """Rows out of order by no more than their topic's lateness, so that none is late; topics are mixed.

    A topic that is read as a table keeps its order, which says what is newest, and so does one without event time.
    """
    placed: list[tuple[float, int, str, Row]] = []
    for topic, rows in inputs.items():
        sources = [node for node in flow.nodes if isinstance(node, Source) and node.topic == topic]
        times = {node.event_time for node in sources}
        timed = len(times) == 1 and all(row.get(name) for name in times for row in rows)
        if not timed or any(isinstance(node, TableSource) for node in sources):
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


def _extent(flow: Flow, inputs: Inputs) -> tuple[float, float]:
    """Smallest and largest event time of all input."""
    found = []
    for node in flow.nodes:
        if isinstance(node, Source):
            rows = inputs.get(node.topic, ())
            found += [to_micros(row[node.event_time]) for row in rows if row.get(node.event_time)]
    return (min(found), max(found)) if found else (0.0, 1.0)
