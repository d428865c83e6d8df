"""How wrong the clocks of devices are: `s.clock(…, by=…)` corrects by it, and the status shows the worst."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import polars as pl
import pyarrow as pa

from riverrun.columns import RECEIVED
from riverrun.runtime.compile.job import Correction

SHOWN = 20  # devices


def clock_offsets(clock: Correction, rows: pa.Table) -> dict[str, int]:
    """Of the devices that are furthest off: received − sent of the last row, in microseconds."""
    frame = pl.from_arrow(rows.select([*clock.by, clock.sent, RECEIVED]))
    assert isinstance(frame, pl.DataFrame)
    names = [pl.col(name).cast(pl.String).fill_null("") for name in clock.by]
    offset = pl.col(RECEIVED).to_physical() - pl.col(clock.sent).to_physical()
    offsets = frame.select(pl.concat_str(names, separator=", ").alias("device"), offset.alias("offset"))
    last = offsets.drop_nulls("offset").group_by("device", maintain_order=True).last()
    return furthest_off(dict(last.iter_rows()))


def furthest_off(offsets: Mapping[str, int]) -> dict[str, int]:
    """The devices with the largest offsets, the worst first."""
    order = np.argsort([-abs(offset) for offset in offsets.values()], kind="stable")[:SHOWN]
    devices = list(offsets)
    return {devices[i]: offsets[devices[i]] for i in order}
