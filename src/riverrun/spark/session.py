"""One Spark session per process, set up for one machine; for a cluster, `master` or a session of your own.

What it takes to start: a JVM (less with `archive`), Spark's context, and Python workers. The workers are started while
the flow is still being compiled.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from pyspark import SparkConf, SparkContext
from pyspark.find_spark_home import _find_spark_home
from pyspark.sql import SparkSession

from riverrun.errors import Unavailable
from riverrun.java import find_java
from riverrun.settings import Settings
from riverrun.spark import archive, jvm, shipping
from riverrun.spark.callbacks import open_callbacks
from riverrun.spark.private_directory import private_directory

_CHECKPOINTS = "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
_ON_ONE_MACHINE = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    # Every user of the machine reaches these ports, and what comes there is deserialised. Spark makes the secret.
    "spark.authenticate": "true",
    # What is shuffled stays in the page cache.
    "spark.shuffle.compress": "false",
    "spark.shuffle.checksum.enabled": "false",
}
# Classes are those of the installed package. Verifying them again at every start takes a quarter of its time.
_UNVERIFIED = ("-XX:+UnlockDiagnosticVMOptions", "-XX:-BytecodeVerificationRemote")
# Where no row goes through the JVM, compiling its code a second time, to the last, only takes processors from the tasks.
_CONTROLLING = "-XX:TieredStopAtLevel=1"
_REGISTERING, _TOGETHER = 30, 1  # seconds that executors of a cluster may take to come, and that lie between them
_starting = threading.Lock()
_ours: SparkSession | None = None


def session(
    master: str | None = None,
    settings: Settings | None = None,
    options: Mapping[str, str] | None = None,
    jvm_options: Sequence[str] = (),
    computes: bool = True,
    environment: str | None = None,
) -> SparkSession:
    """The session of this process, started when first asked for. `computes` says whether Spark itself will compute with
    rows, or only tell the tasks what to do; `environment` is an archive of Python for the executors of a cluster.

    Where Spark is there already, started by somebody else, it is used, with the SQL settings that flows need.
    """
    global _ours
    with _starting:
        if SparkContext._active_spark_context is not None:
            if _ours is None or _ours.sparkContext is not SparkContext._active_spark_context:
                _ours = _beside(SparkSession.builder.getOrCreate())
            return _ours
        master = master or f"local[{cores()}]"
        conf = {**_defaults(master, settings or Settings.load()), **_python(master, environment), **(options or {})}
        os.environ.setdefault("POLARS_MAX_THREADS", "1")  # kernels compute in one thread each
        with _announced("starting Spark"):
            gateway = _living_gateway()
            if gateway is None:
                gateway = _start(conf, jvm_options, computes)
                open_callbacks(gateway)
            with _own_interrupts():
                context = SparkContext(conf=SparkConf(loadDefaults=False).setAll(list(conf.items())), gateway=gateway)
        # It would print a traceback when the JVM dies; the run says that in one line.
        context._accumulatorServer.handle_error = lambda request, client_address: None
        _ours = SparkSession(context)
        threading.Thread(target=_start_workers, args=(_ours,), name="riverrun-workers", daemon=True).start()
        return _ours


class Starting:
    """A session on its way: Spark starts in the background, and is waited for by whoever needs it."""

    def __init__(self, master: str | None, settings: Settings, computes: bool, environment: str | None = None) -> None:
        there = SparkContext._active_spark_context  # of somebody else, or from before
        self.is_local = is_local(there.master if there is not None else master or "local")
        self._session: SparkSession | None = None
        self._failure: BaseException | None = None
        asked = (master, settings, computes, environment)
        self._thread = threading.Thread(target=self._start, args=asked, name="riverrun-spark", daemon=True)
        self._thread.start()

    def _start(self, master: str | None, settings: Settings, computes: bool, environment: str | None) -> None:
        try:
            self._session = session(master, settings, computes=computes, environment=environment)
        except BaseException as error:
            self._failure = error

    def session(self) -> SparkSession:
        """The session, once it is there; raises what kept Spark from starting."""
        self._thread.join()
        if self._failure is not None:
            raise self._failure
        assert self._session is not None
        return self._session


def cores() -> int:
    """Processors this process may use."""
    return len(os.sched_getaffinity(0))


def executor_cores(spark: SparkSession) -> int:
    """Processors of a cluster's executors that have come by now. The first one is waited for, and those that come with it."""
    context = spark.sparkContext
    deadline, seen = time.monotonic() + _REGISTERING, 0
    while time.monotonic() < deadline:
        there = int(context._jsc.sc().getExecutorMemoryStatus().size()) - 1  # the driver is in it
        if there and there == seen:
            break
        seen = there
        time.sleep(_TOGETHER)
    return int(context.defaultParallelism)


def spark_home() -> str:
    """Where Spark is installed."""
    home: str = _find_spark_home()
    return home


