"""The watermark of a stream: how far event time has come, when producers disagree, fall silent or run ahead.

Watermark = min over live producers of (largest event time seen from it) - lateness; it never goes back. A producer is
live from its first row or promise. With `idle`, it stops counting after that long without one, in receive time, and
counts again when it speaks. With no live producer the watermark stays.

The rule is applied at every receive time, not once per epoch: a backlog read in one epoch, or in a thousand, ends at
the watermark that a reader would have reached who had been there all the time.

>>> rows = pl.DataFrame({"producer": ["a", "b"], "time": [70, 50], "received": [1, 2]}, schema=HEARD)
>>> Watermarks(lateness=10).advance(rows.head(1), until=1).advance(rows.tail(1), until=2).watermark
60
>>> Watermarks(lateness=10).advance(rows, until=2).watermark
60
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa

from riverrun.errors import Invalid
from riverrun.kernels.kernel import MAX_TIME, MIN_TIME
from riverrun.state.order import running_maximum

HEARD = {"producer": pl.String(), "time": pl.Int64(), "received": pl.Int64()}
"""What an epoch brought: rows and promises. One line per producer and receive time is enough, its largest time."""

Said = list[tuple[str, int, int]]
"""Lines of HEARD as plain data."""

Times = npt.NDArray[np.int64]

_STRETCHES = 64


def thinned(heard: pl.DataFrame, idle: int | None) -> pl.DataFrame:
    """The same in few lines, by which no watermark comes further than by all: of what a producer said in a stretch of time,
    the smallest when it began to speak, and the largest when it last did. Who speaks in a stretch is not idle in it."""
    if heard.height <= _STRETCHES:
        return heard
    first, last = heard["received"].min(), heard["received"].max()
    assert isinstance(first, int) and isinstance(last, int)
    stretch = max(1, min((last - first) // _STRETCHES, idle or MAX_TIME))
    time, received = pl.col("time"), pl.col("received")
    said = heard.group_by("producer", ((received - first) // stretch).alias("stretch"), maintain_order=True).agg(
        time.min().alias("least"), time.max(), received.min().alias("begin"), received.max()
    )
    begun = said.select("producer", pl.col("least").alias("time"), pl.col("begin").alias("received"))
    return pl.concat([begun, said.select(list(HEARD))]).unique(maintain_order=True)


def combined(watermarks: Iterable[int]) -> int:
    """The watermark of an operator: the smallest of its inputs'."""
    return min(watermarks, default=MIN_TIME)


def delayed(watermark: int, delay: int) -> int:
    """The watermark a node passes on when its results may be `delay` older than its input. The ends stay the ends."""
    return watermark if watermark in (MIN_TIME, MAX_TIME) else max(watermark - delay, MIN_TIME)


@dataclass(frozen=True)
class Holder:
    """A live producer that nobody is behind of: the watermark waits for it."""

    producer: str | None
    time: int
    heard: int


