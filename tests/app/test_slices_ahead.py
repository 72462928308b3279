"""Slices that are handed over ahead of their turn have the rows of slices read in turn."""

from __future__ import annotations

import itertools
import socket
import threading
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa
import pytest
from table_made import TableMade
from upkeep_parts import dataset_of

from odf_node.service.reader_process.wire import Wire
from odf_node.service.readers.messages import HEAD, FrameKind, frame, head_of, read_needs
from odf_node.service.settings import Settings
from odf_node.service.wiring import open_node
from odf_protocol.multihash import Multihash
from odf_storage.datasets.read import scan as scanning
from odf_storage.datasets.read.rows import live_facts
from odf_storage.datasets.read.scan import SliceScan, narrowed
from odf_storage.datasets.read.view import View, view_of
from odf_storage.datasets.verify.source import DatasetSource
from odf_storage.stores.ports.values import ObjectKind

TOWNS = pa.schema([("city", pa.string()), ("pop", pa.float64())])
SLICES = 12


class Ahead(DatasetSource):
    """A source that opens all before the first is read."""

    def open_each(
        self, kind: ObjectKind, wanted: Iterable[tuple[Multihash, int]]
    ) -> Iterator[BinaryIO]:
        yield from [self.open_whole(kind, name) for name, _ in wanted]


@pytest.fixture(scope="module")
def view(tmp_path_factory: pytest.TempPathFactory) -> Iterator[View]:
    """Slices of three rows with NaN, -0.0 and nulls; the last but one takes some back."""
    node = open_node(Settings(data=tmp_path_factory.mktemp("ahead") / "node"))
    made = TableMade(node.stores, "kamu/ahead", TOWNS)
    values = [float("nan"), -0.0, None]
    for number in range(SLICES):
        made.add([{"city": f"c{number}", "pop": value} for value in values])
    gone = [{"city": f"c{number}", "pop": values[number % 3]} for number in range(0, SLICES, 2)]
    made.add(gone, [1] * len(gone))
    made.add([{"city": "c0", "pop": float("nan")}])
    yield view_of(Ahead(dataset_of(node.stores, made.entry)))
    node.stores.close()


def rows_of(batches: Iterable[pa.RecordBatch]) -> list[str]:
    return [str(row) for batch in batches for row in batch.to_pylist()]


@pytest.mark.parametrize("batch_rows", [1, 7, 16_384])
@pytest.mark.parametrize("offsets", [None, np.array([0, 4, 5, 37, 42]), np.array([], np.int64)])
def test_rows_are_those_of_slices_read_in_turn(
    view: View, offsets: Any, batch_rows: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scanning, "BATCH_ROWS", batch_rows)
    in_turn = SliceScan(narrowed(view), tmp_path)
    ahead = SliceScan(narrowed(view), tmp_path, ahead=True, gathered=True)
    for columns in (None, ["city"], ["offset", "op"]):
        expected = rows_of(in_turn(columns, offsets))
        assert rows_of(ahead(columns, offsets)) == expected
        assert bool(expected) == (offsets is None or len(offsets) > 0)


def test_the_rows_that_stand_are_the_same(view: View, tmp_path: Path) -> None:
    in_turn, ahead = (
        live_facts(SliceScan(narrowed(view), tmp_path, ahead=each), view.vocab)
        for each in (False, True)
    )
    assert in_turn.tolist() == ahead.tolist()
    assert len(in_turn) == 3 * SLICES - SLICES // 2 + 1


def test_only_slices_that_take_rows_back_are_read_whole_for_them(
    view: View, tmp_path: Path
) -> None:
    whole, asked = SliceScan(narrowed(view), tmp_path), []

    def scan(columns: Any, offsets: Any) -> Iterator[pa.RecordBatch]:
        asked.append((columns, None if offsets is None else offsets.tolist()))
        return whole(columns, offsets)

    live_facts(scan, view.vocab)
    places = list(range(3 * SLICES, 3 * SLICES + SLICES // 2))
    assert asked == [(["offset", "op"], None), (None, places), (None, None)]


def test_a_view_without_retractions_is_never_read_whole(view: View, tmp_path: Path) -> None:
    whole = SliceScan(narrowed(replace(view, slices=view.slices[:SLICES])), tmp_path)

    def scan(columns: Any, offsets: Any) -> Iterator[pa.RecordBatch]:
        assert columns == ["offset", "op"]
        return whole(columns, offsets)

    assert len(live_facts(scan, view.vocab)) == 3 * SLICES


def test_chunks_of_short_files_are_not_looked_at(
    view: View, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scan = SliceScan(narrowed(view), tmp_path)
    expected = rows_of(scan(None, None))
    monkeypatch.delattr(scanning, "row_groups")
    assert rows_of(scan(None, None)) == expected


def serve(link: socket.socket, folder: Path) -> None:
    """Hand over files that hold their own hash, one request after the other."""
    numbers = itertools.count()
    while head := link.recv(HEAD.size, socket.MSG_WAITALL):
        _, length = head_of(head)
        files = []
        for need in read_needs(link.recv(length, socket.MSG_WAITALL)):
            path = folder / str(next(numbers))
            path.write_text(need.hash)
            files.append(path.open("rb"))
        socket.send_fds(link, [frame(FrameKind.FILE)], [file.fileno() for file in files])
        for file in files:
            file.close()


def test_files_that_nobody_waits_for_any_more_do_not_come_instead_of_others(
    tmp_path: Path,
) -> None:
    ours, theirs = socket.socketpair()
    thread = threading.Thread(target=serve, args=(theirs, tmp_path), daemon=True)
    thread.start()
    wire = Wire(ours)
    names = [Multihash.of(str(number).encode()) for number in range(300)]

    def content(stream: BinaryIO) -> str:
        with stream:
            return stream.read().decode()

    left = wire.open_each(ObjectKind.DATA, [(name, 1) for name in names])
    assert content(next(left)) == str(names[0])
    assert content(wire.open_whole(ObjectKind.DATA, names[250])) == str(names[250])
    other = wire.open_each(ObjectKind.DATA, [(name, 1) for name in names[100:]])
    for name, earlier in zip(names[100:], names[1:], strict=False):
        assert content(next(other)) == str(name)
        assert content(next(left)) == str(earlier)
    for stream in left:  # the others go on to their end
        stream.close()
    ours.close()
    thread.join(timeout=60)
    theirs.close()
    assert not thread.is_alive()
