"""Footers of strangers: whatever they say, reading a slice ends in its rows or in an error."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from footers import deadly, harmed, many_kinds, written

from odf_protocol.columns import arrow_columns, slice_file
from odf_protocol.columns.arrow_columns import SliceDigest
from odf_protocol.columns.arrow_digest import UnsupportedColumn, digest_of
from odf_protocol.columns.slice_file import UnreadableSlice, open_slice, row_groups
from odf_storage.lanes import hash_all

WHOLE = written(many_kinds(), row_group_size=200)
DEADLY = deadly(WHOLE, "n")


@pytest.fixture(autouse=True, params=[0, arrow_columns.FEW_ROWS])
def looks_at_chunks(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Read these small files as large ones are read, and as small ones."""
    monkeypatch.setattr(arrow_columns, "FEW_ROWS", request.param)


def opened(content: bytes, folder: Path, *, in_memory: bool) -> str | None:
    """The logical hash, or nothing if it is refused."""
    buffer = pa.py_buffer(content)
    path = folder / "slice"
    path.write_bytes(content)
    try:
        if in_memory:
            digest = SliceDigest(open_slice(buffer), buffer)
            return str(digest.finish(hash_all(digest.streams)))
        with path.open("rb") as stream:
            return str(digest_of(open_slice(stream)).finish())
    except (UnreadableSlice, UnsupportedColumn):
        return None


@pytest.mark.parametrize("in_memory", [True, False])
def test_whatever_a_footer_says_reading_ends_in_rows_or_a_refusal(
    in_memory: bool, tmp_path: Path
) -> None:
    found = [opened(each, tmp_path, in_memory=in_memory) for each in harmed(WHOLE, 300)]
    assert opened(WHOLE, tmp_path, in_memory=in_memory) in found, "names are not hashed as text"
    assert None in found


def test_columns_read_alone_are_those_of_a_reader_of_all(tmp_path: Path) -> None:
    for content in harmed(WHOLE, 200, seed=5):
        alone = opened(content, tmp_path, in_memory=True)
        assert alone is None or alone == opened(content, tmp_path, in_memory=False)


def test_a_footer_that_ends_who_asks_for_its_chunks_is_only_refused(tmp_path: Path) -> None:
    """The first half shows that the file is what it is said to be."""
    path = tmp_path / "slice"
    path.write_bytes(DEADLY)
    ask = "import sys, pyarrow.parquet as pq; "
    ask += "pq.ParquetFile(sys.argv[1]).metadata.row_group(0).column(0)"
    assert subprocess.run([sys.executable, "-c", ask, path], capture_output=True).returncode < 0
    assert opened(DEADLY, tmp_path, in_memory=True) is None
    assert opened(DEADLY, tmp_path, in_memory=False) is None


def test_a_footer_above_the_limit_is_refused_by_its_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slice_file, "MAX_FOOTER_BYTES", 100)
    with pytest.raises(UnreadableSlice, match="at most 100 are read") as refused:
        open_slice(pa.py_buffer(WHOLE))
    assert refused.value.facts["bytes"] > 100


@pytest.mark.parametrize("content", [b"", b"PAR1", b"text that is no Parquet", WHOLE[:-1]])
def test_what_is_no_parquet_is_refused(content: bytes) -> None:
    with pytest.raises(UnreadableSlice, match="no Parquet file"):
        open_slice(pa.py_buffer(content))


def test_a_footer_tells_of_chunks_what_arrow_tells() -> None:
    content = pa.py_buffer(WHOLE)
    metadata = pq.ParquetFile(content).metadata
    for at, group in enumerate(row_groups(content)):
        theirs = metadata.row_group(at)
        assert group.num_rows == theirs.num_rows
        for place, chunk in enumerate(group.chunks):
            known = theirs.column(place)
            assert chunk.num_values == known.num_values
            assert chunk.total_compressed_size == known.total_compressed_size
            assert chunk.total_uncompressed_size == known.total_uncompressed_size
            assert chunk.data_page_offset == known.data_page_offset
            assert chunk.dictionary_page_offset == known.dictionary_page_offset
            assert len(set(chunk.encodings)) == len(set(known.encodings))


def test_a_large_footer_is_not_followed(monkeypatch: pytest.MonkeyPatch) -> None:
    content = pa.py_buffer(WHOLE)
    assert len(row_groups(content)) == 3
    monkeypatch.setattr(slice_file, "FOLLOWED_FOOTER_BYTES", 100)
    assert row_groups(content) == []
    monkeypatch.undo()
    assert row_groups(content.slice(0, 100)) == []