@dataclass(frozen=True)
class Watermarks:
    """One stream's watermark and what it follows from. A value: `advance` gives the next one.

    `until` is the receive time up to which input and silence were taken into account. Kept producers are the live ones,
    and silent ones that are ahead of the watermark; so with `idle` the size follows the producers that speak. Without
    it, every producer that ever spoke counts and is kept.
    """

    lateness: int = 0
    idle: int | None = None
    watermark: int = MIN_TIME
    until: int = MIN_TIME
    producers: pl.DataFrame = field(default_factory=lambda: pl.DataFrame(schema=HEARD))

    def __post_init__(self) -> None:
        if self.idle is not None and self.idle <= 0:
            raise Invalid("idle must be longer than nothing", hint="Leave it out if producers never count as idle")

    def advance(self, heard: pl.DataFrame, until: int) -> Watermarks:
        """The value at receive time `until`, after all rows and promises received in (self.until, until].

        `heard` has the columns of HEARD, without quarantined rows. `until` is the epoch's cut; a wall-clock tick is a
        later `until`, allowed only when the log is read to its end. Receive times outside the interval (clocks of
        several brokers) are taken as its nearest end; an older `until` as the present one.
        """
        until = max(self.until, until)
        spans = self._spans(heard, until)
        reached = spans.highest(self.watermark + self.lateness)
        watermark = self.watermark if reached is None else min(reached - self.lateness, MAX_TIME)
        last = spans.is_last
        if self.idle is not None:
            last &= (spans.received + self.idle > until) | (spans.time - self.lateness > watermark)
        return replace(self, watermark=watermark, until=until, producers=spans.lines(last))

    def raised(self, time: int) -> Watermarks:
        """The same when it is known otherwise that nothing older than `time` will come."""
        return replace(self, watermark=max(self.watermark, time - self.lateness))

    def finished(self) -> Watermarks:
        """The end of the input: everything closes."""
        return replace(self, watermark=MAX_TIME)

    @property
    def live(self) -> pl.DataFrame:
        """The producers that count now, in the columns of HEARD."""
        return self.producers if self.idle is None else self.producers.filter(pl.Series(self._is_live))

    @property
    def _is_live(self) -> npt.NDArray[np.bool_]:
        assert self.idle is not None
        live: npt.NDArray[np.bool_] = self.producers["received"].to_numpy() + self.idle > self.until
        return live

    @property
    def deadline(self) -> int | None:
        """When silence alone moves the watermark, in receive time; None if it never does. Tick then, not before."""
        if self.idle is None:
            return None
        times, received = (self.producers[name].to_numpy()[self._is_live] for name in ("time", "received"))
        order = np.argsort(received, kind="stable")
        times, received = times[order], received[order]
        slowest_after = np.minimum.accumulate(times[::-1])[::-1]
        # Those heard at the same moment fall silent together.
        begins = np.append(True, received[1:] != received[:-1])[: len(order)]
        moments, slowest = received[begins], slowest_after[begins]
        moved = np.flatnonzero(slowest - self.lateness > self.watermark)
        if not len(moved) or moved[0] == 0:
            return None
        return int(moments[moved[0] - 1]) + self.idle

    @property
    def newest(self) -> int | None:
        """The largest time that is remembered of any producer."""
        times = self.producers["time"].to_numpy()
        return int(times.max()) if len(times) else None

    @property
    def furthest(self) -> int | None:
        """A time that no row was beyond, where only rows move the watermark: those of producers that are forgotten by now
        were not beyond it."""
        if self.watermark == MIN_TIME:
            return self.newest
        return max(self.watermark + self.lateness, MIN_TIME if self.newest is None else self.newest)

    def holders(self, limit: int = 5) -> list[Holder]:
        """Who holds the watermark back: the live producers furthest behind, the worst first."""
        worst = self.live.sort("time", "received", "producer").head(limit)
        return [Holder(producer, time, heard) for producer, time, heard in worst.rows()]

    def silence(self, longest: int) -> int | None:
        """Since when the one that holds the watermark back most is silent, if others went on for longer than `longest`
        without it; None if it is only slow."""
        worst = self.holders(1)
        if not worst:
            return None
        ahead = self.live.filter(pl.col("time") > worst[0].time).get_column("received").max()
        return worst[0].heard if isinstance(ahead, int) and ahead - worst[0].heard > longest else None

    def to_bytes(self) -> bytes:
        """The memory (not the settings): some 20 bytes and the name for each kept producer, before compression."""
        lines = [column.to_arrow() for column in self.producers]
        head = pa.array([None], lines[0].type), pa.array([self.watermark]), pa.array([self.until])
        batch = pa.record_batch([pa.concat_arrays(both) for both in zip(head, lines, strict=True)], names=list(HEARD))
        out = pa.BufferOutputStream()
        with pa.ipc.new_file(
            out, batch.schema, options=pa.ipc.IpcWriteOptions(compression="zstd", use_threads=False)
        ) as file:
            file.write_batch(batch)
        return bytes(out.getvalue())

    @classmethod
    def from_bytes(cls, data: bytes, lateness: int = 0, idle: int | None = None) -> Watermarks:
        """What `to_bytes` wrote, under settings that may have changed since: the watermark does not go back."""
        # Not Polars' own reader: it plans a scan, which takes longer than the few rows that most memories have.
        rows = pl.from_arrow(pa.ipc.open_file(pa.BufferReader(data)).read_all())
        assert isinstance(rows, pl.DataFrame)
        _, watermark, until = rows.row(0)
        return cls(lateness, idle, watermark, until, rows[1:])

    def _spans(self, heard: pl.DataFrame, until: int) -> _Spans:
        """Everything that each producer has said, with what it had said before.

        In NumPy, since most epochs hear few producers and Polars takes a tenth of a millisecond for each of its steps.
        """
        names = pa.chunked_array(
            [frame["producer"].to_arrow().cast(pa.large_string()) for frame in (self.producers, heard)]
        )
        encoded = names.combine_chunks().dictionary_encode(null_encoding="encode")
        producer = encoded.indices.to_numpy().astype(np.int64)
        before, news = (frame["time"].to_numpy() for frame in (self.producers, heard))
        time = np.concatenate([before, np.clip(news, MIN_TIME, MAX_TIME)])
        before, news = (frame["received"].to_numpy() for frame in (self.producers, heard))
        received = np.concatenate([before, np.clip(news, self.until, until)])
        order = np.lexsort((time, received, producer))
        producer, time, received = producer[order], time[order], received[order]
        # Of what a producer said at one moment the largest counts, which is the last here.
        counts = np.append((producer[1:] != producer[:-1]) | (received[1:] != received[:-1]), True)[: len(order)]
        producer, time, received = producer[counts], time[counts], received[counts]
        is_last = np.append(producer[1:] != producer[:-1], True)[: len(producer)]
        end = np.where(is_last, until + 1, np.roll(received, -1))
        if self.idle is not None:
            end = np.minimum(end, received + self.idle)
        return _Spans(
            names=encoded.dictionary,
            producer=producer,
            time=running_maximum(producer, time),
            received=received,
            start=np.maximum(received, self.until),
            end=np.minimum(end, until + 1),
            is_last=is_last,
        )


