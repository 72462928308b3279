"""A small file that goes along with the work is read by a path, as any other."""

from __future__ import annotations

import os

import pytest

from odf_node.workers.partitions.files import Enclosed, present


@pytest.mark.parametrize("is_linux", [True, False])
def test_an_enclosed_file_is_read_from_its_beginning_as_often_as_wanted(
    is_linux: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not is_linux:
        monkeypatch.delattr(os, "memfd_create", raising=False)
    with present(Enclosed(b"a,b\n1,2\n")) as path:
        assert [path.read_bytes() for _ in range(2)] == [b"a,b\n1,2\n"] * 2
        assert path.stat().st_size == 8
    assert not path.exists()
