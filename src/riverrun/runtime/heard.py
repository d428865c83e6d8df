"""Which producers were heard in an epoch, and what time they said it was: from frame headers where these say enough.

Where a log has no headers (Kafka), tasks tell it of the rows they have read, for the epoch after this one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import polars as pl
import pyarrow as pa

from riverrun.columns import DELETED, PARTITION, RECEIVED, TIME
from riverrun.envelopes.reading import read_changes
from riverrun.kernels.watermark import HEARD
from riverrun.log.frame import NO_TIME
from riverrun.log.stored_spec import StoredSpec
from riverrun.log.topic import Topic
from riverrun.log.topic_backend import PromiseMade, Summary
from riverrun.runtime.compile.job import Correction, Reading
from riverrun.runtime.enveloped import JSON, moments_in
from riverrun.runtime.quarantine import is_ahead


class Hearing:
    """What one source hears in an epoch: frames of its topic, as far as they lie between two positions."""

    def __init__(
        self,
        reading: Reading,
        topic: Topic,
        frames: Iterable[Summary],
        start: Mapping[int, int],
        end: Mapping[int, int],
    ) -> None:
        self._reading = reading
        self._topic = topic
        self._frames = list(frames)
        self._start = start
        self._end = end

    def producers(self) -> pl.DataFrame:
        """Producers with the largest event times they gave, and when; in the columns of HEARD."""
        reading, spec = self._reading, self._topic.spec
        inside = reading.envelope is not None and reading.time is not None  # then no header knows what time it is
        from_headers = reading.time in (None, TIME, spec.time) and reading.producers in (None, spec.producers)
        from_headers = from_headers and not inside
        lines: list[tuple[str, int, int]] = []
        read: list[pl.DataFrame] = []
        for frame in self._frames:
            skewed = reading.max_skew is not None and frame.max_time > frame.first_received + reading.max_skew
            if frame.rows and (not from_headers or not self._is_whole(frame) or (skewed and reading.time is not None)):
                read.append(self._opened(frame) if inside else self._read(frame))
            elif frame.rows and reading.producers is None:
                moment = frame.received if reading.time is None else frame.max_time
                lines.append((str(frame.partition), moment, frame.received))
            elif frame.rows or (reading.producers == spec.producers and reading.time is not None):
                for producer, moment in frame.maxima.items():
                    said = frame.received if reading.time is None or moment == NO_TIME else moment
                    if frame.rows or not _is_ahead(said, frame.received, reading.max_skew):
                        lines.append((producer, said, frame.received))
        return pl.concat([pl.DataFrame(lines, schema=HEARD, orient="row"), *read])

    def corrected(self, clock: Correction) -> pl.DataFrame:
        """The same by a corrected clock. Corrected times are in no header: the columns they follow from are read."""
        heard = [pl.DataFrame(schema=HEARD)]
        for frame in self._frames:
            if frame.rows:
                rows = self._rows(frame, [clock.occurred, clock.sent])
                heard.append(self._by_producer(rows.with_columns(_corrected(clock).alias("time"))))
        return pl.concat(heard)

    def _is_whole(self, frame: Summary) -> bool:
        p = frame.partition
        return frame.offset >= self._start[p] and frame.offset + frame.span <= self._end[p]

    def _read(self, frame: Summary) -> pl.DataFrame:
        """What the rows themselves say, where headers do not say enough."""
        own = self._topic.spec.time
        time = own if self._reading.time == TIME and isinstance(own, str) else self._reading.time or RECEIVED
        rows = self._rows(frame, [time])
        return self._by_producer(rows.with_columns(pl.col(time).to_physical().alias("time")))

    def _opened(self, frame: Summary) -> pl.DataFrame:
        """What messages say. Of those about a deletion some have no time but that of the log, which says nothing here."""
        envelope, time = self._reading.envelope, self._reading.time
        assert envelope is not None and time is not None
        low, high = self._between(frame)
        messages = self._topic.read_offsets(low, high, [JSON, RECEIVED])
        found = read_changes(envelope.narrowed((time,)), messages.column(JSON))
        rows = pl.from_arrow(moments_in(found, time, messages.column(RECEIVED)))
        assert isinstance(rows, pl.DataFrame)
        return self._by_producer(rows.with_columns(pl.lit(str(frame.partition)).alias("producer")))

    def _between(self, frame: Summary) -> tuple[dict[int, int], dict[int, int]]:
        """The offsets of a frame that are heard."""
        p = frame.partition
        return {p: max(frame.offset, self._start[p])}, {p: min(frame.offset + frame.span, self._end[p])}

    def _rows(self, frame: Summary, columns: list[str]) -> pl.DataFrame:
        p, producers = frame.partition, self._reading.producers
        low, high = self._between(frame)
        wanted = list(dict.fromkeys([*columns, *([producers] if producers else []), RECEIVED, DELETED]))
        rows = pl.from_arrow(self._topic.read_offsets(low, high, wanted))
        assert isinstance(rows, pl.DataFrame)
        producer = pl.col(producers).cast(pl.String).fill_null("") if producers else pl.lit(str(p))
        # Tombstones have the topic's own time where no column holds it, and headers count it.
        timed = pl.lit(TIME in columns)
        return rows.filter(timed | ~pl.col(DELETED)).with_columns(
            producer.alias("producer"), pl.col(RECEIVED).to_physical().alias("received")
        )

    def _by_producer(self, rows: pl.DataFrame) -> pl.DataFrame:
        return _by_producer(rows, self._reading.max_skew)


def heard_of(reading: Reading, spec: StoredSpec, rows: pa.Table) -> dict[str, pl.DataFrame]:
    """What rows say that a source has let in, for each of its watermarks: where no header tells it before they are read."""
    own = spec.time
    time = own if reading.time == TIME and isinstance(own, str) else reading.time or RECEIVED
    kept = ~pl.col(DELETED) if reading.envelope is not None or time != TIME else pl.lit(True)
    names = [*dict.fromkeys([time, RECEIVED, DELETED, PARTITION, *_asked(reading)])]
    frame = pl.from_arrow(rows.select(names))
    assert isinstance(frame, pl.DataFrame)
    producer = pl.col(reading.producers or PARTITION).cast(pl.String).fill_null("")
    frame = frame.filter(kept).with_columns(
        producer.alias("producer"), pl.col(RECEIVED).to_physical().alias("received")
    )
    said = {reading.id: pl.col(time).to_physical()}
    for clock in reading.clocks:
        said[clock.id] = _corrected(clock)
    return {node: _by_producer(frame.with_columns(it.alias("time")), reading.max_skew) for node, it in said.items()}


def heard_in_promises(reading: Reading, spec: StoredSpec, promises: Iterable[PromiseMade]) -> pl.DataFrame:
    """The same of promises."""
    lines: list[tuple[str, int, int]] = []
    if reading.producers == spec.producers and reading.time is not None:
        for promise in promises:
            for producer, moment in promise.maxima.items():
                if not _is_ahead(moment, promise.received, reading.max_skew):
                    lines.append((producer, moment, promise.received))
    return pl.DataFrame(lines, schema=HEARD, orient="row")


def columns_heard(reading: Reading) -> list[str]:
    """The columns that `heard_of` looks at."""
    return [RECEIVED, DELETED, PARTITION, TIME, *([reading.time] if reading.time else []), *_asked(reading)]


def _asked(reading: Reading) -> list[str]:
    clocks = [name for clock in reading.clocks for name in (clock.occurred, clock.sent)]
    return [*([reading.producers] if reading.producers else []), *clocks]


def _corrected(clock: Correction) -> pl.Expr:
    """The time of a row by the clock of the log."""
    occurred, sent, received = (pl.col(name).to_physical() for name in (clock.occurred, clock.sent, RECEIVED))
    return pl.coalesce(occurred + (received - sent), occurred, received)


def _by_producer(rows: pl.DataFrame, max_skew: int | None) -> pl.DataFrame:
    rows = rows.filter(pl.col("time").is_not_null())
    skewed = is_ahead(rows["time"].to_numpy(), rows["received"].to_numpy(), max_skew)
    return (
        rows.filter(~pl.Series(skewed))
        .group_by("producer", "received")
        .agg(pl.col("time").max())
        .select("producer", pl.col("time").cast(pl.Int64), pl.col("received").cast(pl.Int64))
        .sort("received", "producer")
    )


def _is_ahead(moment: int, received: int, max_skew: int | None) -> bool:
    """Whether a promise is about a time that no row of it would be taken in for."""
    return max_skew is not None and moment > received + max_skew
