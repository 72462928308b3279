"""Classes kept for the JVM's next start: used when they fit, done without when not."""

from __future__ import annotations

import os
import shlex
import subprocess
from pathlib import Path

import pytest
from click.testing import CliRunner

from odf_workers.engines.spark import machine as class_archive
from odf_workers.engines.spark.machine import (
    INDEX,
    JAVA,
    SPARK,
    command_of,
    dumping,
    publish,
    recording,
    using,
)
from odf_workers.engines.spark.session import java_home
from odf_workers.main import main

FILES = (INDEX, f"made/{JAVA}", f"made/{SPARK}")


@pytest.fixture(scope="module", params=["of this machine", "of the package"])
def home(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Java; they differ in what they ask of archives."""
    found = {} if request.param == "of the package" else os.environ
    return java_home(found, tmp_path_factory.mktemp("java"))


class Jvm:
    """Starts a JVM, which does what its flags say, and ends."""

    def __init__(self, home: Path) -> None:
        self._program = home / "bin" / "java"

    def __call__(self, *flags: str) -> subprocess.CompletedProcess[str]:
        words = [str(self._program), *flags]
        return subprocess.run(words, capture_output=True, text=True, timeout=60, check=True)


@pytest.fixture(scope="module")
def jvm(home: Path) -> Jvm:
    return Jvm(home)


@pytest.fixture(scope="module")
def kept(jvm: Jvm, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What a JVM keeps that does nothing, in a folder whose name has a blank."""
    folder = tmp_path_factory.mktemp("kept") / "of Java"
    for name in ("earlier", "made"):
        made = folder / name
        made.mkdir(parents=True)
        jvm(*dumping(made))
        jvm(*recording(made), "-version")
        publish(made)
    return folder


@pytest.fixture
def copy(kept: Path, tmp_path: Path) -> Path:
    (tmp_path / "made").mkdir()
    for path in FILES:
        (tmp_path / path).hardlink_to(kept / path)
    return tmp_path


def test_a_jvm_starts_silently_with_what_another_one_kept(jvm: Jvm, kept: Path) -> None:
    # `-Xshare:on`: or else it does not start. Spark's own options open packages of Java.
    done = jvm(*using(kept), "-Xshare:on", "-version")
    opened = jvm(*using(kept), "--add-opens=java.base/java.lang=ALL-UNNAMED", "-version")
    for each in (done, opened):
        assert each.stdout == ""
        assert "sharing" in each.stderr
        assert "error" not in each.stderr


def test_only_the_last_archives_are_kept(kept: Path) -> None:
    assert sorted(path.name for path in kept.iterdir()) == [INDEX, "made"]


@pytest.mark.parametrize("path", FILES)
def test_what_is_missing_or_cut_short_is_done_without(copy: Path, path: str) -> None:
    whole = (copy / path).read_bytes()
    (copy / path).unlink()
    assert using(copy) == ()
    (copy / path).write_bytes(whole[: len(whole) // 2])
    assert using(copy) == ()


@pytest.mark.parametrize("index", [b"[]", b"{}", b'{"folder": 1, "sizes": {}}', b"\xff"])
def test_an_index_of_another_form_is_done_without(copy: Path, index: bytes) -> None:
    (copy / INDEX).unlink()
    (copy / INDEX).write_bytes(index)
    assert using(copy) == ()


def test_what_does_not_belong_together_is_done_without(jvm: Jvm, copy: Path) -> None:
    archive = copy / "made" / JAVA
    content = bytearray(archive.read_bytes())
    content[4] ^= 1  # what it says to be the sum of its header
    archive.unlink()
    archive.write_bytes(content)
    assert using(copy) != ()
    jvm(*using(copy), "-version")


def test_spark_is_told_of_them_whatever_their_folder_is_called(
    kept: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from odf_workers.engines.spark import session as spark

    monkeypatch.setattr(class_archive.using, "__defaults__", (kept,))
    machine = spark._machine(spark.SparkOptions(), tmp_path, {})
    words = command_of(machine)
    flags = shlex.split(words[words.index("--driver-java-options") + 1])
    assert set(using(kept)) <= set(flags)


def test_a_java_that_keeps_none_is_told_and_leaves_nothing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    home = tmp_path / "home"
    (home / "bin").mkdir(parents=True)
    launcher = home / "bin" / "java"
    launcher.write_text(
        '#!/bin/sh\n[ "$1" = --list-modules ] && echo jdk.incubator.vector && exit\n'
        "echo 'not in this build' >&2\nexit 1\n"
    )
    launcher.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(home))
    monkeypatch.setattr(class_archive, "FOLDER", tmp_path / "share")
    done = CliRunner().invoke(main, ["class-archive"])
    assert done.exit_code == 1
    assert "Java keeps no classes: not in this build" in done.output
    assert list((tmp_path / "share").iterdir()) == []