def _python(master: str, environment: str | None) -> dict[str, str]:
    """Let workers import the packages of this environment; on a cluster those of an archive of it, or of the Python that
    PYSPARK_PYTHON names, or that is at the same place as this one."""
    if is_local(master):
        os.environ["PYSPARK_PYTHON"] = sys.executable
    elif environment is not None:
        os.environ["PYSPARK_PYTHON"] = shipping.EXECUTOR_PYTHON
        return shipping.archive_options(environment)
    else:
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    return {}


def _start(conf: Mapping[str, str], options: Sequence[str], computes: bool) -> Any:
    java, home = find_java(), spark_home()
    every = ["-XX:+UseParallelGC", *options]
    if not is_local(conf["spark.master"]):
        return jvm.submit(java, home, every, conf, shipping.driver_directory())
    if options:  # an archive is made of verified classes
        return jvm.start(java, home, every, conf)
    every += _UNVERIFIED if computes else (*_UNVERIFIED, _CONTROLLING)
    path = archive.location(java, home)
    if not os.path.exists(path):
        return jvm.start(java, home, every, conf)
    try:
        return jvm.start(java, home, [*every, *archive.using(path)], conf)
    except Unavailable:
        os.unlink(path)  # whatever it was, an archive can be made again
        return jvm.start(java, home, every, conf)


def is_local(master: str) -> bool:
    """Whether all of Spark runs on this machine."""
    return master.startswith("local")


def _living_gateway() -> Any:
    """The JVM that a session of this process left behind, if it is still there."""
    gateway = SparkContext._gateway
    if gateway is not None and getattr(gateway, "proc", None) is not None and gateway.proc.poll() is not None:
        SparkContext._gateway = SparkContext._jvm = None
    return SparkContext._gateway


def _start_workers(spark: SparkSession) -> None:
    try:
        # The rows stay in Spark. Were they read here, a process that ends meanwhile would be aborted in Arrow's code.
        started = spark.range(0, cores(), 1, cores()).mapInArrow(_same, "id bigint")
        started.write.format("noop").mode("overwrite").save()
    except Exception:  # the first epoch will start them, or say what is wrong
        pass


def _same(batches: Iterable[Any]) -> Iterable[Any]:
    return batches


@contextmanager
def _own_interrupts() -> Iterator[None]:
    """Ctrl-C stays what it was: Spark would have it cancel the epoch that a run wants to finish."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.getsignal(signal.SIGINT)
    yield
    signal.signal(signal.SIGINT, before)


@contextmanager
def _announced(what: str) -> Iterator[None]:
    """A line that counts seconds, for whoever sits at a terminal; gone when it is done."""
    if not sys.stderr.isatty():
        yield
        return
    done = threading.Event()
    begun = time.monotonic()

    def count() -> None:
        while True:
            sys.stderr.write(f"\r{what} … {time.monotonic() - begun:.0f} s")
            sys.stderr.flush()
            if done.wait(1):
                return

    counting = threading.Thread(target=count, name="riverrun-starting", daemon=True)
    counting.start()
    try:
        yield
    finally:
        done.set()
        counting.join()
        sys.stderr.write("\r\033[K")
        sys.stderr.flush()


def _beside(spark: SparkSession) -> SparkSession:
    """A session beside that of somebody else, on the same Spark."""
    ours = spark.newSession()
    for name, value in _sql_defaults().items():
        ours.conf.set(name, value)
    return ours


def _defaults(master: str, settings: Settings) -> dict[str, str]:
    directory = private_directory()
    own = {
        "spark.local.dir": directory,
        "spark.python.unix.domain.socket.enabled": "true",
        "spark.python.unix.domain.socket.dir": directory,
    }
    return {
        **({**_ON_ONE_MACHINE, **own} if is_local(master) else {}),
        **_sql_defaults(),
        "spark.app.name": "riverrun",
        "spark.master": master,
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.memory": f"{settings.driver_memory >> 20}m",
        "spark.sql.warehouse.dir": f"{directory}/warehouse",
        "spark.python.daemon.module": "riverrun.spark.daemon",
    }


def _sql_defaults() -> dict[str, str]:
    return {
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.adaptive.enabled": "false",
        "spark.sql.shuffle.partitions": str(cores()),
        # Epochs repeat themselves exactly; nobody needs to find out by hashing every shuffled byte.
        "spark.sql.shuffle.orderIndependentChecksum.enabled": "false",
        "spark.sql.shuffle.orderIndependentChecksum.enableFullRetryOnMismatch": "false",
        "spark.sql.execution.arrow.maxRecordsPerBatch": "65536",
        "spark.sql.execution.pyspark.udf.faulthandler.enabled": "true",
        "spark.sql.streaming.checkpointFileManagerClass": _CHECKPOINTS,
        "spark.sql.streaming.minBatchesToRetain": "4",
    }
