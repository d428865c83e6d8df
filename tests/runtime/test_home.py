"""The home of a flow whose state is in a bucket: what a driver on an empty disk finds there."""

from __future__ import annotations

import json
import shutil
import uuid
from pathlib import Path

import pytest

from riverrun.checksums import with_checksum
from riverrun.errors import Conflict, Corrupt, Transient
from riverrun.folder import open_folder
from riverrun.object_folder import ObjectFolder
from riverrun.position import Position
from riverrun.runtime import home as homes
from riverrun.runtime.checkpoint import Checkpoint
from riverrun.runtime.heritage import is_finished, note_base
from riverrun.runtime.manifest import Manifest
from riverrun.runtime.plan import Plan
from riverrun.views import Last
from s3_server import S3Server, shared_s3


class Driver:
    """A machine with a disk of its own, whose flows have their state in the bucket."""

    def __init__(self, disk: Path, address: str) -> None:
        self.disk, self.address = disk, address
        self.checkpoints = str(disk / "checkpoints")
        homes.place_in_bucket(self.checkpoints, address)
        self.home = f"{self.checkpoints}/shop"

    @property
    def checkpoint(self) -> Checkpoint:
        return Checkpoint(self.home, "shop")

    def plan(self, epoch: int, rows: int | None = None) -> None:
        """As the planner and Spark do: a memory, a file of offsets, and metadata."""
        memory = f"{epoch:012d}-memory"
        open_folder(homes.planner_place(self.home)).write(memory, with_checksum(b"\x80"))
        plan = Plan(epoch, 0, {"t": {0: epoch * 10 if rows is None else rows}}, {}, memory)
        offsets = Path(self.home) / "checkpoint/offsets"
        offsets.mkdir(parents=True, exist_ok=True)
        (offsets.parent / "metadata").write_text('{"id":"one"}')
        (offsets / str(epoch - 1)).write_text(f"v1\n{{}}\n{json.dumps(plan.to_json())}")

    def settle(self, epoch: int, fence: int) -> None:
        self.checkpoint.settle(epoch, self.checkpoint._plan(epoch).positions)
        self.checkpoint.keep(epoch, fence)

    def run(self, *epochs: int, fence: int = 1) -> None:
        for epoch in epochs:
            self.plan(epoch)
            self.settle(epoch, fence)

    def files(self) -> dict[str, list[str]]:
        place = Path(self.home) / "checkpoint"
        return {kind: sorted(p.name for p in (place / kind).iterdir()) for kind in ("offsets", "commits")}


@pytest.fixture(scope="module")
def server() -> S3Server:
    return shared_s3()


@pytest.fixture
def address(server: S3Server) -> str:
    return f"{server.bucket}/{uuid.uuid4().hex}"


def store_at(epoch: int) -> Last:
    return Last(epoch, 1, Position({"t": {0: epoch * 10}}), Manifest(epoch, 2, {}, {}).encode() if epoch else None)


def test_without_a_bucket_everything_is_below_the_directory(tmp_path: Path) -> None:
    home = f"{tmp_path}/flows/shop"
    assert (homes.state_place(home), homes.planner_place(home)) == (f"{home}/state", f"{home}/planner")
    assert homes.kept_plans(home) is None
    homes.make_home(home)
    assert Path(home, "state").is_dir()
    assert homes.home_names(f"{tmp_path}/flows") == ["shop"]
    homes.remove_home(home)
    assert homes.home_names(f"{tmp_path}/flows") == []


def test_a_driver_on_an_empty_disk_goes_on(tmp_path: Path, address: str, caplog: pytest.LogCaptureFixture) -> None:
    Driver(tmp_path / "one", address).run(1, 2, 3)
    other = Driver(tmp_path / "two", address)
    assert other.checkpoint.planned == 3
    other.checkpoint.check(store_at(3))
    other.checkpoint.mend(store_at(3), begun=False)
    assert other.files() == {"offsets": ["1", "2"], "commits": ["2"]}  # Spark asks for the last two
    assert (Path(other.home) / "checkpoint/metadata").exists()
    (said,) = caplog.messages
    assert said == f"flow shop: its checkpoint is not on this disk, and is made from {address}/shop/plans"
    other.run(4, fence=2)
    assert Driver(tmp_path / "three", address).checkpoint.planned == 4


