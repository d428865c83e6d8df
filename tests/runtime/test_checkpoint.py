"""Spark's checkpoint, read from outside: what fits the store, what is damaged."""

from __future__ import annotations

import pytest

from oracles.checkpoints import write
from riverrun.errors import Conflict, Corrupt, Transient
from riverrun.position import Position
from riverrun.runtime.checkpoint import Checkpoint, check_same
from riverrun.views import Last


def store_at(epoch: int) -> Last:
    return Last(epoch, 1, Position({"t": {0: epoch * 10}}))


@pytest.mark.parametrize(
    ("planned", "finished", "stored", "fits"),
    [
        (0, 0, 0, True),
        (1, 0, 0, True),  # planned, not yet committed
        (1, 0, 1, True),  # committed, Spark does not know yet
        (5, 4, 4, True),
        (5, 5, 5, True),
        (0, 0, 5, False),  # the checkpoint is gone
        (5, 5, 0, False),  # the store is gone
        (1, 1, 0, False),
        (5, 5, 4, False),  # an older store
        (3, 3, 5, False),  # an older checkpoint
    ],
)
def test_what_fits(tmp_path, planned, finished, stored, fits):
    checkpoint = write(tmp_path, planned, finished)
    if fits:
        checkpoint.check(store_at(stored))
        return
    with pytest.raises(Conflict, match="flow shop: its ") as found:
        checkpoint.check(store_at(stored))
    assert found.value.hint


def test_a_flow_that_never_ran(tmp_path):
    Checkpoint(str(tmp_path), "shop").check(store_at(0))


@pytest.mark.parametrize("text", ["", "v1\n{}\n", "v1\n{}\n{", "v1\n{}\n{}", "v1\n{}\n[]", "\0" * 40])
def test_a_plan_that_cannot_be_read(tmp_path, text):
    checkpoint = write(tmp_path, 2, 1)
    (tmp_path / "checkpoint/offsets/1").write_text(text)
    with pytest.raises(Corrupt, match="offsets/1: it cannot be read"):
        checkpoint.check(store_at(1))


@pytest.mark.parametrize("path", ["checkpoint/metadata", "planner/memory-2", "checkpoint/offsets/0"])
def test_a_file_that_is_missing(tmp_path, path):
    checkpoint = write(tmp_path, 2, 1)
    (tmp_path / path).unlink()
    with pytest.raises(Corrupt, match=f"{path}: it is missing"):
        checkpoint.check(store_at(1))


def test_files_in_each_others_place(tmp_path):
    checkpoint = write(tmp_path, 2, 1)
    (tmp_path / "checkpoint/offsets/0").rename(tmp_path / "checkpoint/offsets/1")
    with pytest.raises(Corrupt, match="it has the plan of epoch 1, not of 2"):
        checkpoint.plan(2)


def test_the_same_epoch_with_other_input(tmp_path):
    checkpoint = write(tmp_path, 2, 2)
    with pytest.raises(Conflict, match="epoch 2 of its checkpoint ends at t@0:20, epoch 2 of its views at t@0:19"):
        checkpoint.check(Last(2, 1, Position({"t": {0: 19}})))
    check_same({"t": {0: 20, 1: 0}}, store_at(2), "shop")


def test_settled_plans_are_those_that_were_computed(tmp_path):
    checkpoint = write(tmp_path, 2, 1)
    checkpoint.settle(2, {"t": {0: 20}})
    with pytest.raises(Transient, match="another run replaced the plan of epoch 2"):
        checkpoint.settle(2, {"t": {0: 21}})
