"""Parquet files, a row group after the other."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from typing import BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq

from riverrun.errors import Invalid
from riverrun.intake.chunk import Chunk


def parquet(fd: int, size: int) -> Iterator[Chunk]:
    """Chunks of at most `size` rows. A pipe is first copied to a file: Parquet is read from its end."""
    with tempfile.TemporaryFile() as copy, open(fd, "rb", closefd=False) as given:
        if not given.seekable():
            shutil.copyfileobj(given, copy)
            copy.seek(0)
        source: BinaryIO = given if given.seekable() else copy
        total = os.fstat(source.fileno()).st_size
        try:
            file = pq.ParquetFile(source)
            done, count = 0, file.metadata.num_rows
            for batch in file.iter_batches(size):
                done += batch.num_rows
                yield ParquetChunk(batch, done, total * done // max(count, 1))
        except pa.ArrowException as error:
            raise Invalid(f"not a Parquet file that can be read: {error}") from None


class ParquetChunk(Chunk):
    """One record batch."""

    def __init__(self, batch: pa.RecordBatch, behind: int, read: int) -> None:
        self._batch = batch
        self.size = batch.num_rows
        self.behind = behind
        self.bytes = read

    def place(self, record: int) -> str:
        return f"row {self.behind - self.size + record + 1}"

    def rows(self, low: int, high: int) -> pa.RecordBatch:
        return self._batch.slice(low, high - low)
