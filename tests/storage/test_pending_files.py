"""Many files at once: on the disk before they are seen, whole or not there, nothing left lying."""

from __future__ import annotations

import errno
import os
import shutil
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from refusals import refusing

from odf_protocol.instant import Instant
from odf_protocol.multihash import HashMismatch, Multihash
from odf_storage.stores.objects import files, pending_files
from odf_storage.stores.objects.layout import PENDING_PREFIX, StorageFull
from odf_storage.stores.objects.pending_files import FEW, FolderObjects, write_files
from odf_storage.stores.ports.values import ObjectKind

COUNTS = pytest.mark.parametrize("count", [1, FEW // 2, FEW], ids=["one", "few", "many"])


MANY = 40
"""Of one folder: they share a sync."""


def named(count: int) -> list[tuple[Multihash, bytes]]:
    contents = [os.urandom(20 + number) for number in range(count)]
    return [(Multihash.of(content), content) for content in contents]


def put_blocks(root: Path, contents: Iterable[tuple[Multihash, bytes]]) -> None:
    FolderObjects(root).put_all(ObjectKind.BLOCK, contents)


def blocks_in(root: Path) -> dict[str, bytes]:
    """Content of all that lies in the folder of blocks, by name."""
    return {path.name: path.read_bytes() for path in (root / "blocks").iterdir()}


def texts(contents: Iterable[tuple[Multihash, bytes]]) -> dict[str, bytes]:
    return {str(name): content for name, content in contents}


def wanted_of(root: Path, count: int, content: str = "content") -> list[tuple[str, bytes]]:
    return [(f"{root}/{n}/deep/file", f"{content} {n}".encode()) for n in range(count)]


def found(root: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in root.rglob("*") if path.is_file()}


def opened_as(handle: int) -> str:
    return str(Path(f"/proc/self/fd/{handle}").readlink())


class Steps:
    """What happened to the disk, in its order."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.seen: list[tuple[str, Any]] = []
        self._watch(monkeypatch, os, "fsync", lambda handle: opened_as(handle))
        self._watch(monkeypatch, os, "rename", lambda _, target: target)
        self._watch(monkeypatch, pending_files, "sync_file_system", lambda *_: "all")
        self._watch(monkeypatch, pending_files, "write_file", lambda name, *_, **__: name)

    def _watch(self, monkeypatch: pytest.MonkeyPatch, place: Any, name: str, told: Any) -> None:
        real = getattr(place, name)

        def watched(*given: Any, **named: Any) -> Any:
            done = real(*given, **named)
            self.seen.append((name, told(*given, **named)))
            return done

        monkeypatch.setattr(place, name, watched)

    def of(self, *names: str) -> list[Any]:
        return [what for name, what in self.seen if name in names]


@COUNTS
@pytest.mark.parametrize("durable", [False, True])
def test_every_file_is_there_with_its_content(tmp_path: Path, count: int, durable: bool) -> None:
    write_files(tmp_path, wanted_of(tmp_path, count, "old"), durable=durable)
    wanted = wanted_of(tmp_path, count)
    write_files(tmp_path, wanted, durable=durable)
    assert found(tmp_path) == dict(wanted)


def test_of_nothing_nothing_is_written(tmp_path: Path) -> None:
    write_files(tmp_path, [], durable=True)
    assert not any(tmp_path.iterdir())


@COUNTS
def test_no_name_is_given_before_all_content_is_on_the_disk_and_the_names_are_synced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    wanted = wanted_of(tmp_path, count)
    for path, _ in wanted:
        files.make_folder(Path(path).parent, durable=False)
    steps = Steps(monkeypatch)
    write_files(tmp_path, wanted, durable=True)
    assert steps.of("rename") == [path for path, _ in wanted]
    before, after = _split(steps.seen)
    written = [what for name, what in before if name == "write_file"]
    assert len(written) == count
    if 2 * count <= FEW:
        assert [what for name, what in before if name == "fsync"] == written
        assert [what for _, what in after] == [str(Path(path).parent) for path, _ in wanted]
    else:
        assert [name for name, _ in before] == ["write_file"] * count + ["sync_file_system"]
        assert [name for name, _ in after] == ["sync_file_system"]


def _split(seen: list[tuple[str, Any]]) -> tuple[list[tuple[str, Any]], list[tuple[str, Any]]]:
    """What came before the first rename, and after the last."""
    renames = [at for at, (name, _) in enumerate(seen) if name == "rename"]
    return seen[: renames[0]], seen[renames[-1] + 1 :]


@COUNTS
def test_whatever_breaks_files_are_whole_or_absent_and_nothing_is_left_pending(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    old, new = wanted_of(tmp_path, count, "old"), wanted_of(tmp_path, count)
    write_files(tmp_path, old, durable=False)
    rename, write = os.rename, pending_files.write_file
    for passes in range(2 * count):
        left = [passes]

        def breaks(real: Any, left: list[int] = left) -> Any:
            def call(*given: Any, **named: Any) -> Any:
                left[0] -= 1
                if left[0] < 0:
                    raise OSError(errno.ENOSPC, "full")
                return real(*given, **named)

            return call

        with monkeypatch.context() as patch:
            patch.setattr(os, "rename", breaks(rename))
            patch.setattr(pending_files, "write_file", breaks(write))
            with pytest.raises(StorageFull):
                write_files(tmp_path, new, durable=True)
        kinds = [dict(old), dict(new)]
        assert all(
            content in [kind[path] for kind in kinds] for path, content in found(tmp_path).items()
        )
        assert len(found(tmp_path)) == count
        write_files(tmp_path, old, durable=False)


def test_a_sync_that_fails_shows_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object) -> None:
        raise OSError(errno.EIO, "the disk lost it")

    monkeypatch.setattr(pending_files, "sync_file_system", fails)
    with pytest.raises(OSError, match="lost it"):
        write_files(tmp_path, wanted_of(tmp_path, FEW), durable=True)
    assert found(tmp_path) == {}


def test_who_removes_a_folder_meanwhile_is_told_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def removes(*_: object) -> None:
        shutil.rmtree(tmp_path / "0")

    monkeypatch.setattr(pending_files, "sync_file_system", removes)
    with refusing("FolderRemoved"):
        write_files(tmp_path, wanted_of(tmp_path, FEW), durable=True)
    assert not any(path.name.startswith(PENDING_PREFIX) for path in tmp_path.rglob("*"))


def test_each_file_system_is_synced_through_a_handle_opened_before_the_first_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Folders of datasets may be mounted from elsewhere."""
    devices, opened = {"0": 70, "1": 71}, list[str]()
    stat = os.stat

    def elsewhere(path: Any, *given: Any, **named: Any) -> Any:
        told = stat(path, *given, **named)
        part = str(path).removeprefix(f"{tmp_path}/").partition("/")[0]
        if part not in devices:
            return told
        return os.stat_result((*told[:2], devices[part], *told[3:10]))

    for path, _ in wanted_of(tmp_path, FEW):
        files.make_folder(Path(path).parent, durable=False)
    steps = Steps(monkeypatch)
    monkeypatch.setattr(
        pending_files,
        "sync_file_system",
        lambda handle, _: opened.append(opened_as(handle)),
    )
    monkeypatch.setattr(os, "stat", elsewhere)
    write_files(tmp_path, wanted_of(tmp_path, FEW), durable=True)
    places = [f"{tmp_path}/{n}/deep" for n in (0, 1, 2)]
    assert opened == [*places, *places]
    assert len(steps.of("rename")) == FEW


@pytest.mark.parametrize("count", [0, 1, FEW, FEW + 1, 300])
def test_every_block_is_a_file_named_by_its_hash(tmp_path: Path, count: int) -> None:
    contents = named(count)
    put_blocks(tmp_path, iter(contents))
    assert found(tmp_path) == {f"{tmp_path}/blocks/{name}": content for name, content in contents}


def test_an_empty_content_is_a_file_too(tmp_path: Path) -> None:
    contents = [*named(MANY), (Multihash.of(b""), b"")]
    put_blocks(tmp_path, contents)
    assert blocks_in(tmp_path) == texts(contents)


@pytest.mark.parametrize("count", [3, MANY])
def test_files_that_are_there_are_renewed_and_not_replaced(tmp_path: Path, count: int) -> None:
    contents = named(count)
    put_blocks(tmp_path, contents[:2])
    old = tmp_path / "blocks" / str(contents[0][0])
    os.utime(old, (1, 1))
    number = old.stat().st_ino
    put_blocks(tmp_path, contents)
    assert blocks_in(tmp_path) == texts(contents)
    assert old.stat().st_ino == number
    assert old.stat().st_mtime > 1


@pytest.mark.parametrize("count", [3, MANY])
def test_a_file_that_is_damaged_is_replaced(tmp_path: Path, count: int) -> None:
    contents = named(count)
    put_blocks(tmp_path, contents[:2])
    (tmp_path / "blocks" / str(contents[0][0])).write_bytes(b"rotten")
    put_blocks(tmp_path, contents)
    assert blocks_in(tmp_path) == texts(contents)


def test_a_content_that_comes_twice_is_one_file(tmp_path: Path) -> None:
    contents = named(MANY)
    put_blocks(tmp_path, [*contents, *contents])
    assert blocks_in(tmp_path) == texts(contents)


@pytest.mark.parametrize("count", [3, MANY])
def test_a_wrong_content_leaves_nothing(tmp_path: Path, count: int) -> None:
    contents = [*named(count), (Multihash.of(b"announced"), b"something else")]
    with pytest.raises(HashMismatch):
        put_blocks(tmp_path, contents)
    assert found(tmp_path) == {}


def test_a_source_that_breaks_off_leaves_nothing(tmp_path: Path) -> None:
    def breaking() -> Iterator[tuple[Multihash, bytes]]:
        yield from named(MANY)
        raise ConnectionError("gone")

    with pytest.raises(ConnectionError):
        put_blocks(tmp_path, breaking())
    assert found(tmp_path) == {}


@pytest.mark.parametrize("number", [errno.EIO, errno.ENOSPC])
def test_a_sync_that_fails_leaves_the_blocks_as_they_were(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    put_blocks(tmp_path, named(1))
    before = found(tmp_path)

    def fails(*_: object) -> None:
        raise OSError(number, "the disk lost it")

    monkeypatch.setattr(pending_files, "sync_file_system", fails)
    with pytest.raises(StorageFull if number == errno.ENOSPC else OSError):
        put_blocks(tmp_path, named(MANY))
    assert found(tmp_path) == before


def test_a_few_files_that_cannot_be_synced_leave_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(_: int) -> None:
        raise OSError(errno.EIO, "the disk is gone")

    (tmp_path / "blocks").mkdir()
    monkeypatch.setattr(os, "fsync", fails)
    with pytest.raises(OSError, match="the disk is gone"):
        put_blocks(tmp_path, named(3))
    assert found(tmp_path) == {}


def test_pending_files_that_were_cleared_away_are_not_taken_for_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def clears(*_: object) -> None:
        later = Instant(time.time_ns() + 10**12)
        assert files.remove_abandoned(tmp_path, before=later) == MANY

    monkeypatch.setattr(pending_files, "sync_file_system", clears)
    with refusing("FolderRemoved"):
        put_blocks(tmp_path, named(MANY))
    assert found(tmp_path) == {}
