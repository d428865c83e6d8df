"""A prefix of a bucket belongs to the river whose view store knows the state below it."""

from __future__ import annotations

import shutil
import sqlite3
import uuid
from contextlib import closing
from pathlib import Path

import pytest

from riverrun.errors import Conflict
from riverrun.runtime.bucket_owner import claim, refuse_foreign
from riverrun.runtime.home import place_in_bucket
from riverrun.views import Store, open_store
from s3_server import shared_s3


class Place:
    """A river's directory of checkpoints, whose flows have their state below a prefix, and its view store."""

    def __init__(self, disk: Path, address: str, views: str = "views.db") -> None:
        disk.mkdir(exist_ok=True)
        self.views = disk / views
        self.checkpoints = str(disk / "checkpoints")
        place_in_bucket(self.checkpoints, address)
        self.store: Store = open_store(str(self.views))

    def begin(self) -> None:
        refuse_foreign(self.checkpoints, self.store)
        claim(self.checkpoints, self.store)


@pytest.fixture(scope="module")
def bucket() -> str:
    return shared_s3().bucket


@pytest.fixture
def address(bucket: str) -> str:
    return f"{bucket}/{uuid.uuid4().hex}"


def test_another_river_is_refused_and_told_whose_it_is(tmp_path: Path, address: str) -> None:
    one, other = Place(tmp_path / "one", address), Place(tmp_path / "other", address)
    one.begin()
    with pytest.raises(Conflict, match="another river") as refused:
        other.begin()
    assert str(one.views) in str(refused.value)
    assert "--rebuild" in (refused.value.hint or "")
    one.begin()


def test_who_takes_its_place_on_purpose_has_it_from_then_on(tmp_path: Path, address: str) -> None:
    one, other = Place(tmp_path / "one", address), Place(tmp_path / "other", address)
    one.begin()
    claim(other.checkpoints, other.store)  # what a rebuild does
    other.begin()
    with pytest.raises(Conflict, match="another river"):
        one.begin()


def test_a_driver_on_another_disk_has_the_same_views_and_goes_on(tmp_path: Path, address: str) -> None:
    one = Place(tmp_path / "one", address)
    one.begin()
    one.store.close()
    (tmp_path / "two").mkdir()
    shutil.copy(one.views, tmp_path / "two/views.db")
    Place(tmp_path / "two", address).begin()


def test_a_store_that_was_lost_is_followed_by_a_new_one_in_its_place(tmp_path: Path, address: str) -> None:
    one = Place(tmp_path / "one", address)
    one.begin()
    one.store.close()
    for file in tmp_path.glob("one/views.db*"):
        file.unlink()
    Place(tmp_path / "one", address).begin()
    Place(tmp_path / "one", address).begin()


def test_a_river_may_have_its_views_elsewhere_from_now_on(tmp_path: Path, address: str) -> None:
    Place(tmp_path / "one", address).begin()
    Place(tmp_path / "one", address, views="others.db").begin()


def test_a_prefix_inside_of_another_rivers_is_refused_both_ways(tmp_path: Path, address: str) -> None:
    Place(tmp_path / "one", f"{address}/team/rivers").begin()
    for nested, word in ((f"{address}/team", "above"), (f"{address}/team/rivers/shop/x", "below")):
        with pytest.raises(Conflict, match=word):
            Place(tmp_path / word, nested).begin()


def test_without_a_bucket_nobody_asks(tmp_path: Path) -> None:
    store = open_store(str(tmp_path / "views.db"))
    refuse_foreign(str(tmp_path / "flows"), store)
    claim(str(tmp_path / "flows"), store)
    assert not (tmp_path / "flows").exists()


def test_a_store_of_an_older_riverrun_is_given_a_number(tmp_path: Path) -> None:
    path = tmp_path / "views.db"
    open_store(str(path)).close()
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("""delete from "riverrun:counters" where name = 'store'""")
    store = open_store(str(path))
    assert store.identity() == store.identity() == open_store(str(path)).identity()
