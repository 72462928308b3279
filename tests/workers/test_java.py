"""A Java for Spark is found with and without one on the machine."""

from __future__ import annotations

import os
import stat
import subprocess
from pathlib import Path

import pytest
from refusals import refusing

from odf_workers.engines.spark.session import MODULE, java_home


def fake_java(home: Path, modules: str) -> Path:
    launcher = home / "bin" / "java"
    launcher.parent.mkdir(parents=True)
    launcher.write_text(f"#!/bin/sh\necho {modules}\n")
    launcher.chmod(0o755)
    return home


def test_a_fitting_jdk_is_used_as_it_is(tmp_path: Path) -> None:
    home = fake_java(tmp_path / "jdk", f"java.base {MODULE}@17")
    assert java_home({"JAVA_HOME": str(home)}, tmp_path / "cache") == home


def test_a_fitting_jdk_on_the_path_is_found(tmp_path: Path) -> None:
    home = fake_java(tmp_path / "jdk", MODULE)
    assert java_home({"PATH": str(home / "bin")}, tmp_path / "cache") == home


def test_without_a_fitting_jdk_the_packaged_one_serves_behind_a_shim(tmp_path: Path) -> None:
    poor = fake_java(tmp_path / "jre", "java.base")
    home = java_home({"JAVA_HOME": str(poor), "PATH": "/nowhere"}, tmp_path / "cache")
    launcher = home / "bin" / "java"
    assert launcher.stat().st_mode & stat.S_IXUSR
    said = subprocess.run(
        [str(launcher), f"--add-modules={MODULE}", "-version"],
        capture_output=True,
        text=True,
        check=True,
        env={"PATH": os.defpath},
    )
    assert "openjdk" in said.stderr
    assert java_home({}, tmp_path / "cache") == home


def test_a_folder_that_runs_no_programs_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "access", lambda path, mode: mode != os.X_OK)
    with refusing("JavaNotFound", match="noexec") as refused:
        java_home({}, tmp_path)
    assert refused.value.facts == {"folder": str(tmp_path)}
