"""An archive of Python on its way to executors, and the same path at the driver."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from riverrun.errors import NotFound
from riverrun.spark import session, shipping


def test_spark_is_told_of_the_archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(NotFound, match="there is no archive .*/environment.tar.gz. Make it: riverrun pack "):
        shipping.archive_options("environment.tar.gz")
    Path("environment.tar.gz").touch()
    assert shipping.archive_options("environment.tar.gz") == {
        "spark.archives": f"{tmp_path}/environment.tar.gz#riverrun-environment"
    }
    far = shipping.archive_options("s3a://lakes/environment.tar.gz")
    assert far == {"spark.archives": "s3a://lakes/environment.tar.gz#riverrun-environment"}


def test_where_the_driver_works_the_path_leads_to_its_own_python() -> None:
    ran = subprocess.run(
        [shipping.EXECUTOR_PYTHON, "-c", "import sys; print(sys.prefix)"],
        cwd=shipping.driver_directory(),
        capture_output=True,
        text=True,
        check=True,
    )
    assert ran.stdout.strip() == sys.prefix


def test_whose_python_workers_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    archive = tmp_path / "environment.tar.gz"
    archive.touch()
    monkeypatch.setenv("PYSPARK_PYTHON", "/somewhere/python")
    assert session._python("spark://master:7077", None) == {}
    assert os.environ["PYSPARK_PYTHON"] == "/somewhere/python"
    assert "spark.archives" in session._python("spark://master:7077", str(archive))
    assert os.environ["PYSPARK_PYTHON"] == "./riverrun-environment/bin/python"
    assert session._python("local[2]", str(archive)) == {}
    assert os.environ["PYSPARK_PYTHON"] == sys.executable
