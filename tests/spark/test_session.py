"""Starting Spark: quietly, on loopback only, with any Java, and with an archive of classes or without."""

from __future__ import annotations

import os
import socket
import struct
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

import riverrun as rr
from riverrun.caches import cache_directory
from riverrun.errors import Unavailable
from riverrun.java import Java, find_java
from riverrun.settings import Settings
from riverrun.spark import archive, jvm
from riverrun.spark import session as module
from riverrun.spark.context import RunContext
from riverrun.spark.private_directory import private_directory
from riverrun.spark.session import cores, spark_home

CONF = {"spark.driver.memory": "100m"}
CONF_LOCAL = {"spark.master": "local[2]"}

# What Spark's processes say to each other: a request with a sender, a receiver, and an object as Java writes it.
RPC_REQUEST, NOBODY = 3, b"\0"
THEIR_OBJECT = b"\xac\xed\0\x05sr\0\x0apwn.Gadget" + bytes(8) + b"\x02\0\0xp"


def fake_java(tmp_path: Path, script: str) -> Java:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/java").write_text(f"#!/bin/sh\n{script}\n")
    (tmp_path / "bin/java").chmod(0o755)
    return Java(str(tmp_path), "PATH", "17.0.1")


def test_a_jvm_that_does_not_start_says_why(tmp_path):
    java = fake_java(tmp_path, "echo 'Error: could not find jvm.cfg' >&2; echo 'goodbye' >&2; exit 1")
    with pytest.raises(Unavailable, match="did not start: Error: could not find jvm.cfg. It was .*/bin/java"):
        jvm.start(java, spark_home(), [], CONF)


def test_a_jvm_that_says_nothing(tmp_path):
    with pytest.raises(Unavailable, match="it said nothing"):
        jvm.start(fake_java(tmp_path, "exit 3"), spark_home(), [], CONF)


