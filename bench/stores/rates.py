"""Changed rows into each derived store, beside the plain client of that system with the same encoding.

An epoch replaces rows that are there. What is compared is what Riverrun adds: settling, the marker, the fence. Redis is left
out where its server is not installed.
"""

from __future__ import annotations

import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa

from bench.effort import Effort
from bench.figure import Figure, Stopwatch, Took, alternate, check, rates
from riverrun.store_address import StoreAddress
from riverrun.views import ViewSpec, settle
from riverrun.views.derived.marker import DerivedEpoch
from riverrun.views.derived.store import DerivedStore, open_derived
from riverrun.views.settled import Settled

SCHEMA = "k string, n bigint, x double, title string"
SPEC = ViewSpec("hot", "shop", SCHEMA, ("k",))
REDIS, SEARCH, APPEND, MERGE = 30_000.0, 20_000.0, 500_000.0, 2.0
_WORDS = np.array([f"word{number}" for number in range(20_000)])


def run(directory: str, effort: Effort) -> Iterator[Figure]:
    with tempfile.TemporaryDirectory(dir=directory) as place:
        if shutil.which("redis-server"):
            with _redis(place) as url:
                yield _redis_rows(url, effort)
        yield _search_rows(place, effort)
        yield _delta_append(place, effort)
        yield _delta_merge(place, effort)


def rows(count: int, seed: int, first: int = 0) -> pa.Table:
    """So many rows of other values under the keys from `first` on."""
    random = np.random.default_rng(seed)
    words = random.choice(_WORDS, (count, 12))
    return pa.table(
        {
            "k": [f"user{number:07d}" for number in range(first, first + count)],
            "n": random.integers(0, 1000, count),
            "x": random.random(count),
            "title": [" ".join(some) for some in words.tolist()],
        }
    )


def replaced(count: int, seed: int) -> pa.Table:
    """The same rows taken back and replaced, as a table of a flow changes."""
    before, after = rows(count, seed), rows(count, seed + 1)
    weight = [pa.array(np.full(count, sign), pa.int8()) for sign in (-1, 1)]
    parts = [part.append_column("_weight", sign) for part, sign in zip((before, after), weight, strict=True)]
    return pa.concat_tables(parts)


class Filling:
    """Epoch after epoch into one store."""

    def __init__(self, address: str, directory: str, spec: ViewSpec = SPEC) -> None:
        self.store: DerivedStore = open_derived(StoreAddress.parse(address), directory)
        self.spec = spec
        self.store.declare(spec)
        self.store.raise_fence("shop", 1)
        self._sequence = 0

    def take(self, changes: Settled) -> Took:
        self._sequence += 1
        at = {"orders": {0: self._sequence}}
        names = {self.spec.name: self.spec}
        given = {"specs": names, "changes": {self.spec.name: [changes]}, "whole": frozenset(names)}
        epoch = DerivedEpoch("shop", 1, "shop", self._sequence, at, **given)
        watch = Stopwatch()
        check(True, self.store.commit(epoch), "the epoch was written")
        return watch.read()


def inserted(table: pa.Table, spec: ViewSpec = SPEC) -> Settled:
    weight = pa.array(np.ones(table.num_rows, np.int8))
    return settle(spec, table.append_column("_weight", weight))


def _redis_rows(url: str, effort: Effort) -> Figure:
    import redis

    count = effort.store_rows
    filling = Filling(url, "")
    filling.take(inserted(rows(count, 1)))
    changes = settle(SPEC, replaced(count, 1))
    client = redis.Redis.from_url(url)
    texts = [[str(value) for value in column.to_pylist()] for column in rows(count, 3).columns]

    def plain() -> Took:
        watch = Stopwatch()
        for start in range(0, count, 10_000):
            pipeline = client.pipeline(transaction=True)
            for k, n, x, title in zip(*(column[start : start + 10_000] for column in texts), strict=True):
                pipeline.delete(f"plain:{k}")
                pipeline.hset(f"plain:{k}", mapping={"k": k, "n": n, "x": x, "title": title})
            pipeline.execute()
        return watch.read()

    times = alternate(lambda: filling.take(changes), plain, effort.rounds)
    check(count, filling.store.count(SPEC), "rows in Redis")
    return rates("stores", f"Redis: {count} rows replaced", count, times, reference="MULTI", target=REDIS)


