"""How much work a run does. The same benchmarks run in minutes, in an hour, or in a test."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Effort:
    """Sizes of one run."""

    rounds: int
    seconds: float  # what a round should take
    round_bytes: int  # what a round may write
    every_case: bool  # the whole grid, or its corners
    read_rows: int
    sends: int
    history_bytes: int  # of the short history
    history_times: int  # so many times as long is the long one
    wakes: int
    idle_seconds: float
    keys: tuple[int, ...]  # of flows: few, the usual number, …, many
    epoch_rows: int
    flow_seconds: float
    nexmark_events: int
    queries: tuple[str, ...]  # of Nexmark
    streams: int  # clients that follow a topic
    small_steps: int  # of each kernel
    step_rows: int  # of a large step
    step_keys: int
    step_epochs: int
    searches: tuple[int, ...]  # stored queries
    search_epochs: int
    captured_rows: int  # of a database's table
    transaction_rows: int  # of one transaction that is captured
    store_rows: int  # that an epoch changes in a derived store
    lake_rows: int  # of a Delta table
    kafka_rows: int  # of one round into Kafka
    count_rows: int  # that a flow counts from Kafka, and on a cluster
    cluster_events: int  # of Nexmark, on a cluster


TABLES = ("q3", "q4", "q8", "q9", "q13", "q18", "q19", "q20", "q23")  # joins and maintained tables
OTHERS = ("q0", "q1", "q2", "q5", "q6", "q7", "q11", "q14", "q15", "q16", "q17", "q21", "q22")
FULL = Effort(
    rounds=5,
    seconds=0.15,
    round_bytes=128 << 20,
    every_case=True,
    read_rows=2_000_000,
    sends=100_000,
    history_bytes=10_000_000,
    history_times=100,
    wakes=500,
    idle_seconds=5.0,
    keys=(10_000, 200_000, 1_000_000, 10_000_000),
    epoch_rows=500_000,
    flow_seconds=30.0,
    nexmark_events=5_000_000,
    queries=(*TABLES, *OTHERS),
    streams=200,
    small_steps=60,
    step_rows=250_000,
    step_keys=200_000,
    step_epochs=8,
    searches=(1_000, 100_000, 228_000, 1_000_000),
    search_epochs=10,
    captured_rows=1_000_000,
    transaction_rows=2_000_000,
    store_rows=20_000,
    lake_rows=1_000_000,
    kafka_rows=200_000,
    count_rows=2_000_000,
    cluster_events=2_000_000,
)
QUICK = Effort(
    rounds=3,
    seconds=0.1,
    round_bytes=64 << 20,
    every_case=False,
    read_rows=500_000,
    sends=30_000,
    history_bytes=2_000_000,
    history_times=100,
    wakes=300,
    idle_seconds=2.0,
    keys=(10_000, 200_000, 1_000_000),
    epoch_rows=500_000,
    flow_seconds=10.0,
    nexmark_events=200_000,
    queries=TABLES,
    streams=100,
    small_steps=30,
    step_rows=100_000,
    step_keys=80_000,
    step_epochs=3,
    searches=(1_000, 228_000),
    search_epochs=5,
    captured_rows=200_000,
    transaction_rows=400_000,
    store_rows=20_000,
    lake_rows=1_000_000,
    kafka_rows=100_000,
    count_rows=1_000_000,
    cluster_events=1_000_000,
)
TINY = Effort(
    rounds=1,
    seconds=0.005,
    round_bytes=2 << 20,
    every_case=False,
    read_rows=20_000,
    sends=500,
    history_bytes=50_000,
    history_times=4,
    wakes=10,
    idle_seconds=0.2,
    keys=(100, 1000, 2000),
    epoch_rows=2500,
    flow_seconds=2.0,
    nexmark_events=5_000,
    queries=("q3", "q9"),
    streams=5,
    small_steps=2,
    step_rows=1000,
    step_keys=500,
    step_epochs=1,
    searches=(200, 2_000),
    search_epochs=1,
    captured_rows=2_000,
    transaction_rows=4_000,
    store_rows=300,
    lake_rows=3_000,
    kafka_rows=10_000,
    count_rows=20_000,
    cluster_events=10_000,
)