def test_an_epoch_that_topics_may_have_is_repeated_by_any_driver(tmp_path: Path, address: str) -> None:
    one = Driver(tmp_path / "one", address)
    one.run(1, 2)
    one.plan(3, rows=26)
    one.settle(3, fence=1)
    other = Driver(tmp_path / "two", address)
    other.checkpoint.check(store_at(2))
    other.checkpoint.mend(store_at(2), begun=True)
    assert other.files() == {"offsets": ["0", "1", "2"], "commits": ["1"]}
    assert other.checkpoint._plan(3).positions == {"t": {0: 26}}


def test_what_this_disk_has_from_an_older_run_does_not_count(tmp_path: Path, address: str) -> None:
    one, other = Driver(tmp_path / "one", address), Driver(tmp_path / "two", address)
    one.run(1, 2)
    one.plan(3, rows=99)  # it died before anything of it took effect
    other.checkpoint.mend(store_at(2), begun=False)
    other.run(3, 4, 5, fence=2)
    one.checkpoint.check(store_at(5))
    one.checkpoint.mend(store_at(5), begun=False)
    assert one.checkpoint.planned == 5
    assert one.checkpoint._plan(5).positions == {"t": {0: 50}}
    one.checkpoint.mend(store_at(2), begun=False)
    assert one.checkpoint._plan(3).positions == {"t": {0: 30}}


def test_of_two_plans_of_an_epoch_that_of_the_newer_run_counts(tmp_path: Path, address: str) -> None:
    zombie, heir = Driver(tmp_path / "one", address), Driver(tmp_path / "two", address)
    zombie.plan(1, rows=7)
    heir.plan(1)
    heir.settle(1, fence=2)
    zombie.settle(1, fence=1)
    assert heir.checkpoint.plan(1).positions == {"t": {0: 10}}


def test_a_bucket_that_is_not_the_views_is_refused(tmp_path: Path, address: str) -> None:
    other = Driver(tmp_path / "two", address)
    with pytest.raises(Conflict, match="its views are at epoch 3, but its checkpoint .* is gone. Restore"):
        other.checkpoint.check(store_at(3))
    Driver(tmp_path / "one", address).run(1, 2, 3)
    open_folder(homes.planner_place(other.home)).delete([f"{3:012d}-memory"])
    with pytest.raises(Corrupt, match=f"{address}/shop/planner/{3:012d}-memory: it is missing"):
        other.checkpoint.check(store_at(3))


def test_few_plans_are_kept(tmp_path: Path, address: str) -> None:
    driver = Driver(tmp_path, address)
    driver.run(*range(1, 21))
    kept = ObjectFolder(f"{address}/shop/plans").names()
    assert [int(name[:12]) for name in kept] == [13, 14, 15, 16, 17, 18, 19, 20]


def test_notes_of_a_rebuild_are_found_elsewhere(tmp_path: Path, address: str) -> None:
    one, other = Driver(tmp_path / "one", address), Driver(tmp_path / "two", address)
    built = f"{one.checkpoints}/shop~4"
    homes.make_home(built)
    note_base(built, 17)
    homes.keep_notes(built)
    assert homes.home_names(other.checkpoints) == ["shop~4"]
    there = f"{other.checkpoints}/shop~4"
    assert not is_finished(there)
    homes.recall_notes(there)
    assert is_finished(there)
    assert Path(there, "base").read_text() == "17"
    homes.remove_home(there)
    assert homes.home_names(other.checkpoints) == []
    shutil.rmtree(one.home, ignore_errors=True)


def test_a_bucket_that_is_away_is_waited_for(tmp_path: Path, address: str, server: S3Server) -> None:
    driver = Driver(tmp_path, address)
    driver.run(1)
    driver.plan(2)
    server.stop()
    try:
        driver.checkpoint.settle(2, {"t": {0: 20}})
        with pytest.raises(Transient, match="does not answer"):
            driver.checkpoint.keep(2, 1)
    finally:
        server.start()
    driver.checkpoint.keep(2, 1)
    assert driver.checkpoint.planned == 2
