"""Starting the JVM of a Spark driver, and keeping it quiet.

On one machine the command is put together here: `spark-submit` would start a second JVM to do that, and insists on a
module that small JVMs lack. For a cluster `spark-submit` does it, with the cluster's own `spark-env.sh`.
"""

from __future__ import annotations

import collections
import logging
import os
import shutil
import subprocess
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from typing import IO, Any

from riverrun.errors import Closed, Unavailable
from riverrun.java import Java, fitting_home
from riverrun.spark.private_directory import private_directory

log = logging.getLogger("riverrun.spark.jvm")

_PATIENCE = 120  # seconds until a JVM that does not answer is given up
_launching = threading.Lock()
_given_up = threading.Event()
_OPENED = (
    *(f"java.base/java.{name}" for name in ("lang", "lang.invoke", "lang.reflect", "io", "net", "nio", "util")),
    *(f"java.base/java.util.{name}" for name in ("concurrent", "concurrent.atomic")),
    *(f"java.base/{name}" for name in ("jdk.internal.ref", "sun.nio.ch", "sun.nio.cs", "sun.security.action")),
    "java.base/sun.util.calendar",
    "java.security.jgss/sun.security.krb5",
)
# As Spark's launcher has them, but for jdk.incubator.vector: only MLlib computes with it.
MODULE_OPTIONS = (
    "-XX:+IgnoreUnrecognizedVMOptions",
    *(f"--add-opens={package}=ALL-UNNAMED" for package in _OPENED),
    "-Dio.netty.tryReflectionSetAccessible=true",
    "-Dio.netty.allocator.type=pooled",
    "-Dio.netty.handler.ssl.defaultEndpointVerificationAlgorithm=NONE",
    "--sun-misc-unsafe-memory-access=allow",
    "--enable-native-access=ALL-UNNAMED",
    "-Dderby.connection.requireAuthentication=false",
)
LOGGING = f"-Dlog4j2.configurationFile={os.path.dirname(__file__)}/log4j2.properties"


def debugging() -> bool:
    """Whether what Spark says goes to the terminal."""
    return os.environ.get("RIVERRUN_DEBUG") == "1"


def class_path(spark_home: str) -> str:
    """Spark's jars, one by one and in a fixed order: an archive of classes belongs to exactly this list."""
    jars = sorted(name for name in os.listdir(f"{spark_home}/jars") if name.endswith(".jar"))
    jars.sort(key=lambda name: not name.startswith("slf4j-api-"))  # copies of it inside other jars must not win
    return ":".join(f"{spark_home}/jars/{name}" for name in jars)


def give_up() -> None:
    """This process ends, and needs no JVM any more: one that is being started is ended, and none is from now on."""
    _given_up.set()
    with _launching:
        pass  # whoever is starting one notices


def start(java: Java, spark_home: str, options: Sequence[str], conf: Mapping[str, str]) -> Any:
    """The py4j gateway of a new JVM on this machine. The JVM ends when this process does."""
    with _launching:
        return _launch(java, spark_home, options, conf)


def _launch(java: Java, spark_home: str, options: Sequence[str], conf: Mapping[str, str]) -> Any:
    from pyspark.java_gateway import launch_gateway
    from pyspark.serializers import UTF8Deserializer, read_int

    directory = tempfile.mkdtemp(prefix="riverrun-")
    answer = f"{directory}/gateway"
    process: subprocess.Popen[bytes] | None = None
    try:
        process = subprocess.Popen(
            [
                *(java.executable, "-cp", class_path(spark_home), f"-Xmx{conf['spark.driver.memory']}"),
                *(*MODULE_OPTIONS, LOGGING, *options, *(["-Driverrun.log=warn"] if debugging() else [])),
                "org.apache.spark.deploy.SparkSubmit",
                *(part for name, value in conf.items() for part in ("--conf", f"{name}={value}")),
                "pyspark-shell",
            ],
            stdin=subprocess.PIPE,  # closed when this process ends, however it ends
            **_outputs(),
            env=_environment(spark_home, answer),
            start_new_session=True,  # Ctrl-C is for this process, which finishes its epoch first
        )
        said = _Said(process.stderr)
        deadline = time.monotonic() + _PATIENCE
        while not os.path.isfile(answer):
            if _given_up.is_set():
                raise Closed("Spark's JVM is not needed any more")
            if process.poll() is not None or time.monotonic() > deadline:
                raise Unavailable(f"Spark's JVM did not start: {said.reason()}", hint=f"It was {java.executable}")
            time.sleep(0.01)
        with open(answer, "rb") as file:
            port, secret = read_int(file), UTF8Deserializer().loads(file)
    except BaseException:
        if process is not None:  # without the directory it would neither answer nor end
            _end(process)
        raise
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    # This is how pyspark is told of a JVM that runs already.
    os.environ.update(PYSPARK_GATEWAY_PORT=str(port), PYSPARK_GATEWAY_SECRET=secret)
    try:
        gateway = launch_gateway()
    finally:
        del os.environ["PYSPARK_GATEWAY_PORT"], os.environ["PYSPARK_GATEWAY_SECRET"]
    gateway.proc = process
    return gateway


