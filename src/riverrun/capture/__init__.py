"""Databases as streams: the changes of tables as topics, exactly once, transactions whole.

Read `changes` first: what a source gives, and how one is written. Then, in the order of a change's way: `postgres/` and
`sqlite/` (sources), `captured` (one connection: what the past says, and the loop), `appending` (into topics, exactly
once), `expansion` (changes → rows), `versions` (old values), `snapshots` and `reconciling` (what tables had before,
beside the stream), `forms` and `debezium` (how rows look), `topics` (names), `capture` (the shell).
"""

from riverrun.capture.capture import Capture

__all__ = ["Capture"]