def _search_rows(directory: str, effort: Effort) -> Figure:
    import tantivy

    count = effort.store_rows
    filling = Filling(f"search:{directory}/words", directory)
    filling.take(inserted(rows(count, 1)))
    changes = settle(SPEC, replaced(count, 1))
    builder = tantivy.SchemaBuilder()
    builder.add_text_field("k", tokenizer_name="raw", index_option="basic")
    builder.add_text_field("title", tokenizer_name="whitespace", index_option="position")
    builder.add_integer_field("n", fast=True)
    builder.add_float_field("x", fast=True)
    builder.add_bytes_field("row", stored=True, indexed=False)
    place = tempfile.mkdtemp(dir=directory)
    index = tantivy.Index(builder.build(), path=place)
    index.register_tokenizer("whitespace", tantivy.TextAnalyzerBuilder(tantivy.Tokenizer.whitespace()).build())
    listed = list(zip(*(column.to_pylist() for column in rows(count, 3).columns), strict=True))

    def plain() -> Took:
        watch = Stopwatch()
        writer = index.writer(128_000_000, 2)
        for row in listed:
            writer.delete_documents_by_term("k", row[0])
            document = tantivy.Document()
            document.add_text("k", row[0])
            document.add_integer("n", row[1])
            document.add_float("x", row[2])
            document.add_text("title", row[3])
            document.add_bytes("row", msgspec.msgpack.encode(row))
            writer.add_document(document)
        writer.commit()
        writer.wait_merging_threads()
        return watch.read()

    times = alternate(lambda: filling.take(changes), plain, effort.rounds)
    check(count, filling.store.count(SPEC), "documents")
    return rates("stores", f"search: {count} documents replaced", count, times, reference="tantivy", target=SEARCH)


def _delta_append(directory: str, effort: Effort) -> Figure:
    from deltalake import write_deltalake

    count = effort.lake_rows // 2
    filling = Filling(f"delta:{directory}/appended", directory)
    table = rows(count, 1)
    changes = inserted(table)  # under the same keys again and again: appended rows are not compared
    times = alternate(
        lambda: filling.take(changes),
        lambda: _timed(lambda: write_deltalake(f"{directory}/plain", table, mode="append")),
        effort.rounds,
    )
    check(count * (effort.rounds + 1), filling.store.count(SPEC), "rows in the table")
    return rates("stores", f"Delta: {count} rows appended", count, times, reference="deltalake", target=APPEND)


def _delta_merge(directory: str, effort: Effort) -> Figure:
    from deltalake import DeltaTable, write_deltalake

    size, changed = effort.lake_rows, effort.lake_rows // 100
    table = rows(size, 1)
    filling = Filling(f"delta:{directory}/merged", directory)
    filling.take(inserted(table))
    write_deltalake(f"{directory}/plain-merged", table)
    changes = settle(SPEC, replaced(changed, 1))
    source = rows(changed, 5)

    def plain() -> None:
        merging = DeltaTable(f"{directory}/plain-merged").merge(source, "t.k = s.k", source_alias="s", target_alias="t")
        merging.when_matched_update_all().when_not_matched_insert_all().execute()

    mine, other = alternate(lambda: filling.take(changes), lambda: _timed(plain), effort.rounds)
    check(size, filling.store.count(SPEC), "rows in the table")
    times = [took.seconds for took in mine]
    value = sorted(times)[len(times) // 2]
    reference = sorted(took.seconds for took in other)[len(other) // 2]
    case = f"Delta: {changed} changes merged into {size} rows"
    spread = (max(times) - min(times)) / 2 / value
    return Figure(
        *("stores", case, "s", value, spread),
        reference="deltalake",
        reference_value=reference,
        ratio=value / reference,
        target=MERGE,
        less_is_better=True,
    )


def _timed(act: Callable[[], Any]) -> Took:
    watch = Stopwatch()
    act()
    return watch.read()


@contextmanager
def _redis(directory: str) -> Iterator[str]:
    """A server of its own, without persistence."""
    import redis

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = ["redis-server", "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--dir", directory]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as server:
        try:
            for _ in range(500):
                try:
                    redis.Redis(port=port).ping()
                    break
                except redis.ConnectionError:
                    time.sleep(0.02)
            yield f"redis://127.0.0.1:{port}/0"
        finally:
            server.terminate()
