"""What a run refuses before it starts."""

from __future__ import annotations

import time

import pytest

from oracles.checkpoints import write
from riverrun.errors import Conflict, OutOfRange
from riverrun.river import River
from riverrun.runtime.admission import refuse_drained, resumable
from riverrun.runtime.checkpoint import Checkpoint
from riverrun.runtime.manifest import Manifest
from riverrun.views import Epoch


@pytest.fixture
def river(tmp_path):
    with River(tmp_path / "river") as river:
        river.topic("t", "n bigint", partitions=1, fsync="os", retention="100 ms")
        yield river


def commit(river: River, epoch: int, final: bool = False) -> None:
    """Epochs up to this one, ten rows each."""
    fence = river.store.take_fence("shop")
    for number in range(1, epoch + 1):
        manifest = Manifest(number, 2, {}, {}, final and number == epoch).encode()
        river.store.commit(Epoch("shop", fence, number, {"t": {0: number * 10}}, manifest=manifest))


def rows(river: River, count: int) -> None:
    river.topic("t").append([{"n": n} for n in range(count)])


def asked(river: River, checkpoint: Checkpoint, *topics: str) -> Manifest | None:
    return resumable("shop", river.store, checkpoint, {name: river.topic(name) for name in topics or ("t",)})


def test_a_flow_that_never_ran_and_one_that_did(river, tmp_path):
    assert asked(river, Checkpoint(f"{tmp_path}/home", "shop")) is None
    rows(river, 30)
    commit(river, 2)
    known = asked(river, write(tmp_path / "home", 2, 2))
    assert known is not None
    assert known.epoch == 2


def test_a_position_behind_retention(river, tmp_path):
    rows(river, 30)
    commit(river, 2)
    time.sleep(0.15)
    river.topic("t").enforce_retention()
    with pytest.raises(OutOfRange, match="offset 20 is no longer kept, only 30 to 30"):
        asked(river, write(tmp_path / "home", 2, 2))


def test_a_position_beyond_the_end(river, tmp_path):
    rows(river, 15)
    commit(river, 2)
    with pytest.raises(OutOfRange, match="offset 20 is beyond the end, which is 15"):
        asked(river, write(tmp_path / "home", 2, 2))


def test_a_drained_flow_is_only_refused_when_there_is_more(river, tmp_path):
    rows(river, 20)
    commit(river, 2, final=True)
    checkpoint = write(tmp_path / "home", 2, 2)
    known = asked(river, checkpoint)
    assert known is not None
    assert known.final
    rows(river, 1)
    with pytest.raises(Conflict, match="flow shop was drained: its input was declared finished, and t has new rows"):
        asked(river, checkpoint)
    with pytest.raises(Conflict, match="was drained"):
        refuse_drained("shop", river.store.last("shop"), {"t": river.topic("t")})


def test_a_run_that_is_faster_than_the_look_at_it(river, tmp_path, monkeypatch):
    """The checkpoint of a flow that runs is read while the store moves on: that alone is no conflict."""
    rows(river, 50)
    commit(river, 2)
    checkpoint = write(tmp_path / "home", 5, 4)
    looks = []
    last = river.store.last

    def moving(flow: str):
        looks.append(flow)
        if len(looks) == 2:
            commit(river, 4)
        return last(flow)

    monkeypatch.setattr(river.store, "last", moving)
    known = asked(river, checkpoint)
    assert known is not None
    assert known.epoch == 4
