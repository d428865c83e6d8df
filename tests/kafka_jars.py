"""The jars of a Kafka broker for the tests: `python tests/kafka_jars.py` fetches them with Maven, once (`make servers`)."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import uuid
from pathlib import Path

_POM = Path(__file__).with_name("kafka_pom.xml")


def jar_directory() -> Path:
    """Where the jars are, or will be. Another version in the pom is another directory."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser()
    return cache / "riverrun" / f"kafka-{hashlib.sha256(_POM.read_bytes()).hexdigest()[:12]}"


def missing() -> str | None:
    """Why no broker can be started; None: it can."""
    if not jar_directory().is_dir():
        return "there are no jars of Kafka: make servers fetches them, where Maven is installed"
    return None


def fetch() -> str | None:
    """Fetch them, if they are not there yet; why that cannot be done."""
    directory = jar_directory()
    if directory.is_dir():
        return None
    if shutil.which("mvn") is None:
        return "Maven (mvn) is not installed"
    fresh = directory.with_name(f"{directory.name}.{uuid.uuid4().hex[:8]}")
    fresh.mkdir(parents=True)
    try:
        shutil.copy(_POM, fresh / "pom.xml")
        goal = ["dependency:copy-dependencies", "-DincludeScope=runtime", f"-DoutputDirectory={fresh / 'jars'}"]
        command = ["mvn", "--batch-mode", "--quiet", "--file", str(fresh / "pom.xml"), *goal]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            return f"Maven failed: {(done.stdout + done.stderr).strip()[-500:]}"
        (fresh / "jars").rename(directory)  # at once: whoever sees the directory sees all of it
    except OSError:
        if not directory.is_dir():  # somebody else was faster
            raise
    finally:
        shutil.rmtree(fresh, ignore_errors=True)
    return None


if __name__ == "__main__":
    problem = fetch()
    if problem:
        sys.stderr.write(f"a Kafka broker for the tests could not be fetched: {problem}\n")
