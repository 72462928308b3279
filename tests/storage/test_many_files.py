"""Many files at once: all whole or not there, whatever breaks, and nothing left lying."""

from __future__ import annotations

import errno
import os
import resource
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import pytest

from protocol.instant import Instant
from protocol.multihash import HashMismatch, Multihash
from storage.objects import file_writer, files, staged_files
from storage.objects.many_files import FEW, put_all
from storage.objects.staged_files import StagedFiles
from storage.trouble import StorageFull


def named(count):
    contents = [os.urandom(20 + number) for number in range(count)]
    return [(Multihash.of(content), content) for content in contents]


def found(folder: Path):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def names(folder: Path):
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.parametrize("durable", [False, True])
@pytest.mark.parametrize("count", [0, 1, FEW, FEW + 1, 300])
def test_every_content_is_a_file_named_by_its_hash(tmp_path, count, durable):
    contents = named(count)
    put_all(tmp_path / "blocks", iter(contents), durable=durable)
    assert found(tmp_path / "blocks") == {str(name): content for name, content in contents}


def test_files_that_are_there_are_renewed_and_not_written(tmp_path):
    contents = named(3)
    put_all(tmp_path, contents[:2], durable=False)
    old = tmp_path / str(contents[0][0])
    os.utime(old, (1, 1))
    number = old.stat().st_ino
    put_all(tmp_path, contents, durable=False)
    assert len(found(tmp_path)) == 3
    assert old.stat().st_ino == number
    assert old.stat().st_mtime > 1


def test_a_wrong_content_leaves_nothing_pending(tmp_path):
    contents = [*named(3), (Multihash.of(b"announced"), b"something else")]
    with pytest.raises(HashMismatch):
        put_all(tmp_path, contents, durable=True)
    assert found(tmp_path) == {}


@pytest.fixture
def other_process(monkeypatch):
    """Nearly all files are written by another process, and the disk is told early."""
    monkeypatch.setattr(staged_files, "MANY", 5)
    monkeypatch.setattr(staged_files, "BATCH", 100)


@pytest.fixture(params=["here", "by another process"])
def writer(request, monkeypatch):
    if request.param != "here":
        request.getfixturevalue("other_process")


@pytest.mark.usefixtures("writer")
class TestManyFiles:
    def test_every_content_is_a_file_named_by_its_hash(self, tmp_path):
        contents = [*named(300), (Multihash.of(b""), b"")]
        put_all(tmp_path / "blocks", iter(contents), durable=True)
        assert found(tmp_path / "blocks") == {str(name): content for name, content in contents}
        assert names(tmp_path) == ["blocks"]

    def test_files_that_are_there_are_renewed_and_not_replaced(self, tmp_path):
        contents = named(40)
        put_all(tmp_path / "blocks", contents[:30], durable=False)
        old = tmp_path / "blocks" / str(contents[0][0])
        os.utime(old, (1, 1))
        number = old.stat().st_ino
        put_all(tmp_path / "blocks", contents, durable=True)
        assert found(tmp_path / "blocks") == {str(name): content for name, content in contents}
        assert old.stat().st_ino == number
        assert old.stat().st_mtime > 1
        assert names(tmp_path) == ["blocks"]

    def test_a_content_that_comes_twice_is_one_file(self, tmp_path):
        contents = named(40)
        put_all(tmp_path / "blocks", [*contents, *contents], durable=True)
        assert len(found(tmp_path / "blocks")) == 40

    def test_a_wrong_content_leaves_nothing(self, tmp_path):
        contents = [*named(40), (Multihash.of(b"announced"), b"something else")]
        with pytest.raises(HashMismatch):
            put_all(tmp_path / "blocks", contents, durable=True)
        assert names(tmp_path) == []

    def test_nothing_is_named_before_everything_is_synced(self, tmp_path, monkeypatch):
        put_all(tmp_path / "blocks", named(1), durable=True)
        seen = []
        real = staged_files.sync_file_system

        def looking(handle, name):
            seen.append((names(tmp_path / "blocks"), len(os.listdir(handle))))  # noqa: PTH208
            real(handle, name)

        monkeypatch.setattr(staged_files, "sync_file_system", looking)
        put_all(tmp_path / "blocks", named(40), durable=True)
        assert [(len(visible), pending) for visible, pending in seen] == [(1, 40)]
        assert len(names(tmp_path / "blocks")) == 41

    def test_a_sync_that_fails_leaves_nothing(self, tmp_path, monkeypatch):
        put_all(tmp_path / "blocks", named(1), durable=True)
        before = names(tmp_path / "blocks")

        def failing(_handle, _name):
            raise OSError(errno.EIO, "the disk is gone")

        monkeypatch.setattr(staged_files, "sync_file_system", failing)
        with pytest.raises(OSError, match="the disk"):
            put_all(tmp_path / "blocks", named(40), durable=True)
        assert names(tmp_path / "blocks") == before
        assert names(tmp_path) == ["blocks"]

    def test_a_sync_that_finds_no_room_says_so(self, tmp_path, monkeypatch):
        def failing(_handle, _name):
            raise OSError(errno.ENOSPC, "no room")

        monkeypatch.setattr(staged_files, "sync_file_system", failing)
        with pytest.raises(StorageFull):
            put_all(tmp_path / "blocks", named(40), durable=True)
        assert names(tmp_path) == []

    def test_pending_files_that_were_cleared_away_are_not_taken_for_written(self, tmp_path):
        with closing(StagedFiles(tmp_path, durable=True)) as staged:
            for name, content in named(40):
                staged.add(str(name), content)
            later = Instant(time.time_ns() + 10**12)
            assert files.remove_abandoned(tmp_path, before=later) == 1
            assert not staged.publish(tmp_path / "blocks")
        assert names(tmp_path) == []

    def test_what_is_not_published_goes(self, tmp_path):
        with closing(StagedFiles(tmp_path, durable=True)) as staged:
            for name, content in named(40):
                staged.add(str(name), content)
            assert len(names(tmp_path)) == 1
        assert names(tmp_path) == []