def test_an_archive_belongs_to_one_java_and_one_spark(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    one, other = Java("/one", "PATH", "17.0.1"), Java("/other", "PATH", "21.0.8")
    path = archive.location(one, spark_home())
    assert path.startswith(f"{tmp_path}/riverrun/spark-4.3.")
    assert "-java-17.0.1-" in path
    assert archive.location(one, spark_home()) == path
    assert archive.location(other, spark_home()) != path


def test_what_spark_writes_has_no_name_that_another_user_could_take_first():
    """In the temporary directory, which all users share."""
    options = module._defaults("local[2]", Settings())
    below = {name for name, value in options.items() if value.startswith(private_directory())}
    assert below == {"spark.local.dir", "spark.sql.warehouse.dir", "spark.python.unix.domain.socket.dir"}


def test_only_the_newest_archives_are_kept(tmp_path):
    for age in range(6):
        (tmp_path / f"{age}.jsa").touch()
        os.utime(tmp_path / f"{age}.jsa", (1000 - age, 1000 - age))
    (tmp_path / "lock").touch()
    archive._forget_old(str(tmp_path))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["0.jsa", "1.jsa", "2.jsa", "lock"]


@pytest.mark.parametrize(("expression", "by_spark"), [("amount > 0", False), ("soundex(user) = 'A300'", True)])
def test_a_jvm_that_computes_nothing_does_not_compile_its_code_to_the_last(tmp_path, monkeypatch, expression, by_spark):
    started = []
    monkeypatch.setattr(module.jvm, "start", lambda java, home, options, conf: started.append(options))
    monkeypatch.setattr(
        module, "session", lambda master, settings, computes, environment: module._start(CONF_LOCAL, [], computes)
    )
    flow = rr.Flow("shop")
    flow.view("kept", flow.stream("orders", "user string, amount double").where(expression))
    with rr.River(tmp_path) as river:
        context = RunContext.open(river, flow, None, "", None)
        context.starting._thread.join()
    assert ("-XX:TieredStopAtLevel=1" not in started[0]) == by_spark


@pytest.mark.spark
def test_the_options_are_those_of_sparks_own_launcher():
    home = spark_home()
    launcher = [find_java().executable, "-cp", f"{home}/jars/*", "org.apache.spark.launcher.Main"]
    asked = subprocess.run(
        [*launcher, "org.apache.spark.deploy.SparkSubmit", "pyspark-shell"],
        env={**os.environ, "SPARK_HOME": home, "SPARK_SCALA_VERSION": "2.13"},
        capture_output=True,
        text=True,
        check=True,
    )
    wanted = [part.strip() for part in asked.stdout.split("\0")]
    options = [
        part for part in wanted[wanted.index("-cp") + 2 :] if part.startswith("-") and not part.startswith("-Xm")
    ]
    assert [option for option in options if "jdk.incubator.vector" not in option] == list(jvm.MODULE_OPTIONS)
    assert jvm.class_path(home).split(":")[0] in wanted[wanted.index("-cp") + 1].split(":")


PROGRAM = """
import psutil
from riverrun.spark.session import session
from riverrun.spark.trial import run_small_flow

spark = session()
assert run_small_flow() == 200
family = psutil.Process().children(recursive=True)
java = next(process for process in family if process.name() == "java")

def connections(kind):
    for process in family:
        try:
            yield from process.net_connections(kind)
        except psutil.NoSuchProcess:  # Spark calls chmod and the like
            pass

open_ports = [c.laddr.ip for c in connections("inet") if c.status == "LISTEN"]
print(java.exe(), sorted({ip.removeprefix("::ffff:") for ip in open_ports}), spark.sparkContext.uiWebUrl)

# Whatever Spark makes in the file system or listens on is private.
import os, stat
from riverrun.spark.private_directory import private_directory

print(spark.conf.get("spark.authenticate"), oct(stat.S_IMODE(os.stat(private_directory()).st_mode)))
sockets = [c.laddr for c in connections("unix") if c.status == "NONE" and c.laddr]
print([name for name in sockets if name.endswith(".sock") and not name.startswith(private_directory())])
print(len([name for name in os.listdir(private_directory()) if name.startswith(("blockmgr-", "spark-", "."))]) > 2)
print(private_directory())
"""


def without_java(directory: Path) -> Path:
    """A PATH with everything but Java: Spark calls chmod and the like."""
    directory.mkdir()
    for path in Path("/usr/bin").iterdir():
        if not path.name.startswith("java"):
            (directory / path.name).symlink_to(path)
    return directory


@pytest.mark.spark
def test_a_session_is_quiet_and_local_and_needs_no_java_and_no_archive(tmp_path):
    """With the JVM of the wheel, where no other is found, and with an archive that is none."""
    wheel = find_java({"PATH": "/nowhere"})
    cache = {"XDG_CACHE_HOME": str(tmp_path)}
    environment = {**os.environ, **cache, "JAVA_HOME": "/nowhere", "PATH": str(without_java(tmp_path / "bin"))}
    environment.pop("RIVERRUN_DEBUG", None)
    (tmp_path / "riverrun").mkdir()
    place = Path(archive.location(wheel, spark_home()).replace(cache_directory(), f"{tmp_path}/riverrun"))
    place.write_bytes(b"no archive" * 1000)
    ran = subprocess.run([sys.executable, "-c", PROGRAM], env=environment, capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stderr) == (0, "")
    quiet, authenticated, elsewhere, here, directory = ran.stdout.splitlines()
    assert quiet == f"{os.path.realpath(wheel.executable)} ['127.0.0.1'] None"
    assert (authenticated, elsewhere, here) == ("true 0o700", "[]", "True")
    assert not os.path.exists(directory)


@pytest.mark.spark
def test_one_session_per_process(spark_session):
    from concurrent.futures import ThreadPoolExecutor

    from riverrun.spark.session import session

    assert session() is spark_session
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(session).result() is spark_session
    assert spark_session.sparkContext.master == f"local[{cores()}]"


@pytest.mark.spark
def test_spark_that_somebody_else_started_is_used(spark_session, monkeypatch):
    spark_session.conf.set("spark.sql.session.timeZone", "Europe/Dublin")
    try:
        monkeypatch.setattr(module, "_ours", None)
        beside = module.session()
        assert beside is not spark_session
        assert beside.sparkContext is spark_session.sparkContext
        assert beside.conf.get("spark.sql.session.timeZone") == "UTC"
        assert module.session() is beside
    finally:
        spark_session.conf.set("spark.sql.session.timeZone", "UTC")


@pytest.mark.spark
def test_the_driver_reads_no_object_of_who_has_no_secret(spark_session):
    """Every user of the machine reaches this port, too. A class of theirs was looked for, to make an object of it."""
    body = NOBODY + NOBODY + b"\0\x06MASTER" + THEIR_OBJECT
    request = struct.pack(">bqi", RPC_REQUEST, 7, len(body)) + body
    port = int(spark_session.sparkContext.getConf().get("spark.driver.port"))
    with socket.create_connection(("127.0.0.1", port), timeout=20) as stranger:
        stranger.sendall(struct.pack(">q", len(request) + 8) + request)
        with stranger.makefile("rb") as answers:
            (length,) = struct.unpack(">q", answers.read(8))
            answer = answers.read(length - 8)
    assert b"SaslMessage" in answer  # it was asked who it is
    assert b"pwn.Gadget" not in answer


@pytest.mark.spark
@pytest.mark.parametrize("said", ["c\np0\n__str__\ne\n", "g\np0\ne\n", "A\nguessed\nc\np0\n__str__\ne\n"])
def test_nobody_but_the_jvm_calls_back(spark_session, said):
    """Every user of the machine reaches the port. Who has no token gets no answer, and the object p0 stays."""
    gateway = spark_session.sparkContext._gateway
    called = []

    class Callback:
        def run(self):
            called.append(True)

        class Java:
            implements = ("java.lang.Runnable",)

    thread = gateway.jvm.java.lang.Thread(Callback())
    with socket.create_connection(("127.0.0.1", gateway._callback_server.port), timeout=20) as stranger:
        stranger.sendall(said.encode())
        with suppress(ConnectionResetError):
            assert not stranger.recv(100).startswith(b"!y")
    thread.start()  # of the JVM: it has to make a connection of its own
    thread.join()
    assert called == [True]
