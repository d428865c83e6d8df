"""A checkpoint that is damaged, gone, older, or somebody else's: a named error before anything starts, never a silent
start from zero."""

from __future__ import annotations

import os
import shutil
import warnings
from pathlib import Path

import pytest

from programs.recovery_flows import ORDERS, shop
from riverrun.errors import Conflict, Corrupt, RiverrunError
from riverrun.river import River

pytestmark = [pytest.mark.spark, pytest.mark.recovery, pytest.mark.timeout(1800)]


def newest(river: Path, kind: str) -> Path:
    return max((river / "flows/shop/checkpoint" / kind).glob("[0-9]*"), key=lambda path: int(path.name))


def no_checkpoint(river: Path) -> None:
    shutil.rmtree(river / "flows/shop/checkpoint")


def no_home(river: Path) -> None:
    shutil.rmtree(river / "flows/shop")


def no_store(river: Path) -> None:
    for path in river.glob("views.db*"):
        path.unlink()


def garbled(river: Path) -> None:
    newest(river, "offsets").write_text("v1\n{}\n{\n")


def cut_off(river: Path) -> None:
    os.truncate(newest(river, "offsets"), 0)


def no_memory(river: Path) -> None:
    shutil.rmtree(river / "flows/shop/planner")


def older(river: Path) -> None:
    for _ in range(2):
        newest(river, "offsets").unlink()
        newest(river, "commits").unlink()


def other_positions(river: Path) -> None:
    path = newest(river, "offsets")
    lines = path.read_text().splitlines()
    path.write_text(
        "\n".join([*lines[:2], lines[2].replace('"positions": {"orders": {"0": ', '"positions": {"orders": {"0": 9')])
    )


DAMAGE: list[tuple] = [
    (no_checkpoint, Conflict, "its views are at epoch 4, but its checkpoint .* is gone"),
    (no_home, Conflict, "its views are at epoch 4, but its checkpoint .* is gone"),
    (garbled, Corrupt, "its checkpoint is damaged: .*offsets/3: it cannot be read"),
    (cut_off, Corrupt, "its checkpoint is damaged: .*offsets/3: it cannot be read"),
    (no_memory, Corrupt, "its checkpoint is damaged: .*planner/.*: it is missing"),
    (older, Conflict, "is at epoch 2, its views are at epoch 4"),
    (other_positions, Conflict, "epoch 4 of its checkpoint ends at orders@0:9"),
]


def test_damage(open_shop, tmp_path):
    good = open_shop()
    good.feed(4)
    good.complete("--max-rows", 20)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from riverrun.spark.run import Run

    def refused(kind: type[RiverrunError], message: str, path: Path, **places: str) -> None:
        with River(path, **places) as river, pytest.raises(kind, match=message) as found:
            Run(river, shop())
        assert found.value.hint, message

    for number, (damage, kind, message) in enumerate(DAMAGE):
        copy = tmp_path / f"copy-{number}"
        shutil.copytree(good.path, copy)
        damage(copy)
        refused(kind, message, copy)

    # a checkpoint of another river
    other = tmp_path / "other"
    with River(other) as river:
        river.topic("orders", ORDERS, key="user", time="at", partitions=3)
    refused(Conflict, "has read orders@0:.*, but the topic ends at", other, checkpoints=str(good.path / "flows"))


@pytest.mark.parametrize("damage", [[no_store], [no_store, no_home]], ids=["no_store", "nothing"])
def test_lost_views_are_computed_again_and_topics_go_on(open_shop, damage):
    """Without the checkpoint nobody knows how far the topics are: they take what comes from then on."""
    shop = open_shop()
    shop.feed(4)
    shop.complete("--max-rows", 20)
    for remove in damage:
        remove(shop.path)
    again = shop.complete("--max-rows", 20)  # rows that were late in small epochs are so again
    assert "does not have its views: its views are computed from the log again" in again.errors
    assert ("nobody knows how far its topics are" in again.errors) == (no_home in damage)
    shop.feed(2)
    shop.drain()


def test_a_power_cut_under_a_running_flow(open_shop):
    """Spark syncs neither its marks of finished epochs nor its metadata: on the disk, the newest may be names only."""
    shop = open_shop()
    shop.feed(4)
    shop.complete("--max-rows", 20)
    checkpoint = shop.path / "flows/shop/checkpoint"
    for name in ("metadata", ".metadata.crc", "commits/2", "commits/.2.crc", "commits/3", "offsets/.3.crc"):
        if (checkpoint / name).exists():
            os.truncate(checkpoint / name, 0)
    shop.feed(2)
    shop.drain()
