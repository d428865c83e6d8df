"""A prefix of a bucket belongs to the river whose view store knows the state below it."""

from __future__ import annotations

import shutil
import sqlite3
import uuid
from contextlib import closing
from pathlib import Path

import psycopg
import pytest

import riverrun as rr
from postgres_server import shared_server
from riverrun.errors import Conflict, Corrupt
from riverrun.object_folder import ObjectFolder
from riverrun.river import River
from riverrun.runtime.bucket_owner import claim, refuse_foreign
from riverrun.runtime.evolution import plan_flow
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

    def begin(self, rebuild: bool = False) -> None:
        refuse_foreign(self.checkpoints, self.store.identity, rebuild)
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
    other.begin(rebuild=True)
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
        place = Place(tmp_path / word, nested)
        for rebuild in (False, True):
            with pytest.raises(Conflict, match=word):
                place.begin(rebuild)


def test_without_a_bucket_nobody_asks(tmp_path: Path) -> None:
    store = open_store(str(tmp_path / "views.db"))
    refuse_foreign(str(tmp_path / "flows"), store.identity)
    claim(str(tmp_path / "flows"), store)
    assert not (tmp_path / "flows").exists()


def test_a_note_that_cannot_be_read_is_told_of_and_written_again_by_a_rebuild(tmp_path: Path, address: str) -> None:
    one = Place(tmp_path / "one", address)
    ObjectFolder(address).write(".owner", b"half of")
    with pytest.raises(Corrupt, match="cannot be read") as refused:
        one.begin()
    assert "Remove it" in (refused.value.hint or "")
    one.begin(rebuild=True)
    one.begin()


def test_a_plan_refuses_what_a_run_would_and_makes_nothing(tmp_path: Path, address: str) -> None:
    Place(tmp_path / "one", address).begin()
    with River(tmp_path / "other", checkpoints=address) as other:
        flow = rr.Flow("shop")
        flow.view("orders", flow.stream("orders", "n bigint"))
        plan = plan_flow(flow, other)
        assert plan.run == "refused"
        assert "another river" in (plan.reason or "")
        assert not Path(other.views_address).exists()


@pytest.fixture(params=["sqlite", "postgresql"])
def unnumbered(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Where a store is that an older Riverrun made."""
    delete = """delete from {}"riverrun:counters" where name = 'store'"""
    if request.param == "sqlite":
        path = str(tmp_path / "views.db")
        open_store(path).close()
        with closing(sqlite3.connect(path)) as db, db:
            db.execute(delete.format(""))
        return path
    url = shared_server().url
    open_store(url).close()
    with psycopg.connect(url) as connection:
        connection.execute(delete.format("riverrun."))
    return url


def test_a_store_of_an_older_riverrun_is_given_a_number_when_it_is_asked_for(unnumbered: str) -> None:
    with open_store(unnumbered) as store, open_store(unnumbered) as again:
        assert store.identity().number is None is again.identity().number
        numbered = store.identity(number=True)
        assert numbered.number is not None
        assert numbered == store.identity() == again.identity(number=True)
