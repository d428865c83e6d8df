"""Flows on Spark whose state is in a bucket: a driver on another disk goes on, rebuilds leave nothing, lost views come back."""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from riverrun.errors import Conflict
from riverrun.flow import Flow
from riverrun.flow.aggregates import count
from riverrun.object_folder import ObjectFolder
from riverrun.river import River
from riverrun.settings import Settings
from s3_server import shared_s3

pytestmark = pytest.mark.spark

SOON = "60 seconds"


def shop(kind: str = "user") -> Flow:
    flow = Flow("shop")
    orders = flow.stream("orders", "n bigint, user string", key="user")
    flow.view("totals", orders.with_columns(kind=kind).group("kind").agg(n=count()))
    flow.topic("copies", orders)
    return flow


def rows(start: int, stop: int) -> list[dict[str, object]]:
    return [{"n": n, "user": f"u{n % 3000}"} for n in range(start, stop)]


@pytest.fixture
def bucket() -> str:
    return f"{shared_s3().bucket}/{uuid.uuid4().hex}"


@pytest.fixture
def river(tmp_path: Path, bucket: str, spark_session: object) -> Iterator[River]:
    with River(tmp_path / "river", checkpoints=bucket) as river:
        river.topic("orders", "n bigint, user string", key="user", fsync="os")
        yield river


def process(river: River, flow: Flow, **options: object) -> None:
    with river.run(flow, **options) as run:  # type: ignore[arg-type]
        run.process(timeout=SOON)


def check(river: River, number: int) -> None:
    """Every row counted once, and copied once."""
    assert sum(row["n"] for row in river.view("totals").rows()) == number
    assert sorted(river.topic("copies").read().column("n").to_pylist()) == list(range(number))


def test_a_driver_that_lost_its_disk(river: River, bucket: str) -> None:
    for start in (0, 9000):
        river.topic("orders").append(rows(start, start + 9000))
        process(river, shop())
        shutil.rmtree(river.checkpoints)
        with River(river.path, checkpoints=bucket):  # which notes the bucket again
            pass
    assert ObjectFolder(bucket).folders() == ["shop"]
    assert ObjectFolder(f"{bucket}/shop/state").names()
    river.topic("orders").append(rows(18000, 18100))
    process(river, shop())
    check(river, 18100)


def test_rebuilds_and_lost_views(river: River, bucket: str, tmp_path: Path) -> None:
    river.topic("orders").append(rows(0, 9000))
    process(river, shop())
    process(river, shop("n % 7"))
    (rebuilt,) = ObjectFolder(bucket).folders()
    assert rebuilt.startswith("shop~")
    check(river, 9000)
    # Neither the views nor the driver's disk: the bucket says how far topics are.
    shutil.rmtree(river.checkpoints)
    with River(river.path, checkpoints=bucket, views=f"{tmp_path}/another.db") as heir:
        heir.topic("orders").append(rows(9000, 9100))
        process(heir, shop("n % 7"))
        check(heir, 9100)
        assert len(ObjectFolder(bucket).folders()) == 1


def test_another_river_below_the_same_prefix_is_refused(river: River, bucket: str, tmp_path: Path) -> None:
    river.topic("orders").append(rows(0, 100))
    process(river, shop())
    with River(tmp_path / "another", checkpoints=bucket) as other:
        other.topic("orders", "n bigint, user string", key="user")
        with pytest.raises(Conflict, match="those of another river, whose views are in .*river/views.db"):
            other.run(shop())
    check(river, 100)


def test_another_bucket_is_refused_and_another_number_of_shards_is_rebuilt(river: River, bucket: str) -> None:
    river.topic("orders").append(rows(0, 100))
    process(river, shop())
    with River(river.path, checkpoints=f"{bucket}-other") as other:
        with pytest.raises(Conflict, match="its views are at epoch 1, but its checkpoint .* is gone"):
            other.run(shop())
        process(other, shop(), rebuild=True)
        check(other, 100)
    with River(river.path, checkpoints=f"{bucket}-other", settings=Settings.load(shards=5)) as other:
        other.topic("orders").append(rows(100, 120))
        process(other, shop())
        check(other, 120)
        assert len(ObjectFolder(f"{bucket}-other").folders()) == 1