def submit(java: Java, spark_home: str, options: Sequence[str], conf: Mapping[str, str], directory: str) -> Any:
    """The py4j gateway of the driver of a cluster, started by Spark's own scripts in a directory."""
    from pyspark import SparkConf
    from pyspark.errors import PySparkRuntimeError
    from pyspark.java_gateway import launch_gateway

    os.environ["JAVA_HOME"] = fitting_home(java, private_directory())
    every = {"spark.driver.extraJavaOptions": " ".join([LOGGING, *options]), **conf}
    # Its JVM writes to a pipe that somebody must read from the beginning, so the pipe is made here.
    reading, writing = os.pipe()
    said = _Said(os.fdopen(reading, "rb"))
    outputs: dict[str, Any] = {} if debugging() else {"stdout": subprocess.DEVNULL, "stderr": writing}
    try:
        given = SparkConf(loadDefaults=False).setAll(list(every.items()))
        return launch_gateway(given, {**outputs, "cwd": directory})
    except PySparkRuntimeError:
        os.close(writing)
        writing = -1
        raise Unavailable(f"Spark's driver did not start: {said.reason()}", hint=f"Spark is {spark_home}") from None
    finally:
        if writing >= 0:
            os.close(writing)


def _end(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()
    if process.stdin:
        process.stdin.close()


def _outputs() -> dict[str, Any]:
    return {} if debugging() else {"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE}


def _environment(spark_home: str, answer: str) -> dict[str, str]:
    import pyspark

    inherited = dict(os.environ)
    if os.path.samefile(spark_home, os.path.dirname(pyspark.__file__)):
        # Workers find pyspark where they find this package. With SPARK_HOME they would load it from an archive of
        # sources, and each of the processes would compile it again: half a second, five times.
        inherited.pop("SPARK_HOME", None)
    else:
        inherited["SPARK_HOME"] = spark_home
    return {
        **inherited,
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_CONNECT_MODE": "0",
        "PYTHONHASHSEED": "0",
        # Spark asks this Python for data sources among the installed packages, in a process of its own. Without it,
        # there are none; ours is registered by hand.
        "PYSPARK_DRIVER_PYTHON": "/none",
        "_PYSPARK_DRIVER_CONN_INFO_PATH": answer,
    }


class _Said:
    """The last lines a JVM wrote to stderr: read all the time, so that it never has to wait, and soon forgotten."""

    def __init__(self, stream: IO[bytes] | None) -> None:
        self._lines: collections.deque[str] = collections.deque(maxlen=100)
        self._reader = threading.Thread(target=self._read, args=(stream,), name="riverrun-jvm", daemon=True)
        self._reader.start()

    def _read(self, stream: IO[bytes] | None) -> None:
        for line in stream or ():
            text = line.decode(errors="replace").rstrip()
            self._lines.append(text)
            log.debug("%s", text)
        if stream:
            stream.close()

    def reason(self) -> str:
        """The line that says most about why it ended."""
        self._reader.join(timeout=1)
        telling = [line for line in self._lines if "rror" in line or "xception" in line]
        return (telling or list(self._lines) or ["it said nothing"])[0][:300]
