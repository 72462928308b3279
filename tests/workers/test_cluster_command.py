"""What `odf-worker spark-cluster` hands to Spark; `tests/e2e` runs jobs on what it starts."""

from __future__ import annotations

import os
import shlex
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from odf_workers.program import commands as cluster_command

SECRETS = {
    "AWS_SECRET_ACCESS_KEY": "key of the bucket",
    "ODF_STORE_SECRETS_KEYS": "key of the node",
    "ODF_STORE_DATABASE_URL": "postgresql://user:password@host/db",
    "DATABASE_PASSWORD": "password",
}


@pytest.fixture
def begun(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What this process would have become."""
    found: list[Any] = []
    monkeypatch.setattr(os, "execve", lambda *given: found.append(given))
    for name, value in {**SECRETS, "SPARK_LOCAL_IP": "127.0.0.1"}.items():
        monkeypatch.setenv(name, value)
    return found


def run(*words: str) -> None:
    done = CliRunner().invoke(cluster_command.spark_cluster, words)
    assert done.exit_code == 0, done.output


def test_executors_and_master_are_given_no_secret_of_the_node(
    begun: list[Any], tmp_path: Path
) -> None:
    url, folder = "spark://127.0.0.1:7077", str(tmp_path / "machine")
    run("master", "--host", "127.0.0.1")
    run("machine", url, "--host", "127.0.0.1", "--folder", folder)
    assert len(begun) == 2
    for _, _, environment in begun:
        assert not set(SECRETS.values()) & set(environment.values())
        assert environment["SPARK_LOCAL_IP"] == "127.0.0.1"


def test_a_master_keeps_what_it_knows_in_its_folder(
    begun: list[Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPARK_MASTER_OPTS", "-Dspark.deploy.defaultCores=2")
    run("master", "--host", "127.0.0.1", "--folder", str(tmp_path / "of master"))
    ((_, words, environment),) = begun
    assert words[1:] == [
        *("org.apache.spark.deploy.master.Master", "--host", "127.0.0.1", "--port", "7077"),
        *("--webui-port", "0"),
    ]
    assert (tmp_path / "of master").is_dir()
    assert shlex.split(environment["SPARK_MASTER_OPTS"]) == [
        "-Dspark.deploy.recoveryMode=FILESYSTEM",
        f"-Dspark.deploy.recoveryDirectory={tmp_path / 'of master'}",
        "-Dspark.deploy.defaultCores=2",
    ]


def test_a_machine_keeps_its_files_in_its_folder_and_clears_them(
    begun: list[Any], tmp_path: Path
) -> None:
    url, folder = "spark://127.0.0.1:7077", tmp_path / "machine"
    given = ["--cores", "3", "--memory", "5g", "--folder", str(folder)]
    run("machine", url, "--host", "127.0.0.1", *given)
    ((program, words, environment),) = begun
    assert Path(program).name == "spark-class"
    assert words[1:] == [
        *("org.apache.spark.deploy.worker.Worker", "--host", "127.0.0.1", "--cores", "3"),
        *("--memory", "5g", "--work-dir", str(folder), "--webui-port", "0", url),
    ]
    assert folder.is_dir()
    assert environment["TMPDIR"] == environment["SPARK_LOCAL_DIRS"] == str(folder)
    assert "cleanup.enabled=true" in environment["SPARK_WORKER_OPTS"]
