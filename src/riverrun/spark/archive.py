"""An archive of the classes that Spark loads, which halves the time a JVM needs to start (class data sharing).

`riverrun doctor --spark` makes it, once for each Java and Spark: it runs a small flow and lets the JVM write down what
it has loaded, about 170 MB in the cache directory (XDG_CACHE_HOME, else ~/.cache). A session uses an archive that is
there and never needs one; a JVM that an archive does not fit ignores it.
"""

from __future__ import annotations

import fcntl
import os
import zlib
from importlib.metadata import version

from riverrun import durable
from riverrun.caches import cache_directory
from riverrun.errors import Unavailable
from riverrun.java import Java, find_java
from riverrun.spark.jvm import class_path

_KEPT = 3
_PATIENCE = 300  # seconds that a JVM may take to write an archive


def location(java: Java, spark_home: str) -> str:
    """The archive of this Java and this Spark, whether it is there or not."""
    belongs_to = zlib.crc32(f"{java.home} {class_path(spark_home)}".encode())
    name = f"spark-{version('pyspark')}-java-{java.version}-{belongs_to:08x}.jsa"
    return os.path.join(cache_directory(), name)


def is_made() -> bool:
    """Whether there is one for the Java that would be used."""
    from riverrun.spark.session import spark_home

    return os.path.exists(location(find_java(), spark_home()))


def using(path: str) -> list[str]:
    """Options of a JVM that starts with this archive."""
    return [f"-XX:SharedArchiveFile={path}", "-Xshare:auto"]


def make() -> str:
    """Make the archive for the Java that would be used, in this process, which must not have a session yet.

    Whoever comes second waits for the first. The archive is put in place whole, or not at all.
    """
    from riverrun.spark.session import spark_home

    path = location(find_java(), spark_home())
    durable.make_directory(os.path.dirname(path))
    with open(f"{os.path.dirname(path)}/lock", "wb", opener=durable.open_file) as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if os.path.exists(path):
            return path
        partial = f"{path}.{os.getpid()}"
        try:
            _record(partial)
            durable.sync_file(partial)
            durable.rename(partial, path)
        except FileNotFoundError:
            raise Unavailable("the JVM wrote no archive", hint="Is there room in the cache directory?") from None
        finally:
            if os.path.exists(partial):
                os.unlink(partial)
        _forget_old(os.path.dirname(path))
    return path


def _record(path: str) -> None:
    """Run a flow in a session whose JVM writes down its classes when it ends."""
    from riverrun.spark.session import session
    from riverrun.spark.trial import run_small_flow

    spark = session(jvm_options=[f"-XX:ArchiveClassesAtExit={path}"])
    process = spark.sparkContext._gateway.proc
    assert run_small_flow() == 200
    spark.stop()
    process.stdin.close()
    process.wait(_PATIENCE)


def _forget_old(directory: str) -> None:
    found = [f"{directory}/{name}" for name in os.listdir(directory) if name.endswith(".jsa")]
    for path in sorted(found, key=os.path.getmtime, reverse=True)[_KEPT:]:
        os.unlink(path)
