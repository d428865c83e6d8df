"""What the sum of a kernel's changes must be: the same by one batch over all rows, as Polars computes it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import polars as pl

from bench.kernels.rows import FIRST, SPAN, watermark
from riverrun.columns import OFFSET, PARTITION, RECEIVED, TIME, WEIGHT
from riverrun.kernels.aggregates import Agg

Frames = Mapping[str, pl.DataFrame]
Expected = Callable[[Frames, int], pl.DataFrame]
"""(all rows of each input, number of epochs) → rows."""

_CARRIED = (TIME, PARTITION, OFFSET, RECEIVED)


def net(changes: Sequence[pl.DataFrame]) -> pl.DataFrame:
    """The rows that are left of all changes."""
    rows = pl.concat(changes).drop(_CARRIED, strict=False)
    columns = [name for name in rows.columns if name != WEIGHT]
    weight = pl.col(WEIGHT).cast(pl.Int64).sum()
    left = rows.group_by(columns).agg(weight).filter(pl.col(WEIGHT) != 0)
    return left.select(pl.all().repeat_by(WEIGHT).explode() if (left[WEIGHT] > 1).any() else pl.all()).drop(WEIGHT)


def group(aggs: Sequence[Agg]) -> Expected:
    return lambda frames, epochs: frames["in"].group_by("user").agg(_plain(aggs))


def _plain(aggs: Sequence[Agg]) -> list[pl.Expr]:
    """count and sum, which are what is compared."""
    return [
        (pl.len().cast(pl.Int64) if agg.fn == "count" else pl.col(agg.column or "").sum()).alias(agg.name)
        for agg in aggs
    ]


def distinct(frames: Frames, epochs: int) -> pl.DataFrame:
    counted = []
    for column in ("user", "item"):
        for where in (None, "cheap", "dear"):
            chosen = pl.col(column) if where is None else pl.col(column).filter(where)
            counted.append(chosen.n_unique().cast(pl.Int64).alias(f"{column}s_{where}"))
    return frames["in"].group_by("day").agg(counted)


def places(frames: Frames, epochs: int) -> pl.DataFrame:
    n, points = pl.len().cast(pl.Int64).alias("n"), pl.col("points")
    return _table(frames["in"]).group_by("place").agg(n, points.sum().alias("total"), points.max().alias("most"))


def _table(changes: pl.DataFrame) -> pl.DataFrame:
    """A table after all its changes."""
    return net([changes])


def windows(size: float, every: float, still_open: bool) -> Expected:
    """Counts by user and window, of those that have closed, or of all. Sizes are in epochs."""
    length, step = int(size * SPAN), int(every * SPAN)

    def counted(frames: Frames, epochs: int) -> pl.DataFrame:
        last = pl.col(TIME) // step * step
        parts = []
        for back in range(-(-length // step)):
            start = last - back * step
            parts.append(
                frames["in"].select("user", start.alias("start"), TIME).filter(pl.col(TIME) < pl.col("start") + length)
            )
        n = pl.len().cast(pl.Int64).alias("n")
        found = pl.concat(parts).group_by("user", "start").agg(n)
        if not still_open:
            found = found.filter(pl.col("start") + length <= watermark(epochs))
        stamp, start = pl.Datetime("us", "UTC"), pl.col("start")
        bounds = [start.cast(stamp).alias("window_start"), (start + length).cast(stamp).alias("window_end")]
        return found.select("user", *bounds, "n")

    return counted


def sessions(frames: Frames, epochs: int) -> pl.DataFrame:
    gap, stamp = SPAN // 2, pl.Datetime("us", "UTC")
    begins = (pl.col(TIME) - pl.col(TIME).shift(1)).over("user").fill_null(gap) >= gap
    numbered = frames["in"].sort("user", TIME).with_columns(begins.cum_sum().alias("session"))
    n, total = pl.len().cast(pl.Int64).alias("n"), pl.col("amount").sum().alias("total")
    found = numbered.group_by("user", "session").agg(
        pl.col(TIME).min().cast(stamp).alias("window_start"),
        (pl.col(TIME).max() + gap).cast(stamp).alias("window_end"),
        n,
        total,
    )
    return found.filter(pl.col("window_end").cast(pl.Int64) <= watermark(epochs)).drop("session")


def latest(frames: Frames, epochs: int) -> pl.DataFrame:
    rows = frames["in"].sort(TIME, PARTITION, OFFSET, maintain_order=True)
    return rows.unique(["user", "item"], keep="last").select("user", "item", "price", "note")


def table(frames: Frames, epochs: int) -> pl.DataFrame:
    last = frames["in"].unique("user", keep="last", maintain_order=True).filter(~pl.col("_deleted"))
    return last.select("user", "place", "points", "note")


def lookup(frames: Frames, epochs: int) -> pl.DataFrame:
    """Each row once, beside the version of its epoch or the last one before."""
    epoch = ((pl.col(RECEIVED).cast(pl.Int64) - FIRST) // SPAN).alias("epoch")
    versions = frames["right"].filter(pl.col(WEIGHT) > 0).with_columns(epoch).sort("epoch")
    rows = frames["left"].with_columns(epoch).sort("epoch", maintain_order=True)
    found = rows.join_asof(versions, on="epoch", by="user", suffix="_right", check_sortedness=False)
    return found.select("user", "price", *(pl.col(name).alias(f"{name}_right") for name in ("place", "points", "note")))


def joined_streams(frames: Frames, epochs: int) -> pl.DataFrame:
    apart = pl.col(f"{TIME}_right") - pl.col(TIME)
    pairs = frames["left"].join(frames["right"], on="user").filter(apart.is_between(0, SPAN))
    return pairs.select("user", "price", "note", "price_right", "note_right")


def joined_tables(frames: Frames, epochs: int) -> pl.DataFrame:
    left, right = _table(frames["left"]), _table(frames["right"])
    return left.join(right, on="place", suffix="_right").select(
        "place", "user", "points", "note", "user_right", "points_right", "note_right"
    )


def top_points(frames: Frames, epochs: int) -> pl.DataFrame:
    ranked = _table(frames["in"]).sort("points", "user", descending=[True, False])
    return ranked.group_by("place", maintain_order=True).head(5).select("user", "place", "points", "note")


def top_prices(frames: Frames, epochs: int) -> pl.DataFrame:
    ranked = frames["in"].sort("price", OFFSET, descending=[True, False])
    rank = pl.int_range(1, pl.len() + 1, dtype=pl.Int32).over("item").alias("rank")
    return ranked.with_columns(rank).filter(pl.col("rank") <= 10).select("user", "item", "price", "note", "rank")
