"""Rows for kernels, epoch by epoch: events, versions of a table's rows, and a table's changes. Same seed, same rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from riverrun.columns import OFFSET, PARTITION, RECEIVED, TIME, WEIGHT

Columns = Mapping[str, pl.DataType]
Numbers = npt.NDArray[np.int64]

FIRST = 1_700_000_040_000_000  # event time of the first epoch, a full minute
SPAN = 10_000_000  # event time of an epoch
DISORDER = 1_000_000  # how much older than the rows before it a row may be
STAMP = pl.Datetime("us", "UTC")
EVENT: Columns = {
    "user": pl.String(),
    "item": pl.Int64(),
    "price": pl.Int64(),
    "amount": pl.Float64(),
    "cheap": pl.Boolean(),
    "dear": pl.Boolean(),
    "day": pl.Date(),
    "note": pl.String(),
}
VERSION: Columns = {"user": pl.String(), "place": pl.Int64(), "points": pl.Int64(), "note": pl.String()}
_NOTE = 33


def watermark(epoch: int) -> int:
    """Where event time is when an epoch begins: nothing older comes."""
    return FIRST + epoch * SPAN - DISORDER


@dataclass
class EventRows:
    """Events of `keys` users, at a steady rate, and a little out of order."""

    rows: int
    keys: int
    seed: int = 1

    def epoch(self, number: int) -> pl.DataFrame:
        """The rows of one epoch, with everything a kernel may ask for."""
        chance = np.random.default_rng((self.seed, number))
        user = chance.integers(0, self.keys, self.rows)
        at = FIRST + number * SPAN + np.arange(self.rows) * SPAN // self.rows - chance.integers(0, DISORDER, self.rows)
        price = chance.integers(0, 10_000, self.rows)
        return pl.DataFrame(
            {
                "user": named(user),
                "item": chance.integers(0, max(self.keys // 5, 1), self.rows),
                "price": price,
                "amount": price / 8,
                "cheap": price < 1000,
                "dear": price > 9000,
                "day": pl.Series(at).cast(pl.Datetime("us")).cast(pl.Date),
                "note": _notes().gather(user % len(_notes())),
                **hidden(number, at, self.rows),
            }
        )


@dataclass
class VersionRows:
    """A table of `keys` rows of which `rows` get another version in every epoch; each value follows from both."""

    rows: int
    keys: int
    seed: int = 2
    _versions: Numbers = field(init=False)

    def __post_init__(self) -> None:
        self._versions = np.zeros(self.keys, np.int64)

    def changes(self, number: int) -> pl.DataFrame:
        """The old rows, taken back, and the new ones. Epochs are asked for one after the other."""
        key = self._chosen(number)
        before = self._versions[key]
        self._versions[key] += 1
        known = before > 0
        old, new = self._rows(number, key[known], before[known], -1), self._rows(number, key, before + 1, 1)
        return pl.concat([old, new]).with_columns(pl.int_range(pl.len(), dtype=pl.Int64).alias(OFFSET))

    def changelog(self, number: int) -> pl.DataFrame:
        """Versions as a topic has them; one in twenty is a deletion."""
        key = self._chosen(number)
        self._versions[key] += 1
        deleted = pl.Series("_deleted", np.random.default_rng((self.seed, number, 1)).random(len(key)) < 0.05)
        return self._rows(number, key, self._versions[key], 1).with_columns(deleted)

    def _chosen(self, number: int) -> Numbers:
        return np.unique(np.random.default_rng((self.seed, number)).integers(0, self.keys, self.rows))

    def _rows(self, number: int, key: Numbers, version: Numbers, weight: int) -> pl.DataFrame:
        written = number if weight > 0 else 0
        at = FIRST + written * SPAN + key % SPAN
        return pl.DataFrame(
            {
                "user": named(key),
                "place": (key * 7) % max(self.keys // 5, 1),
                "points": (key * 7919 + version * 104_729) % 1_000_003,
                "note": _notes().gather((key + version) % len(_notes())),
                **hidden(number, at, len(key), weight),
            }
        ).with_columns(pl.lit(FIRST, pl.Int64).alias(TIME))


def named(user: Numbers) -> pl.Series:
    return pl.select(pl.format("user-{}", pl.Series(user).cast(pl.String).str.zfill(8))).to_series()


def hidden(epoch: int, at: Numbers, rows: int, weight: int = 1) -> dict[str, Any]:
    """What every row carries."""
    number = np.arange(rows)
    return {
        TIME: at,
        WEIGHT: np.full(rows, weight, np.int8),
        PARTITION: np.full(rows, 3, np.int32),
        OFFSET: epoch * rows + number,
        RECEIVED: pl.Series(np.full(rows, FIRST + epoch * SPAN)).cast(STAMP),
    }


def _notes() -> pl.Series:
    letters = "".join(chr(c) for c in np.random.default_rng(7).integers(97, 123, 2000))
    return pl.Series([letters[i : i + _NOTE] for i in range(1900)])
