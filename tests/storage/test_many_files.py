"""Many files at once: all whole or not there, whatever breaks, and nothing left lying."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from protocol.multihash import HashMismatch, Multihash
from storage.objects import many_files
from storage.objects.many_files import FEW, put_all


def named(count):
    contents = [os.urandom(20 + number) for number in range(count)]
    return [(Multihash.of(content), content) for content in contents]


def found(folder: Path):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


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


def test_nothing_is_named_before_everything_is_synced(tmp_path, monkeypatch):
    seen = []
    real = many_files._sync_file_system

    def looking(folder):
        seen.append(sorted(found(Path(folder))))
        real(folder)

    monkeypatch.setattr(many_files, "_sync_file_system", looking)
    put_all(tmp_path, named(FEW + 1), durable=True)
    assert len(seen) == 1
    assert all(name.startswith(".pending-") for name in seen[0])


def test_a_sync_that_fails_leaves_nothing(tmp_path, monkeypatch):
    def failing(_folder):
        raise OSError("the disk is gone")

    monkeypatch.setattr(many_files, "_sync_file_system", failing)
    with pytest.raises(OSError, match="the disk"):
        put_all(tmp_path, named(FEW + 1), durable=True)
    assert found(tmp_path) == {}
