"""What a run and its rebuilds work with: the river, the flow made ready, its topics, Spark, and where epochs begin."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property

from pyspark.sql import SparkSession

from riverrun.flow import Flow
from riverrun.log.opened_log import named_variables
from riverrun.log.topic import Start, Topic
from riverrun.object_folder import ENVIRONMENT
from riverrun.river import River
from riverrun.runtime.compile.compiler import compile_flow
from riverrun.runtime.compile.engines import needs_spark
from riverrun.runtime.compile.job import Job
from riverrun.runtime.manifest import Manifest
from riverrun.runtime.opening import beginning, open_inputs
from riverrun.runtime.patience import Patience
from riverrun.runtime.plan import Limit
from riverrun.spark.analyst import SparkAnalyst
from riverrun.spark.deployment import Deployment
from riverrun.spark.progress import RunProgress
from riverrun.spark.query import Surroundings
from riverrun.spark.session import Starting, cores, executor_cores

_SHARDS_PER_CORE = 4  # so that a cluster may grow, and that slow tasks do not hold up the others


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
        starting = Starting(river.master, settings, needs_spark(flow, settings.expressions), river.environment)
        return cls(river, flow, suffix, inputs, beginning(inputs, start), limit, starting)

    def compile(self, known: Manifest | None) -> RunContext:
        """The same with the flow made ready, to go on with what is known of it; Spark is waited for only where nobody else
        can tell a type, or how many processors there are."""
        shards = known.shards if known else self.river.settings.shards or self._default_shards()
        engine, analyst = self.river.settings.expressions, SparkAnalyst(lambda: self.spark)
        job = compile_flow(self.flow, shards, analyst, engine)
        analyst.check(job)
        return replace(self, compiled=job)

    def _default_shards(self) -> int:
        return cores() if self.starting.is_local else _SHARDS_PER_CORE * executor_cores(self.spark)

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
            # A cluster may have more processors later; how many tasks an epoch has at most, its shards say.
            slices=cores() if self.starting.is_local else self.job.shards,
            on_one_machine=self.starting.is_local,
            rebuild=rebuild,
            log=self.river.log_with_secrets,
            cache_bytes=self.river.settings.state_cache_bytes,
            environment=self._carried_environment(),
        )

    def _carried_environment(self) -> dict[str, str]:
        """What tasks on other machines need of this environment: who may use the bucket, and what the log's address names."""
        bucket = () if self.river.bucket is None else ENVIRONMENT
        named = named_variables(self.river.log_with_secrets)
        return {name: os.environ[name] for name in (*bucket, *named) if name in os.environ}

    def surroundings(self, who: str, patience: Patience, progress: RunProgress) -> Surroundings:
        """What a query of this run works with."""
        return Surroundings(who, self.flow, self.spark, patience, progress)
