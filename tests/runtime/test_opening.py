"""What is refused before anything is opened."""

from __future__ import annotations

from pathlib import Path

import pytest

from riverrun.errors import Conflict, Corrupt, Invalid
from riverrun.flow import Flow
from riverrun.flow.aggregates import count
from riverrun.log.spec import TopicSpec
from riverrun.river import River
from riverrun.runtime.admission import changes
from riverrun.runtime.bounds import together, write_positions
from riverrun.runtime.compile.compiler import compile_flow
from riverrun.runtime.manifest import Manifest, computation
from riverrun.runtime.opening import check_written, mend_checkpoint, open_inputs, open_outputs
from riverrun.views import Last


def test_a_flow_without_results_is_refused(tmp_path: Path) -> None:
    with River(tmp_path / "river") as river:
        flow = Flow("shop")
        flow.stream("orders", "user string")
        with pytest.raises(Invalid, match=r"flow shop has no results. Add a flow.view\(…\)"):
            open_inputs(river, flow)
        assert river.topics() == []


def test_a_topic_that_has_more_epochs_than_anybody_knows(tmp_path: Path) -> None:
    home = tmp_path / "home"
    (home / "checkpoint/offsets").mkdir(parents=True)
    with River(tmp_path / "river") as river:
        copies, last = river.topic("copies", "user string"), river.store.last("shop")
        check_written("shop", last, str(home), [copies])
        copies.append([{"user": "ada"}], producer="shop", sequence=2, fence=1)
        (home / "checkpoint/offsets/0").touch()
        with pytest.raises(
            Conflict, match="topic copies was written by flow shop before its views were removed: it has epoch 2"
        ):
            check_written("shop", last, str(home), [copies])
        (home / "checkpoint/offsets/1").touch()
        check_written("shop", last, str(home), [copies])
        # of a rebuild, whose first epoch is one that topics have had
        (home / "checkpoint/offsets/1").unlink()
        write_positions(together(str(home)), {"orders": {0: 1}})
        check_written("shop", last, str(home), [copies])


def test_a_lost_plan_of_the_first_epoch_after_a_rebuild_is_made_again(tmp_path: Path) -> None:
    """Topics have had that epoch from before the rebuild, and it is bounded: planned again it has the same rows."""
    home = tmp_path / "home"
    plan = home / "checkpoint/offsets/1"
    plan.parent.mkdir(parents=True)
    (home / "checkpoint/metadata").write_text('{"id": "one"}')
    last = Last(1, 1, {"orders": {0: 30}}, Manifest(1, 1, {}, {}, base=2).encode())
    with River(tmp_path / "river") as river:
        copies = river.topic("copies", "user string")
        copies.append([{"user": "ada"}], producer="shop", sequence=4, fence=1)
        write_positions(together(str(home)), {"orders": {0: 37}})
        plan.touch()
        mend_checkpoint("shop", last, str(home), [copies])
        assert not plan.exists()
        # Once that epoch took effect, the next one is as any other: some of it is in topics, and it must be known.
        plan.touch()
        write_positions(together(str(home)), {"orders": {0: 30}})
        with pytest.raises(Corrupt, match="its checkpoint is damaged"):
            mend_checkpoint("shop", last, str(home), [copies])


def test_a_topic_that_leads_to_no_result_is_made_and_not_read(tmp_path: Path) -> None:
    with River(tmp_path / "river") as river:
        flow = Flow("shop")
        flow.view("newest", flow.stream("orders", "user string"), key="user")
        flow.stream("visits", "user string").group("user").agg(n=count())
        assert list(open_inputs(river, flow)) == ["orders"]
        assert river.topics() == ["orders", "visits"]
        last = Last(1, 1, {"orders": {0: 3}}, Manifest(1, 1, {}, computation(flow)).encode())
        assert changes(flow, last) == []


def test_topics_that_a_flow_writes_by_itself_have_names_of_their_own(tmp_path: Path) -> None:
    with River(tmp_path / "river") as river:
        for name, skew in (("shop.alerts.big", None), ("orders.quarantine", "5 minutes")):
            flow = Flow("shop")
            orders = flow.stream("orders", "user string, at timestamp", time="at", max_skew=skew)
            flow.alert("big", orders, to="json://localhost")
            flow.topic(name, orders)
            inputs = open_inputs(river, flow)
            with pytest.raises(Invalid, match=f"flow shop cannot write topic {name}: it has two kinds of rows for it"):
                open_outputs(river, flow, compile_flow(flow, 2), inputs, "")
        flow = Flow("shop")
        rows = flow.stream("orders", "user string, at timestamp", time="at", max_skew="5 minutes")
        flow.view("all", rows.select("user").union(flow.stream("orders.quarantine", "user string").select("user")))
        with pytest.raises(Invalid, match="flow shop cannot write topic orders.quarantine: it reads it, too"):
            open_outputs(river, flow, compile_flow(flow, 2), open_inputs(river, flow), "")


def test_a_topic_that_is_made_for_a_flow_is_as_its_description_says(tmp_path: Path) -> None:
    """All of it: what is taken for a time, too, which decides what can be appended."""
    spec = TopicSpec("orders", "user string, at timestamp", time="at", naive="utc", times="ms", partitions=2)
    flow = Flow("shop")
    flow.view("all", flow.stream(spec, key="user"))
    with River(tmp_path) as river:
        made = open_inputs(river, flow)["orders"].spec
    assert (made.naive, made.times, made.partitions, made.key, made.time) == ("utc", "ms", 2, ("user",), "at")
