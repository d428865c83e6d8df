"""Keys go where Kafka's default partitioner sends them, whether one by one or a column at a time."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from riverrun.log.partitioner import murmur2, murmur2_column, partition_keys, partition_of


# From the tests of Kafka's own Utils.murmur2.
@pytest.mark.parametrize(
    ("key", "signed"),
    [
        (b"21", -973932308),
        (b"foobar", -790332482),
        (b"a-little-bit-long-string", -985981536),
        (b"a-little-bit-longer-string", -1486304829),
        (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
        (b"abc", 479470107),
    ],
)
def test_murmur2_is_that_of_kafka(key, signed):
    assert murmur2(key) == signed & 0xFFFFFFFF


@settings(max_examples=150, deadline=None)
@given(st.lists(st.text(max_size=20), max_size=60), st.data())
def test_a_column_is_hashed_as_its_keys_are_also_when_it_is_a_slice(keys, data):
    begin = data.draw(st.integers(0, len(keys)))
    end = data.draw(st.integers(begin, len(keys)))
    column = pa.array(keys, pa.string()).slice(begin, end - begin)
    assert murmur2_column(column).tolist() == [murmur2(key.encode()) for key in keys[begin:end]]


@pytest.mark.parametrize("rows", [1, 39, 40, 500])
@pytest.mark.parametrize("partitions", [1, 3, 1024])
def test_partitions_are_the_same_for_few_and_many_keys(rows, partitions):
    keys = [f"user-{i}" for i in range(rows)]
    found = partition_keys(pa.array(keys), partitions).tolist()
    assert found == [partition_of(key.encode(), partitions) for key in keys]
