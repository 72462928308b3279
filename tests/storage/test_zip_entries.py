"""Entries of zip archives are unpacked in small pieces, whatever the archive contains."""

from __future__ import annotations

import io
import tracemalloc
import zipfile

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odf_storage.runtime.private_files import DAMAGED, METHODS, entries_of, unpacked

PIECE = 16 * 1024
methods = pytest.mark.parametrize("method", sorted(METHODS))


def zipped(content: bytes, method: int) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", method) as archive:
        archive.writestr("rows.csv", content)
    return out.getvalue()


def pieces(body: bytes) -> list[bytes]:
    with zipfile.ZipFile(io.BytesIO(body)) as archive:
        return list(unpacked(archive, archive.filelist[0], piece_bytes=PIECE))


@given(st.binary(max_size=3 * PIECE), st.sampled_from(sorted(METHODS)), st.integers(1, 20))
def test_an_entry_is_unpacked_as_it_was_packed(part: bytes, method: int, times: int) -> None:
    content = part * times
    found = pieces(zipped(content, method))
    assert b"".join(found) == content
    assert max(map(len, found), default=0) <= PIECE


@methods
def test_a_short_archive_takes_little_memory_however_much_it_holds(method: int) -> None:
    with zipfile.ZipFile(io.BytesIO(zipped(bytes(64 << 20), method))) as archive:
        tracemalloc.start()
        try:
            size = sum(map(len, unpacked(archive, archive.filelist[0], piece_bytes=PIECE)))
            assert tracemalloc.get_traced_memory()[1] < 8 << 20
        finally:
            tracemalloc.stop()
    assert size == 64 << 20


@methods
def test_content_that_differs_from_its_checksum_is_refused(method: int) -> None:
    body = bytearray(zipped(b"rows" * 100, method))
    with zipfile.ZipFile(io.BytesIO(body)) as archive:
        checksum = archive.filelist[0].CRC.to_bytes(4, "little")
    body[body.rindex(checksum)] ^= 1
    with pytest.raises(zipfile.BadZipFile):
        pieces(bytes(body))


@methods
def test_an_entry_that_ends_too_early_is_refused(method: int) -> None:
    body = zipped(bytes(range(256)) * 100, method)
    with zipfile.ZipFile(io.BytesIO(body)) as archive:
        [entry] = archive.filelist
        entry.compress_size //= 2
        with pytest.raises(DAMAGED):
            list(unpacked(archive, entry, piece_bytes=PIECE))


def test_a_method_whose_memory_the_archive_chooses_is_refused() -> None:
    with pytest.raises(NotImplementedError, match="method"):
        pieces(zipped(b"rows", zipfile.ZIP_LZMA))


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_of_entries_with_one_name_the_last_one_counts() -> None:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name, content in (("a.csv", "old"), ("b.csv", "other"), ("a.csv", "new")):
            archive.writestr(name, content)
    with zipfile.ZipFile(out) as archive:
        found = {
            e.filename: b"".join(unpacked(archive, e, piece_bytes=9)) for e in entries_of(archive)
        }
    assert found == {"a.csv": b"new", "b.csv": b"other"}
    assert list(found) == ["a.csv", "b.csv"]
