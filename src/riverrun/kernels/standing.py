"""Where rows that a function made stand in the order of the rows it was given.

Nobody knows which row a function made which of. But in smaller epochs it is given fewer rows at once, and what it makes
must stand where it would stand then: with the row of its key that has its time, the second with the second; else with
the row that the next one made of its key stands with; else with the last row of its key.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl

from riverrun.columns import TIME
from riverrun.kernels.matching import Timeline
from riverrun.state.frames import Mask, filled, frame_of, null_unless, numbers, pick, series
from riverrun.state.keys import number_keys
from riverrun.state.order import Indexes

_KEY, _PLACE = "_key_number", "_place"


def standing(made: pl.DataFrame, said: Mask, given: pl.DataFrame, key: Sequence[str]) -> Indexes:
    """The place of the row in `given`, which are in order, that each of `made` stands with; -1 where its key has none.

    Only times that were `said` count.
    """
    if made.is_empty() or given.is_empty():
        return np.full(made.height, -1)
    (mine, theirs), count = number_keys(pick(made, key), pick(given, key))
    last = np.full(count, -1)
    last[theirs] = np.arange(given.height)  # of several, the last one is written last
    time = numbers(made.get_column(TIME))
    timeline = Timeline(theirs, numbers(given.get_column(TIME)))
    first, behind = timeline.places(mine, time, time + 1)
    found = said & (first < behind)
    nth = counted(frame_of([series(_KEY, mine), series(TIME, time), series(_PLACE, found)]))
    place = timeline.order[np.where(found, np.minimum(first + nth, behind - 1), 0)]
    places = frame_of([series(_KEY, mine), null_unless(series(_PLACE, place), found)])
    following = places.select(pl.col(_PLACE).backward_fill().over(_KEY)).to_series()
    return np.where(following.is_null(), last[mine], filled(following, -1))


def counted(values: pl.DataFrame) -> Indexes:
    """How many equal rows come before each."""
    nth = values.select(pl.int_range(pl.len(), dtype=pl.Int64).over(values.columns))
    return nth.to_series().to_numpy()
