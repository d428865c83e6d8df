"""Views that take the place of others: what they go on with, what is left of the old ones, and what is left when it is
given up."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from riverrun.errors import Conflict, Fenced, Invalid, NotFound, Transient
from riverrun.flow import Flow
from riverrun.flow.aggregates import count
from riverrun.position import Position
from riverrun.river import River
from riverrun.runtime.admission import admitted, changes
from riverrun.runtime.bounds import read_positions, together
from riverrun.runtime.commit import Committer
from riverrun.runtime.compile.compiler import compile_flow
from riverrun.runtime.epoch import EpochResult
from riverrun.runtime.heritage import GONE, Heritage, refuse_place
from riverrun.runtime.home import home_names
from riverrun.runtime.host import Control
from riverrun.runtime.manifest import Manifest, home_of
from riverrun.runtime.opening import open_inputs, open_outputs, shut_out
from riverrun.runtime.patience import Patience
from riverrun.runtime.plan import Plan
from riverrun.runtime.rebuild import Successor, clean
from riverrun.views import Last
from s3_server import shared_s3

SCHEMA = "user string"


def shop() -> Flow:
    flow = Flow("shop")
    stream = flow.stream("orders", SCHEMA, key="user")
    flow.view("totals", stream.group("user").agg(n=count()))
    flow.topic("copies", stream)
    return flow


class Shop:
    """A flow of which only the commits are real: an epoch brings no rows."""

    def __init__(self, river: River) -> None:
        self.river, self.store, self.flow = river, river.store, shop()
        self.inputs = open_inputs(river, self.flow)
        self.job = compile_flow(self.flow, 2)
        self.topics = open_outputs(river, self.flow, self.job, self.inputs, "")
        self.fence = shut_out("shop", self.store, self.topics.values())

    def run(self, epochs: int) -> None:
        """So many epochs of ten rows each."""
        for view in self.flow.views.values():
            self.store.declare(self.job.views[view.id])
        committer = Committer(self.flow, self.job, self.store, self.topics, self.home, "", self.fence)
        for _ in range(epochs):
            self.river.topic("orders").append([{"user": "ada"}] * 10)
            commit(committer, self.river.topic("orders").latest)

    def successor(self, heritage: Callable[[], Last] | None = None) -> Successor:
        return Successor(self.flow, "", self.job, self.store, self.river.checkpoints, self.inputs, heritage)

    def switch(self, made: Successor) -> None:
        made.switch(self.fence, self.topics.values(), Patience("a rebuild", tries=3))

    @property
    def home(self) -> str:
        return home_of(self.river.checkpoints, "shop", self.store.last("shop"))

    @property
    def homes(self) -> set[str]:
        return set(home_names(self.river.checkpoints))

    def manifest(self) -> Manifest:
        last = self.store.last("shop")
        assert last.manifest is not None
        return Manifest.decode(last.manifest)


def commit(committer: Committer, positions: Mapping[str, Mapping[int, int]]) -> None:
    epoch = committer.last.epoch + 1
    watermarks = {"stream-orders": (0, 0)}
    control = Control(epoch, 0, False, watermarks, {t: dict(p) for t, p in positions.items()}, {}, "")
    committer.apply(EpochResult(control))


@pytest.fixture(params=["directory", "bucket"])
def made(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Shop]:
    place = f"{shared_s3().bucket}/{uuid.uuid4().hex}" if request.param == "bucket" else None
    with River(tmp_path / "river", checkpoints=place) as river:
        river.topic("orders", SCHEMA, key="user", partitions=1, fsync="os")
        yield Shop(river)


def test_epochs_go_on_from_the_rebuild_and_sequences_from_the_flow(made: Shop) -> None:
    made.run(5)
    Path(made.home).mkdir(parents=True, exist_ok=True)
    successor = made.successor()
    with pytest.raises(Conflict, match="has not read up to where the running one is"):
        made.switch(successor)
    commit(successor.committer, successor.goal())
    assert made.store.last("shop").epoch == 5
    made.switch(successor)
    last = made.store.last("shop")
    assert (last.epoch, last.fence, made.home) == (1, made.fence, successor.home)
    assert made.manifest().base == 4  # its next epoch is 2, and has sequence 6 in topics
    assert made.homes == {f"shop~{successor.token}"}
    # and once more, from there
    made.run(2)
    again = made.successor()
    commit(again.committer, again.goal())
    made.switch(again)
    assert made.manifest().base == 6
    assert made.homes == {f"shop~{again.token}"}
    assert changes(made.flow, made.store.last("shop")) == []


def write_plan(home: str, epoch: int, positions: Mapping[str, Mapping[int, int]]) -> None:
    offsets = Path(home) / "checkpoint/offsets"
    offsets.mkdir(parents=True, exist_ok=True)
    plan = json.dumps(Plan(epoch, 0, positions, {}, None).to_json())
    (offsets / str(epoch - 1)).write_text(f"v1\n{{}}\n{plan}")


@pytest.mark.parametrize(("rows", "known"), [(7, True), (0, True), (7, False)])
def test_an_epoch_that_only_topics_have(made: Shop, rows: int, known: bool) -> None:
    """With rows, the first epoch reads just those, under the same sequence; else that sequence is passed over."""
    made.run(3)
    made.river.topic("orders").append([{"user": "ada"}] * 20)
    written = Position({"orders": {0: 30 + rows}})
    if known:
        write_plan(made.home, 4, written)
    made.topics["copies"].append([{"user": "ada"}], producer="shop", sequence=4, fence=made.fence)
    successor = made.successor()
    commit(successor.committer, successor.goal())
    made.switch(successor)
    assert read_positions(together(successor.home)) == (written if rows and known else None)
    assert made.manifest().base == (2 if rows and known else 3)
    # Once more, before that epoch was planned: it is still the first.
    again = made.successor()
    commit(again.committer, again.goal())
    made.switch(again)
    assert read_positions(together(again.home)) == (written if rows and known else None)
    assert made.manifest().base == (2 if rows and known else 3)


def test_an_unfinished_one_is_given_up_by_the_next(made: Shop) -> None:
    made.run(1)
    first = made.successor()
    second = made.successor()
    assert made.store.rebuilds("shop") == [second.token]
    assert not Path(first.home).exists()
    with pytest.raises(NotFound, match="switched or abandoned"):
        commit(first.committer, first.goal())
    with pytest.raises(Conflict, match="somebody began another one"):
        Path(first.home).mkdir()
        made.switch(first)
    second.abandon()
    assert made.store.rebuilds("shop") == []
    assert not Path(second.home).exists()


def test_a_lost_answer_is_no_failure(made: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    made.run(1)
    successor = made.successor()
    commit(successor.committer, successor.goal())
    switch = made.store.switch

    def losing(*args: object, **options: object) -> None:
        switch(*args, **options)  # type: ignore[arg-type]
        raise Transient("the connection was lost")

    monkeypatch.setattr(made.store, "switch", losing)
    made.switch(successor)
    assert made.home == successor.home
    successor.abandon()  # as those do who do not know how it went
    assert Path(successor.home).exists()


def test_homes_of_others_stay(made: Shop) -> None:
    made.run(1)
    checkpoints = Path(made.river.checkpoints)
    for name in ("shop", "shop~0", "shop-replay", "shop-replay~4", "shopping"):
        (checkpoints / name).mkdir(parents=True, exist_ok=True)
    clean(made.river.checkpoints, "shop", made.store)
    assert len(made.homes) == 5  # nothing was ever rebuilt here: who knows whose they are
    successor = made.successor()
    commit(successor.committer, successor.goal())
    other = made.store.begin_rebuild("shop", [])
    (checkpoints / f"shop~{other}").mkdir()
    made.switch(successor)
    kept = {"shop-replay", "shop-replay~4", "shopping", f"shop~{other}", f"shop~{successor.token}"}
    assert made.homes == kept


def test_a_flow_that_has_read_nothing(made: Shop) -> None:
    committer = Committer(made.flow, made.job, made.store, made.topics, made.home, "", made.fence)
    made.store.declare(made.job.views["view-totals"])
    commit(committer, {"orders": {0: 0}})
    successor = made.successor()
    made.switch(successor)
    assert (made.store.last("shop").epoch, made.home, made.manifest().base) == (0, successor.home, 1)
    # Its first epoch was planned, and written to topics, and then it died: it is repeated as that of any flow.
    made.topics["copies"].append([{"user": "ada"}], producer="shop", sequence=2, fence=made.fence)
    write_plan(made.home, 1, {"orders": {0: 10}})
    (Path(made.home) / "checkpoint/metadata").write_text("{}")
    left = Heritage("shop", made.store, made.river.checkpoints, made.inputs, list(made.topics.values()), {})
    assert not left.is_there(made.home)
    assert admitted("shop", made.flow, made.store, made.river.checkpoints, made.inputs).anew is None


def test_views_that_are_gone_are_computed_up_to_where_the_topics_are(made: Shop, tmp_path: Path) -> None:
    """The store was lost after epoch 4; what the topics have comes from the checkpoint, and the next epoch has the next
    sequence. An epoch that only a part of the topics may have is the first one, under its own sequence."""
    made.run(3)
    for epoch in (1, 2, 3):
        write_plan(made.home, epoch, {"orders": {0: 10 * epoch}})
    made.river.topic("orders").append([{"user": "ada"}] * 7)
    write_plan(made.home, 4, {"orders": {0: 37}})
    made.topics["copies"].append([{"user": "ada"}], producer="shop", sequence=4, fence=made.fence)
    made.river.topic("orders").append([{"user": "ada"}] * 5)
    with River(made.river.path, checkpoints=made.river.bucket, views=f"{tmp_path}/another.db") as river:
        heir = Shop(river)
        assert heir.fence > made.fence
        assert admitted("shop", heir.flow, heir.store, river.checkpoints, heir.inputs).anew == GONE
        left = Heritage(
            "shop", heir.store, river.checkpoints, heir.inputs, list(heir.topics.values()), {"orders": {0: 0}}
        )
        assert left.is_there(heir.home)
        successor = heir.successor(left.recall())
        assert successor.goal() == {"orders": {0: 30}}
        commit(successor.committer, successor.goal())
        heir.switch(successor)
        assert read_positions(together(successor.home)) == {"orders": {0: 37}}
        assert heir.manifest().base == 2  # its next epoch is 2, and has sequence 4 in topics
        assert heir.homes == {f"shop~{successor.token}"}
        with pytest.raises(Fenced):
            made.topics["copies"].append([{"user": "ada"}], producer="shop", sequence=5, fence=made.fence)
        # Lost once more: the home knows what its epochs are called in topics.
        write_plan(heir.home, 1, {"orders": {0: 30}})
        write_plan(heir.home, 2, {"orders": {0: 37}})
    with River(made.river.path, checkpoints=made.river.bucket, views=f"{tmp_path}/third.db") as river:
        third = Shop(river)
        left = Heritage("shop", third.store, river.checkpoints, third.inputs, list(third.topics.values()), {})
        again = third.successor(left.recall())
        assert again.home != successor.home
        assert again.goal() == {"orders": {0: 30}}
        commit(again.committer, again.goal())
        third.switch(again)
        assert (third.manifest().base, read_positions(together(again.home))) == (2, {"orders": {0: 37}})


@pytest.mark.parametrize("died", ["in the rebuild", "before the old home was removed"])
def test_of_two_homes_that_are_left_the_one_that_was_in_use_counts(
    made: Shop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, died: str
) -> None:
    made.run(3)
    for epoch in (1, 2, 3):
        write_plan(made.home, epoch, {"orders": {0: 10 * epoch}})
    successor = made.successor()
    commit(successor.committer, successor.goal())
    write_plan(successor.home, 1, successor.goal())
    if died != "in the rebuild":
        monkeypatch.setattr("riverrun.runtime.rebuild.clean", lambda *_: None)
        made.switch(successor)
        made.river.topic("orders").append([{"user": "ada"}] * 10)
        write_plan(made.home, 2, {"orders": {0: 35}})
        write_plan(made.home, 3, {"orders": {0: 40}})
    assert len(made.homes) == 2
    with River(made.river.path, checkpoints=made.river.bucket, views=f"{tmp_path}/another.db") as river:
        heir = Shop(river)
        left = Heritage("shop", heir.store, river.checkpoints, heir.inputs, list(heir.topics.values()), {})
        last = left.recall()()
        assert last.positions == {"orders": {0: 20 if died == "in the rebuild" else 35}}
        assert last.manifest is not None
        assert last.epoch + Manifest.decode(last.manifest).base == (2 if died == "in the rebuild" else 4)


def test_the_number_of_a_rebuild_may_be_that_of_a_home_of_another_store(made: Shop, tmp_path: Path) -> None:
    made.run(3)
    successor = made.successor()
    commit(successor.committer, successor.goal())
    made.switch(successor)
    write_plan(made.home, 1, {"orders": {0: 30}})
    write_plan(made.home, 2, {"orders": {0: 37}})
    with River(made.river.path, checkpoints=made.river.bucket, views=f"{tmp_path}/another.db") as river:
        heir = Shop(river)
        while heir.store.begin_rebuild("shop", []) != successor.token:  # and then it died
            pass
        left = Heritage("shop", heir.store, river.checkpoints, heir.inputs, list(heir.topics.values()), {})
        assert heir.successor(left.recall()).goal() == {"orders": {0: 30}}
        assert Path(successor.home).exists()


def test_a_checkpoint_that_has_read_more_than_there_is_belongs_to_another_log(made: Shop, tmp_path: Path) -> None:
    made.run(3)
    write_plan(made.home, 1, {"orders": {0: 31}})
    write_plan(made.home, 2, {"orders": {0: 40}})
    with River(made.river.path, checkpoints=made.river.bucket, views=f"{tmp_path}/another.db") as river:
        heir = Shop(river)
        left = Heritage("shop", heir.store, river.checkpoints, heir.inputs, list(heir.topics.values()), {})
        with pytest.raises(Conflict, match="has read orders@0:31, but the topic ends at orders@0:30"):
            left.recall()


def test_without_views_and_checkpoint_topics_go_on_with_what_comes_now_or_from_where_one_says(
    made: Shop, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    made.run(3)
    made.topics["copies"].append([{"user": "ada"}], producer="shop", sequence=3, fence=made.fence)
    with River(made.river.path, checkpoints=made.river.bucket, views=f"{tmp_path}/another.db") as river:
        heir = Shop(river)
        assert admitted("shop", heir.flow, heir.store, river.checkpoints, heir.inputs).anew is None
        left = Heritage(
            "shop", heir.store, river.checkpoints, heir.inputs, list(heir.topics.values()), {"orders": {0: 0}}
        )
        assert left.is_there(heir.home)
        assert heir.successor(left.recall()).goal() == {"orders": {0: 30}}
        assert "nobody knows how far its topics are" in caplog.text
        successor = heir.successor(left.begin_at("earliest"))
        assert successor.goal() == {"orders": {0: 0}}
        heir.switch(successor)
        assert heir.manifest().base == 3  # everything is written again, behind what topics have
        assert heir.store.last("shop").epoch == 0


def test_a_new_flow_has_no_heritage(made: Shop) -> None:
    """Neither has one that died in its first epoch: that is repeated."""
    left = Heritage("shop", made.store, made.river.checkpoints, made.inputs, list(made.topics.values()), {})
    assert not left.is_there(made.home)
    write_plan(made.home, 1, {"orders": {0: 10}})
    made.topics["copies"].append([{"user": "ada"}], producer="shop", sequence=1, fence=made.fence)
    assert not left.is_there(made.home)
    (Path(made.home) / "checkpoint/metadata").write_text("{}")
    assert admitted("shop", made.flow, made.store, made.river.checkpoints, made.inputs).anew is None
    made.run(1)
    with pytest.raises(Invalid, match="flow shop is at epoch 1: its topics and alerts go on from there"):
        refuse_place("shop", made.store.last("shop"))
