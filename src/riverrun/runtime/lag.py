"""How far a flow is behind: rows of its topics that no epoch has taken yet, and how long the oldest of them has waited."""

from __future__ import annotations

from collections.abc import Mapping

from riverrun.durations import wall_clock
from riverrun.log.topic import Topic
from riverrun.runtime.status import Lag


def measure_lag(topics: Mapping[str, Topic], positions: Mapping[str, Mapping[int, int]]) -> Lag:
    """Of a flow that has read its topics up to these positions. Reads no rows: at most one header a partition."""
    rows: dict[str, int] = {}
    oldest = now = wall_clock()
    for name, topic in topics.items():
        read, begins = positions.get(name, {}), topic.begins()
        rows[name] = 0
        for partition, end in topic.ends().items():
            low = max(read.get(partition, 0), begins[partition])
            if low < end:
                rows[name] += end - low
                oldest = min(oldest, topic.first_received(partition, low, end) or now)
    return Lag(sum(rows.values()), round((now - oldest) / 1e6, 3), rows)
