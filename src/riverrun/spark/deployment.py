"""A job in a river: what the planner and the tasks need to find everything, and what each of their processes keeps."""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property, lru_cache

from pyspark.cloudpickle import loads

from riverrun import durable
from riverrun.errors import Unavailable
from riverrun.log.topic import Topic
from riverrun.object_folder import CREDENTIALS
from riverrun.river import River
from riverrun.runtime.compile.job import Job
from riverrun.runtime.exchange import Exchange, InlineExchange, SharedExchange
from riverrun.runtime.home import state_place
from riverrun.runtime.plan import Limit
from riverrun.runtime.task import Tasks
from riverrun.runtime.transactions import find_transactions
from riverrun.spark.private_directory import private_directory
from riverrun.state.directory import CACHE_BYTES


@dataclass(frozen=True)
class Deployment:
    """Where a flow runs. It travels to the planner and to the tasks."""

    river: str
    job: Job
    flow: str  # its name, with the suffix of a replay
    home: str  # the flow's own directory
    views: str  # the home store's address
    start: Mapping[str, Mapping[int, int]] | None
    limit: Limit
    slices: int
    on_one_machine: bool
    exchange: str | None = None  # a directory that all tasks see; None: rows travel inside Spark
    rebuild: int | None = None  # its token
    log: str | None = None  # where topics are, if not in the river
    cache_bytes: int = CACHE_BYTES  # of state that is in a bucket
    environment: Mapping[str, str] = field(
        default_factory=dict, repr=False
    )  # what opens that bucket, where it is said so

    @property
    def state(self) -> str:
        return state_place(self.home)

    @property
    def planner_error(self) -> str:
        """Where the planner leaves the error it fails with: of what it raises, Spark passes on the text."""
        return f"{self.home}/planner-error"

    @property
    def finish_mark(self) -> str:
        """A file whose presence asks the planner to end the input."""
        return f"{self.home}/finish"

    def finish(self, asked: bool) -> None:
        """Ask the planner to end the input, or not to."""
        if asked:
            os.close(durable.open_file(self.finish_mark, os.O_WRONLY | os.O_CREAT))
        elif os.path.exists(self.finish_mark):
            os.unlink(self.finish_mark)

    @property
    def label(self) -> str:
        """What Spark calls it: a flow and its rebuild run side by side."""
        return self.flow if self.rebuild is None else f"{self.flow}~{self.rebuild}"

    def connect(self, epoch: int) -> Exchange:
        """The exchange of an epoch, for one task or for the driver."""
        if self.exchange is None:
            return InlineExchange()
        return SharedExchange(self.exchange, epoch, self.exchange_room // self.slices)

    @property
    def exchange_room(self) -> int:
        """How many bytes an epoch may have in the exchange: its rows several times, once for each stage."""
        return 4 * self.limit.size


class Worker:
    """A process of Spark that serves a deployment, epoch after epoch: its topics are open, its projections prepared."""

    def __init__(self, deployment: Deployment) -> None:
        self.deployment = deployment
        self.tasks = Tasks(deployment.job, deployment.cache_bytes)
        own = any(name in os.environ for name in CREDENTIALS)  # half of one login and half of another would be none
        for name, value in deployment.environment.items():  # a machine may have its own
            if not (own and name in CREDENTIALS):
                os.environ.setdefault(name, value)

    @cached_property
    def _river(self) -> River:
        """The river as this machine sees it. Where topics are on Kafka, nothing of it has to be here."""
        path, log = self.deployment.river, self.deployment.log
        if not os.path.exists(f"{path}/river.json"):
            if log is None:
                raise Unavailable(
                    f"{socket.gethostname()}, which runs tasks of flow {self.deployment.flow}, does not see {path}, where its"
                    " topics are",
                    hint='Put the river on a path that all machines see, or the log on Kafka: log = "kafka://HOST:9092"',
                )
            path = f"{private_directory()}/river"
        return River(path, log=log)

    def topics(self) -> dict[str, Topic]:
        """The topics that the job reads."""
        names = {reading.topic for reading in self.deployment.job.readings}
        return {name: self._river.topic(name) for name in sorted(names)}

    def transactions(self, topics: Mapping[str, Topic]) -> dict[str, Topic]:
        """Where captures tell which transactions in these topics are whole."""
        return find_transactions(topics, set(self._river.topics()), self._river.topic)


@lru_cache(maxsize=4)
def worker(packed: bytes) -> Worker:
    """The worker of this process for a pickled deployment."""
    return Worker(loads(packed))
