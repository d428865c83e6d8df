"""What a run and its rebuilds work with: the river, the flow made ready, its topics, Spark, and where epochs begin."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property

from pyspark.sql import SparkSession

from riverrun.flow import Flow
from riverrun.log.topic import Start, Topic
from riverrun.river import River
from riverrun.runtime.compile.compiler import compile_flow
from riverrun.runtime.compile.engines import needs_spark
from riverrun.runtime.compile.job import Job
from riverrun.runtime.opening import beginning, open_inputs
from riverrun.runtime.patience import Patience
from riverrun.runtime.plan import Limit
from riverrun.spark.analyst import SparkAnalyst
from riverrun.spark.deployment import Deployment
from riverrun.spark.progress import RunProgress
from riverrun.spark.query import Surroundings
from riverrun.spark.session import Starting, cores


@dataclass(frozen=True)
class RunContext:
    """Everything that stays the same while a run lives. `job` is there once the flow has been compiled."""

    river: River
    flow: Flow
    suffix: str
    inputs: Mapping[str, Topic]
    start: Mapping[str, Mapping[int, int]] | None
    limit: Limit
    starting: Starting
    compiled: Job | None = None

    @classmethod
    def open(cls, river: River, flow: Flow, start: Start, suffix: str, max_rows: int | None) -> RunContext:
        """Topics are opened, and Spark begins to start."""
        inputs = open_inputs(river, flow)
        settings = river.settings
        limit = Limit(max_rows or settings.epoch_rows, settings.epoch_bytes)
        starting = Starting(river.master, settings, needs_spark(flow, settings.expressions))
        return cls(river, flow, suffix, inputs, beginning(inputs, start), limit, starting)

    def compile(self, shards: int) -> RunContext:
        """The same with the flow made ready; Spark is waited for only where nobody else can tell a type."""
        engine, analyst = self.river.settings.expressions, SparkAnalyst(lambda: self.spark)
        job = compile_flow(self.flow, shards, analyst, engine)
        analyst.check(job)
        return replace(self, compiled=job)

    @property
    def job(self) -> Job:
        assert self.compiled is not None
        return self.compiled

    @cached_property
    def spark(self) -> SparkSession:
        return self.starting.session()

    @property
    def name(self) -> str:
        """The flow's name, with the suffix of a replay."""
        return self.flow.name + self.suffix

    def deploy(self, home: str, rebuild: int | None = None) -> Deployment:
        """The job in a home of its own."""
        return Deployment(
            river=self.river.path,
            job=self.job,
            flow=self.name,
            home=home,
            views=self.river.views_address,
            start=self.start,
            limit=self.limit,
            slices=cores(),
            on_one_machine=self.starting.is_local,
            rebuild=rebuild,
            log=self.river.log_with_secrets,
        )

    def surroundings(self, who: str, patience: Patience, progress: RunProgress) -> Surroundings:
        """What a query of this run works with."""
        return Surroundings(who, self.flow, self.spark, patience, progress)
