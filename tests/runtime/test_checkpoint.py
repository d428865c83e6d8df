"""Spark's checkpoint, read from outside: what fits the store, what is damaged."""

from __future__ import annotations

import json
import uuid

import pytest

from oracles.checkpoints import write
from riverrun.checksums import with_checksum
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
    checkpoint = write(tmp_path, 2, 2)
    (tmp_path / "checkpoint/offsets/1").write_text(text)
    with pytest.raises(Corrupt, match="offsets/1: it cannot be read"):
        checkpoint.check(store_at(2))


@pytest.mark.parametrize("path", ["planner/memory-2", "checkpoint/offsets/0"])
def test_a_file_that_is_missing(tmp_path, path):
    checkpoint = write(tmp_path, 2, 1)
    (tmp_path / path).unlink()
    with pytest.raises(Corrupt, match=f"{path}: it is missing"):
        checkpoint.check(store_at(1))


@pytest.mark.parametrize("content", [b"", b"garbled", with_checksum(b"\x80")[:-1] + b"\x81"])
def test_a_memory_of_the_planner_that_is_not_what_was_written(tmp_path, content):
    """It was an error of zstd or of msgpack, without a word about the file."""
    checkpoint = write(tmp_path, 2, 1)
    (tmp_path / "planner/memory-2").write_bytes(content)
    with pytest.raises(Corrupt, match="planner/memory-2: it is not what was written") as found:
        checkpoint.check(store_at(1))
    assert found.value.hint


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


@pytest.mark.parametrize("lost", [1, 2, 4])
@pytest.mark.parametrize("text", ["", "v1\n", "\0" * 20])
def test_marks_of_finished_epochs_that_a_power_cut_emptied_are_not_needed(tmp_path, caplog, lost, text):
    """After a power cut the newest files that Spark did not sync are there by name only."""
    checkpoint = write(tmp_path, 4, 4)
    for epoch in range(5 - lost, 5):
        (tmp_path / f"checkpoint/commits/{epoch - 1}").write_text(text)
        (tmp_path / f"checkpoint/commits/.{epoch - 1}.crc").touch()
    checkpoint.check(store_at(4))
    assert checkpoint.finished == 4, "looking changes nothing"
    checkpoint.mend(store_at(4), begun=False)
    assert checkpoint.finished == 4 - lost
    assert len(caplog.records) == 1
    assert caplog.text.count("commits/") == lost
    assert not list(tmp_path.glob("checkpoint/*/.*.crc"))


@pytest.mark.parametrize("there", [True, False])
def test_metadata_that_a_power_cut_emptied_is_written_again(tmp_path, there):
    checkpoint = write(tmp_path, 2, 2)
    metadata = tmp_path / "checkpoint/metadata"
    metadata.write_text("") if there else metadata.unlink()
    (tmp_path / "checkpoint/.metadata.crc").write_text("of the other one")
    checkpoint.check(store_at(2))
    checkpoint.mend(store_at(2), begun=False)
    assert uuid.UUID(json.loads(metadata.read_text())["id"])
    assert not (tmp_path / "checkpoint/.metadata.crc").exists()


@pytest.mark.parametrize("stored", [0, 1])
def test_a_plan_that_a_power_cut_emptied_before_anything_took_effect_is_made_again(tmp_path, stored):
    checkpoint = write(tmp_path, stored + 1, stored)
    (tmp_path / f"checkpoint/offsets/{stored}").write_text("")
    checkpoint.check(store_at(stored))
    with pytest.raises(Corrupt, match=f"offsets/{stored}: it cannot be read"):
        checkpoint.mend(store_at(stored), begun=True)  # topics have some of it
    checkpoint.mend(store_at(stored), begun=False)
    assert checkpoint.planned == stored


def test_a_checkpoint_in_order_stays_as_it_is(tmp_path):
    checkpoint = write(tmp_path, 2, 1)
    before = {path: path.read_bytes() for path in tmp_path.rglob("[!.]*") if path.is_file()}
    checkpoint.mend(store_at(1), begun=True)
    assert {path: path.read_bytes() for path in tmp_path.rglob("[!.]*") if path.is_file()} == before


def test_what_an_epoch_stands_on_is_on_the_disk_before_it_takes_effect(tmp_path, monkeypatch):
    synced = []
    monkeypatch.setattr("riverrun.durable.sync_file", synced.append)
    monkeypatch.setattr("riverrun.durable.sync_directory", synced.append)
    checkpoint = write(tmp_path, 2, 0)
    checkpoint.settle(1, {"t": {0: 10}})
    first = {str(tmp_path / name) for name in ("checkpoint/metadata", "checkpoint/offsets/0", "checkpoint/offsets")}
    assert first < set(synced)
    assert {str(tmp_path / "checkpoint"), str(tmp_path), str(tmp_path.parent)} < set(synced)
    del synced[:]
    checkpoint.settle(2, {"t": {0: 20}})
    assert set(synced) == {str(tmp_path / name) for name in ("checkpoint/offsets/1", "checkpoint/offsets")}
