"""Readers read the content of a file in the same way, on the disk and in memory."""

from __future__ import annotations

from pathlib import Path

import pytest

from odf_workers.runtime.progress import Content, Enclosed, mapped, opened, size_of

BYTES = b"a,b\n1,2\n"


@pytest.fixture(params=["disk", "memory"])
def content(request: pytest.FixtureRequest, tmp_path: Path) -> Content:
    if request.param == "memory":
        return Enclosed(BYTES)
    path = tmp_path / "rows"
    path.write_bytes(BYTES)
    return path


def test_each_reading_begins_at_the_beginning(content: Content) -> None:
    for _ in range(2):
        with opened(content) as stream:
            assert stream.read() == BYTES


def test_arrow_reads_the_same_bytes(content: Content) -> None:
    with mapped(content) as stream:
        assert stream.read_buffer().to_pybytes() == BYTES


def test_the_size_is_the_number_of_bytes(content: Content) -> None:
    assert size_of(content) == 8


def test_bytes_in_memory_are_not_shown_in_logs() -> None:
    assert repr(Enclosed(b"secret")) == "Enclosed()"
