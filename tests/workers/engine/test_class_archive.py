"""Classes kept for the JVM's next start: used when they fit, done without when not."""

from __future__ import annotations

import shlex
import subprocess
from pathlib import Path

import pytest
from click.testing import CliRunner

from odf_node.workers.engines.spark import class_archive
from odf_node.workers.engines.spark.class_archive import (
    JAVA,
    SIZES,
    SPARK,
    dumping,
    publish,
    recording,
    using,
)
from odf_node.workers.engines.spark.machine import command_of
from odf_node.workers.main import main


def jvm(*flags: str) -> subprocess.CompletedProcess[str]:
    """A JVM that starts, says its version, and ends."""
    from odf_node.workers.engines.spark.session import java

    words = [str(java() / "bin" / "java"), *flags]
    return subprocess.run(words, capture_output=True, text=True, timeout=60, check=True)


def starts(folder: Path) -> bool:
    """It does, silently, and its classes come out of files."""
    done = jvm(*using(folder), "-version")
    assert done.stdout == ""
    return "sharing" in done.stderr


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What a JVM keeps that does nothing, in a folder whose name has a blank."""
    folder = tmp_path_factory.mktemp("kept") / "of Java"
    made = folder / "made"
    made.mkdir(parents=True)
    jvm(*dumping(made))
    jvm(*recording(made), "-version")
    publish(made, folder)
    return folder


@pytest.fixture
def copy(kept: Path, tmp_path: Path) -> Path:
    for name in (JAVA, SPARK, SIZES):
        (tmp_path / name).hardlink_to(kept / name)
    return tmp_path


def test_a_jvm_starts_with_what_another_one_kept(kept: Path) -> None:
    assert starts(kept)
    jvm(*using(kept), "-Xshare:on", "-version")  # or else it does not start


@pytest.mark.parametrize("name", [JAVA, SPARK, SIZES])
def test_what_is_missing_or_cut_short_is_done_without(copy: Path, name: str) -> None:
    whole = (copy / name).read_bytes()
    (copy / name).unlink()
    assert using(copy) == ()
    (copy / name).write_bytes(whole[: len(whole) // 2])
    assert using(copy) == ()


def test_what_does_not_belong_together_is_done_without(copy: Path) -> None:
    content = bytearray((copy / JAVA).read_bytes())
    content[4] ^= 1  # what it says to be the sum of its header
    (copy / JAVA).unlink()
    (copy / JAVA).write_bytes(content)
    assert using(copy) != ()
    jvm(*using(copy), "-version")


def test_spark_is_told_of_them_whatever_their_folder_is_called(
    kept: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from odf_node.workers.engines.spark import session as spark

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
