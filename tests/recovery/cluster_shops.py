"""Rivers whose flows run on a Spark cluster, on workers that see all of the driver's disk, or nothing of it."""

from __future__ import annotations

import shutil
import uuid
from datetime import timedelta

from kafka_server import new_kafka
from oracles.recovery_shop import BASE, Row, orders
from programs.recovery_flows import ORDERS
from recovery.conftest import Market, Shop, WatchedEvents
from riverrun.environment_archive import pack_environment
from riverrun.river import River
from s3_server import shared_s3
from spark_cluster import SparkCluster


class OnCluster(Shop):
    """On a Spark cluster: two workers with directories of their own."""

    bare = False  # whether workers have no Python environment
    apart = False  # whether they see nothing of the driver's disk

    def prepare(self) -> None:
        self.directory.mkdir(parents=True, exist_ok=True)
        self.cluster = SparkCluster(bare=self.bare, hidden=self.directory if self.apart else None)
        self._environment |= self.cluster.environment | {"RIVERRUN_SHARDS": "4"}

    def end(self) -> None:
        super().end()
        self.cluster.stop()


class ClusterShop(OnCluster):
    """The same with rows enough for both workers, none late."""

    def orders(self, batch: int) -> list[Row]:
        """Of so many users that their state is more than a manifest holds."""
        rows = [row for row in orders(batch, size=25_000) if row["at"] > BASE - timedelta(hours=1)]
        return [{**row, "user": f"u{number * 7919 % 20_000}"} for number, row in enumerate(rows)]

    def arm(self, place: str) -> None:
        """Let the first task of an executor that comes to a place stop there, in runs that start from now on."""
        armed = f"task.{place}=stop?{self.directory}/{place}"
        self.cluster.configure(executorEnv__RIVERRUN_FAILPOINTS=armed)


class BucketShop(ClusterShop):
    """The same with state in a bucket."""

    def prepare(self) -> None:
        super().prepare()
        self.server = shared_s3()
        self.bucket = f"{self.server.bucket}/{uuid.uuid4().hex}"
        self._environment["RIVERRUN_CHECKPOINTS"] = self.bucket

    def lose_disk(self) -> None:
        """Of the driver: all that is not the log and the views."""
        shutil.rmtree(self.path / "checkpoints")


class LonelyShop(ClusterShop):
    """The same on workers that would need the log in the driver's directory, and do not see it."""

    apart = True


class ApartShop(BucketShop):
    """The same on machines that share nothing: topics on Kafka, state in the bucket, and of Python what the driver gives."""

    bare = apart = True

    def prepare(self) -> None:
        super().prepare()
        self.broker = new_kafka()
        self.log = self.broker.url
        self.archive = str(self.directory / "environment.tar.gz")
        pack_environment(self.archive)
        self._environment["RIVERRUN_ENVIRONMENT"] = self.archive

    def _open(self, river: River, **topic: object) -> None:
        river.topic("orders", ORDERS, key="user", time="at", partitions=3, **topic)

    def end(self) -> None:
        super().end()
        self.broker.remove()


class ClusterMarket(OnCluster, Market):
    """Few rows: Spark computes expressions, so that every epoch goes through all stages, and is not computed by one task."""

    def prepare(self) -> None:
        super().prepare()
        self._environment["RIVERRUN_EXPRESSIONS"] = "spark"


class ClusterWatch(OnCluster, WatchedEvents):
    """The same of the flow with patterns."""

    def prepare(self) -> None:
        super().prepare()
        self._environment["RIVERRUN_EXPRESSIONS"] = "spark"