def test_early_syncs_that_fail_are_told_at_the_end(tmp_path, other_process, monkeypatch):
    calls = []

    def failing_first(_handle, _name):
        calls.append(1)
        if len(calls) == 1:
            raise OSError(errno.EIO, "a page was lost")

    monkeypatch.setattr(staged_files, "sync_file_system", failing_first)
    with pytest.raises(OSError, match="a page"):
        put_all(tmp_path / "blocks", named(150), durable=True)
    assert names(tmp_path) == []


def test_an_error_of_the_other_process_is_told(tmp_path, other_process):
    with closing(StagedFiles(tmp_path, durable=True)) as staged:
        for name, content in named(10):
            staged.add(str(name), content)
        staged.add("n" * 300, b"a name that no file system takes")
        with pytest.raises(OSError, match="name too long"):
            staged.publish(tmp_path / "blocks")
    assert names(tmp_path) == []


def test_a_limit_of_the_disk_that_the_other_process_meets_is_ours(tmp_path, other_process):
    with closing(StagedFiles(tmp_path, durable=True)) as staged:
        for name, content in named(6):
            staged.add(str(name), content)
        child = staged._writer._process
        resource.prlimit(child.pid, resource.RLIMIT_FSIZE, (10, 10))
        with pytest.raises(StorageFull):
            _more_until_refused(staged, tmp_path / "blocks")
    assert names(tmp_path) == []


def test_another_process_that_is_killed_is_an_error(tmp_path, other_process):
    with closing(StagedFiles(tmp_path, durable=True)) as staged:
        for name, content in named(10):
            staged.add(str(name), content)
        staged._writer._process.kill()
        with pytest.raises(OSError, match="ended before its time"):
            _more_until_refused(staged, tmp_path / "blocks")
    assert names(tmp_path) == []


def _more_until_refused(staged, folder):
    for name, content in named(3000):
        staged.add(str(name), content + bytes(1000))
    staged.publish(folder)


def test_the_other_process_ends_with_the_one_that_tells(tmp_path):
    command = [sys.executable, file_writer.__file__, str(tmp_path)]
    cut_short = file_writer.HEAD.pack(3, 10) + b"abc12345"
    done = subprocess.run(command, input=cut_short, capture_output=True, check=False)
    assert file_writer.OUTCOME.unpack(done.stdout) == (0, errno.EPIPE)
    assert names(tmp_path) == []


def test_an_empty_folder_is_filled_and_one_in_use_kept(tmp_path):
    (tmp_path / "blocks").mkdir()
    put_all(tmp_path / "blocks", named(40), durable=True)
    assert len(names(tmp_path / "blocks")) == 40
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "mine").write_bytes(b"mine")
    put_all(tmp_path / "data", named(40), durable=True)
    assert len(names(tmp_path / "data")) == 41


def test_a_few_files_that_cannot_be_synced_leave_nothing(tmp_path, monkeypatch):
    def failing(_handle):
        raise OSError(errno.EIO, "the disk is gone")

    monkeypatch.setattr(os, "fsync", failing)
    with pytest.raises(OSError, match="the disk"):
        put_all(tmp_path, named(FEW), durable=True)
    assert names(tmp_path) == []
