"""Rows for a quarantine topic: which of their columns is the error, and what they had before."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import msgspec
import pyarrow as pa

from riverrun.runtime.quarantine import quarantine_message, with_error

READING: Any = SimpleNamespace(topic="orders", id="stream-1")


def sent(rows: pa.Table) -> list[dict[str, Any]]:
    topic, source, stream = msgspec.msgpack.decode(quarantine_message(READING, rows))
    assert (topic, source) == ("orders", "stream-1")
    return pa.ipc.open_stream(stream).read_all().to_pylist()


def test_the_error_is_found_by_its_name() -> None:
    rows = with_error(pa.table({"n": [1], "_partition": [0], "_offset": [7]}), pa.array(["too early"]))
    rows = rows.append_column("_received", pa.array(["behind it"]))
    (row,) = sent(rows)
    assert (row["n"], row["_error"], row["_position"]) == (1, "too early", "orders@0:7")


def test_of_rows_that_were_quarantined_before_the_new_error_counts() -> None:
    before = {"n": [1], "_error": ["old"], "_position": ["raw@0:1"], "_partition": [0], "_offset": [7]}
    (row,) = sent(with_error(pa.table(before), pa.array(["new"])))
    assert (row["_error"], row["_position"]) == ("new", "orders@0:7")
