"""What Spark writes beside a river is its user's alone, and goes with the process."""

from __future__ import annotations

import fcntl
import os
import shutil
import signal
import stat
import subprocess
import sys
from pathlib import Path

from riverrun import java
from riverrun.java import Java
from riverrun.spark import jvm
from riverrun.spark.private_directory import PrivateDirectory, private_directory

MAKE = """
import sys, time
from riverrun.spark import private_directory
private_directory._place = lambda: sys.argv[1]
print(private_directory.private_directory(), flush=True)
sys.stdin.read()
"""


def make(place: Path) -> tuple[subprocess.Popen[str], str]:
    process = subprocess.Popen(
        [sys.executable, "-c", MAKE, str(place)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    return process, process.stdout.readline().strip()


def test_nobody_else_can_enter_it(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        made = PrivateDirectory(str(tmp_path))
    finally:
        os.umask(before)
    assert stat.S_IMODE(os.stat(made.path).st_mode) == 0o700
    made.remove()
    assert list(tmp_path.iterdir()) == []


def test_it_goes_with_its_process_and_what_a_kill_left_with_the_next(tmp_path: Path) -> None:
    living, used = make(tmp_path)
    killed, left = make(tmp_path)
    killed.send_signal(signal.SIGKILL)
    killed.communicate()
    assert sorted(map(str, tmp_path.iterdir())) == sorted([used, left])
    ended, third = make(tmp_path)
    assert sorted(map(str, tmp_path.iterdir())) == sorted([used, third])
    for process in (ended, living):
        process.communicate()
    assert list(tmp_path.iterdir()) == []


def test_one_that_was_taken_for_abandoned_before_it_was_locked_is_made_again(tmp_path: Path, monkeypatch) -> None:
    taken: list[str] = []
    lock = fcntl.flock

    def flock(file: int, how: int) -> None:
        if not taken:
            taken.extend(map(str, tmp_path.iterdir()))
            shutil.rmtree(taken[0])
        lock(file, how)

    monkeypatch.setattr(fcntl, "flock", flock)
    made = PrivateDirectory(str(tmp_path))
    assert taken and made.path not in taken
    assert os.path.isdir(made.path)
    made.remove()


def test_a_java_for_a_cluster_is_not_where_others_could_put_one(tmp_path: Path, monkeypatch) -> None:
    """Its directory had a name that another user could take first, and the java in it was run."""
    asked: list[str] = []
    monkeypatch.setattr(jvm, "fitting_home", lambda java, directory: asked.append(directory) or java.home)
    monkeypatch.setattr("pyspark.java_gateway.launch_gateway", lambda *_: "a gateway")
    monkeypatch.setenv("JAVA_HOME", "as it was")
    assert jvm.submit(Java("/java", "PATH", "21"), "/spark", [], {}, str(tmp_path)) == "a gateway"
    assert asked == [private_directory()]
    assert stat.S_IMODE(os.stat(asked[0]).st_mode) == 0o700
    assert java.fitting_home is not jvm.fitting_home
