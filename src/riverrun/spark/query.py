"""One streaming query of Spark: epoch after epoch is computed and takes effect.

A run has one of them, a rebuild another one beside it.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from pyspark.logger import PySparkLogger
from pyspark.sql import DataFrame, SparkSession

from riverrun.errors import Closed, Corrupt, Invalid
from riverrun.failpoints import failpoint
from riverrun.flow import Flow
from riverrun.runtime.checkpoint import Checkpoint
from riverrun.runtime.commit import Committer
from riverrun.runtime.exchange import ExchangeDirectory
from riverrun.runtime.patience import Patience
from riverrun.runtime.transit import pick_up_error
from riverrun.spark import failures
from riverrun.spark.blame import blame
from riverrun.spark.compile import SparkJob
from riverrun.spark.deployment import Deployment
from riverrun.spark.progress import RunProgress

log = logging.getLogger("riverrun.spark")

# What fails in an epoch is told by the run, in one line; these would print it again, at length.
for _name in ("py4j.clientserver", "SQLQueryContextLogger", "DataFrameQueryContextLogger"):
    PySparkLogger.getLogger(_name).setLevel(logging.CRITICAL)
# py4j tells the root logger when the JVM does not answer.
logging.getLogger().addFilter(lambda record: "/py4j/" not in record.pathname)


@dataclass(frozen=True)
class Surroundings:
    """What a query works with, beside its deployment: who it works for, what waits for it, who counts its epochs."""

    who: str
    flow: Flow
    spark: SparkSession
    patience: Patience
    progress: RunProgress


class EpochQuery:
    """A query over a deployment's topics, whose epochs a committer makes visible. `admit` raises when an epoch must not
    begin."""

    def __init__(
        self, around: Surroundings, deployment: Deployment, committer: Committer, admit: Callable[[], None]
    ) -> None:
        self._exchange = (
            ExchangeDirectory(deployment.home, deployment.exchange_room) if deployment.on_one_machine else None
        )
        if self._exchange is not None:
            deployment = replace(deployment, exchange=self._exchange.path)
        self.deployment = deployment
        self.committer = committer
        self.trouble: BaseException | None = None  # what the newest epochs failed with, until one succeeds
        self._around = around
        self._admit = admit
        self._job = SparkJob(around.spark, deployment, around.flow)
        self._checkpoint = Checkpoint(deployment.home, deployment.flow)
        self._tries = failures.Tries(around.who)
        self._computing = threading.Lock()
        self._halted = False
        self._raised: BaseException | None = None  # by the newest epoch, while Spark only knows its text
        self._query: Any = None

    def start(self) -> None:
        """Start, or start again."""
        failures.start_through(self._start, self._around.who)

    def _start(self) -> None:
        self._raised = None
        pick_up_error(self.deployment.planner_error)  # an old one
        if self._exchange is not None:
            self._exchange.sweep(None)
        self._query = (
            self._job.stream()
            .writeStream.foreachBatch(self._take)
            # On this machine, whatever file system a cluster has by default.
            .option("checkpointLocation", f"file:{self.deployment.home}/checkpoint")
            # Of an old flow's run in this process it is another one.
            .queryName(os.path.basename(self.deployment.home))
            .trigger(processingTime="0 seconds")
            .start()
        )

    @property
    def is_started(self) -> bool:
        return self._query is not None

    def wait(self, seconds: float) -> bool:
        """Whether it has ended, waiting so long for it; raises what it failed with, and `Unavailable` with the JVM."""
        try:
            return bool(self._query.awaitTermination(seconds))
        except Exception as error:
            if failures.is_gone(error):
                raise failures.jvm_has_ended(self._around.who) from error
            raise self._raised or pick_up_error(self.deployment.planner_error) or error from None

    def pause_after(self, error: BaseException) -> float:
        """Seconds to wait before the query is started again; raises `error` where that cannot help."""
        self.trouble = error
        return self._tries.pause(error, self.committer.last.epoch + 1)

    def halt(self, patience: float | None = None) -> None:
        """No epoch begins any more; the one in progress is waited for, but not longer than `patience` seconds."""
        self._halted = True
        if self._computing.acquire(timeout=-1 if patience is None else patience):
            self._computing.release()

    def stop(self) -> None:
        """Stop at once. An epoch that has not taken effect will be repeated."""
        self._halted = True
        self.report()
        try:
            if self._query is not None:
                self._query.stop()
        except Exception as error:
            if not failures.is_gone(error):  # a JVM that has ended has stopped it
                raise
        if self._exchange is not None:
            self._exchange.close()

    def report(self) -> None:
        """Take in what Spark has told of its epochs since; it forgets that when it is stopped."""
        if self._query is not None and not self._around.progress.is_complete:
            try:
                self._around.progress.told(self._query.recentProgress)
            except Exception as error:  # the JVM is gone, and the run says so itself
                log.debug("no progress from Spark: %s", error)

    def _take(self, batch: DataFrame, number: int) -> None:
        """Spark's call for each batch: the epoch is computed here, and takes effect."""
        with self._computing:
            if self._halted:
                raise Closed(f"{self._around.who} is being stopped")
            try:
                self._admit()
                if not self.committer.is_committed(number + 1):
                    self._run_epoch(batch, number + 1)
                self.trouble = None
            except BaseException as error:
                self._raised = self._blame(error, number + 1) or error
                raise
        failpoint("epoch.done")

    def _blame(self, error: BaseException, epoch: int) -> Invalid | None:
        """The expression of the flow that failed, if it was one."""
        try:
            plan = self._checkpoint.plan(epoch)
        except (Corrupt, OSError):
            return None
        before = plan.begin or self.committer.last.positions
        return blame(error, self._around.spark, self.deployment, before, plan)

    def _run_epoch(self, batch: DataFrame, epoch: int) -> None:
        begun = time.monotonic()
        result = self._job.compute(batch, epoch)
        self.committer.check(result)
        computed = time.monotonic()
        self._checkpoint.settle(epoch, result.control.positions)
        self._around.patience.through(lambda: self._checkpoint.keep(epoch, self.committer.fence))
        self._around.patience.through(lambda: self.committer.apply(result))
        exchanged = self._exchange.size if self._exchange is not None else 0
        self._around.progress.committed(result, computed - begun, time.monotonic() - computed, exchanged)
        if self._exchange is not None:
            self._exchange.sweep(epoch)
