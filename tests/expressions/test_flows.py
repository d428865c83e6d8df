"""Every expression of the flows that come with Riverrun is in the verified set. Those of the docs run in test_docs.py."""

from __future__ import annotations

from pathlib import Path

import pytest
from bench.nexmark.events import AuctionHouse
from bench.nexmark.queries import QUERIES

import riverrun as rr
from riverrun.cli.flow_file import load_flow
from riverrun.demo.shop.shop_flow import flow as shop
from riverrun.flow import Flow
from riverrun.runtime.compile.engines import needs_spark, plan_engines

ROOT = Path(__file__).parents[2]
EXAMPLES = sorted(path for path in (ROOT / "examples").iterdir() if (path / "flow.py").exists())


def by_spark(flow: Flow) -> list[str | None]:
    """Why Spark has to compute something."""
    return [one.reason for one in plan_engines(flow, "arrow") if one.engine == "spark"]


@pytest.mark.parametrize("name", QUERIES)
def test_nexmark(name: str) -> None:
    assert by_spark(QUERIES[name].flow(AuctionHouse(2000))) == []


def test_the_demo() -> None:
    assert by_spark(shop) == []


@pytest.mark.parametrize("story", EXAMPLES, ids=lambda path: path.name)
def test_examples(story: Path) -> None:
    assert by_spark(load_flow(f"{story}/flow.py")) == []


def test_the_starter_project(tmp_path: Path) -> None:
    template = ROOT / "src/riverrun/cli/starter/flow.py.template"
    (tmp_path / "starter.py").write_text(template.read_text(encoding="utf-8"), encoding="utf-8")
    assert by_spark(load_flow(f"{tmp_path}/starter.py")) == []


def test_what_is_not_in_the_set_is_named() -> None:
    flow = Flow("odd")
    flow.view("odd", flow.stream("orders", "user string, at timestamp", time="at").select("xxhash64(user) as h"))
    (reason,) = by_spark(flow)
    assert reason is not None and reason.startswith("xxhash64(")


def test_what_a_transform_makes_is_computed_by_spark_whatever_it_is():
    flow = rr.Flow("words")
    words = flow.stream("lines", "line string").transform(lambda frame: frame)
    flow.view("counts", words.where("length(word) > 3").group("word").agg(n=rr.count(), longest=rr.max("size")))
    assert {one.engine for one in plan_engines(flow, "arrow")} == {"spark"}
    assert needs_spark(flow, "arrow")


def test_a_type_that_only_spark_can_tell_keeps_no_flow_from_starting():
    flow = rr.Flow("hashes")
    hashed = flow.stream("orders", "user string").with_columns(size="bit_count(length(soundex(user)))")
    flow.view("sums", hashed.group("user").agg(total=rr.sum("size")))
    assert needs_spark(flow, "arrow")
