"""Errors on their way to the driver: as what they are."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from riverrun.errors import Busy, DiskFull, Fenced, Invalid, RecordTooLarge
from riverrun.expressions import Unverified
from riverrun.runtime.epoch import unpack_result
from riverrun.runtime.exchange import InlineExchange
from riverrun.runtime.transit import leave_error, pick_up_error, report_errors


def failing(error: Exception) -> Iterator[pa.RecordBatch]:
    raise error
    yield


@pytest.mark.parametrize(
    ("raised", "arrives"),
    [
        (Fenced("run 2 has taken over", hint="Stop this one"), Fenced),
        (RecordTooLarge("2 MiB"), RecordTooLarge),
        (Busy("process 7 holds the lock"), Busy),
        (Unverified("odd(x)"), Invalid),  # its class is not among those everybody knows
        (OSError(errno.ENOSPC, "No space left on device"), DiskFull),
    ],
)
def test_what_a_task_raises_is_raised_at_the_driver(raised: Exception, arrives: type[Exception]) -> None:
    batches = list(report_errors(failing(raised), shards=2))
    assert pa.Table.from_batches(batches).column("shard").to_pylist() == [0, 1]
    with pytest.raises(arrives) as caught:
        unpack_result(batches, InlineExchange())
    if isinstance(raised, arrives):
        assert str(caught.value) == str(raised)


def test_what_others_raise_is_left_to_spark() -> None:
    with pytest.raises(ZeroDivisionError):
        list(report_errors(failing(ZeroDivisionError("division by zero")), shards=1))


def test_the_planner_leaves_it_in_a_file(tmp_path: Path) -> None:
    place = str(tmp_path / "error")
    for error in (ValueError("odd"), Fenced("run 2 has taken over", hint="Stop this one")):
        with pytest.raises(type(error)), leave_error(place):
            raise error
    picked_up = pick_up_error(place)
    assert isinstance(picked_up, Fenced)
    assert picked_up.hint == "Stop this one"
    assert pick_up_error(place) is None
    (tmp_path / "error").write_bytes(b"nonsense")
    assert pick_up_error(place) is None
