"""What is in deploy/ and the Dockerfile: manifests that Kubernetes' schemas accept, and that say what the code reads."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from riverrun.settings import places
from s3_server import PROGRAM

ROOT = Path(__file__).parent.parent
MANIFEST = ROOT / "deploy/flow.yaml"


def documents() -> dict[str, Any]:
    return {one["kind"]: one for one in yaml.safe_load_all(MANIFEST.read_text(encoding="utf-8"))}


def validate(file: Path) -> subprocess.CompletedProcess[str]:
    program = PROGRAM.parent / "kubernetes-validate"
    found = str(program) if program.exists() else shutil.which("kubernetes-validate")
    if found is None:
        pytest.skip("kubernetes-validate is not installed: make servers")
    return subprocess.run([found, "--strict", str(file)], capture_output=True, text=True, check=False)


def test_manifests_are_what_kubernetes_reads(tmp_path: Path) -> None:
    checked = validate(MANIFEST)
    assert checked.returncode == 0, checked.stdout + checked.stderr
    wrong = tmp_path / "wrong.yaml"
    wrong.write_text(MANIFEST.read_text(encoding="utf-8").replace("replicas: 1", "replicas: one"))
    assert validate(wrong).returncode != 0


def test_the_driver_reads_its_settings_and_is_found_by_its_executors(tmp_path: Path) -> None:
    parts = documents()
    settings, service = parts["ConfigMap"]["data"], parts["Service"]
    (container,) = parts["Deployment"]["spec"]["template"]["spec"]["containers"]
    (tmp_path / "riverrun.toml").write_text(settings["riverrun.toml"])
    assert set(places(tmp_path / "riverrun.toml", {})) == {"log", "checkpoints", "master"}
    assert container["workingDir"] == next(
        mount["mountPath"] for mount in container["volumeMounts"] if mount["name"] == "settings"
    )
    options = dict(line.split(maxsplit=1) for line in settings["spark-defaults.conf"].splitlines())
    assert options["spark.driver.host"] == service["metadata"]["name"]
    ports = {port["name"]: str(port["port"]) for port in service["spec"]["ports"]}
    assert (ports["driver"], ports["blocks"]) == (
        options["spark.driver.port"],
        options["spark.driver.blockManager.port"],
    )
    assert options["spark.kubernetes.container.image"] == container["image"]
    assert parts["RoleBinding"]["roleRef"]["name"] == parts["Role"]["metadata"]["name"]
    assert parts["Deployment"]["spec"]["strategy"] == {"type": "Recreate"}


def test_the_image_copies_what_is_there() -> None:
    lines = (ROOT / "Dockerfile").read_text(encoding="utf-8").splitlines()
    for line in lines:
        if line.startswith("COPY "):
            *sources, _ = [word for word in line.split()[1:] if not word.startswith("--")]
            assert all((ROOT / source).exists() for source in sources), line
    assert re.search(r"useradd --uid (\d+)", "\n".join(lines))[1] == "185"  # type: ignore[index]


def test_a_container_runs_commands_and_executors(tmp_path: Path) -> None:
    entrypoint = str(ROOT / "deploy/entrypoint.sh")
    assert subprocess.run([entrypoint, "echo", "a b"], capture_output=True, text=True, check=True).stdout == "a b\n"
    java, python = tmp_path / "java", tmp_path / "python"
    java.write_text('#!/bin/sh\nfor each in "$@"; do echo "$each"; done\n')
    python.write_text(f'#!/bin/sh\ncase "$2" in *find_java*) echo {java};; *) echo /spark;; esac\n')
    for program in (java, python):
        program.chmod(0o755)
    told = {f"SPARK_{name}": name.lower() for name in ("DRIVER_URL", "APPLICATION_ID", "RESOURCE_PROFILE_ID")}
    told |= {f"SPARK_EXECUTOR_{name}": name.lower() for name in ("ID", "CORES", "MEMORY", "POD_IP", "POD_NAME")}
    options = {f"SPARK_JAVA_OPT_{number}": f"-Dnumber={number} and more" for number in range(11)}
    environment = {"PATH": f"{tmp_path}:/usr/bin:/bin", **told, **options}
    ran = subprocess.run([entrypoint, "executor"], env=environment, capture_output=True, text=True, check=True)
    given = ran.stdout.splitlines()
    assert given[:13] == [*options.values(), "-Xmsmemory", "-Xmxmemory"]
    assert given[13:16] == [
        "-cp",
        "/spark/conf:/spark/jars/*",
        "org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend",
    ]
    pairs = dict(zip(given[16::2], given[17::2], strict=True))
    assert pairs["--driver-url"] == "driver_url"
    assert (pairs["--executor-id"], pairs["--hostname"], pairs["--podName"]) == ("id", "pod_ip", "pod_name")