@dataclass(frozen=True)
class _Spans:
    """From when (`start`) to when (`end`) in receive time the largest time of a producer was `time`; ordered by both."""

    names: pa.Array
    producer: Times  # place in `names`
    time: Times
    received: Times
    start: Times
    end: Times
    is_last: npt.NDArray[np.bool_]  # the producer has said nothing after it

    def lines(self, mask: npt.NDArray[np.bool_]) -> pl.DataFrame:
        """Some of them, in the columns of HEARD."""
        names = pl.Series("producer", self.names.take(pa.array(self.producer[mask])), dtype=pl.String)
        return pl.DataFrame([names, pl.Series("time", self.time[mask]), pl.Series("received", self.received[mask])])

    def highest(self, above: int) -> int | None:
        """The highest value that the smallest live time had at any moment, if higher than `above`.

        A value is reached if at some moment somebody is live and nobody live is below it. Whoever reaches a value has
        reached all lower ones, so it is found by bisection, each try being one pass over the spans.
        """
        alive = self.start < self.end
        start, end, time = self.start[alive], self.end[alive], self.time[alive]
        # Silence raises the smallest time too, so the moments at which a span ends count as well.
        moments = np.union1d(start, end)
        first, behind = np.searchsorted(moments, start), np.searchsorted(moments, end)
        inhabited = _cover(first, behind, len(moments)) > 0
        values = np.unique(time[time > above])
        lo, hi = 0, len(values)
        while lo < hi:
            middle = (lo + hi) // 2
            below = time < values[middle]
            if np.any(inhabited & (_cover(first[below], behind[below], len(moments)) == 0)):
                lo = middle + 1
            else:
                hi = middle
        return int(values[lo - 1]) if lo else None


def _cover(first: npt.NDArray[np.intp], behind: npt.NDArray[np.intp], moments: int) -> npt.NDArray[np.intp]:
    """How many of the spans [first, behind) cover each moment."""
    opened = np.bincount(first, minlength=moments + 1)
    closed = np.bincount(behind, minlength=moments + 1)
    return np.cumsum(opened - closed)[:moments]
