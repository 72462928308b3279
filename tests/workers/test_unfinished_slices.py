"""A task that cannot finish its slice leaves no file, on whichever machine it runs."""

from __future__ import annotations

import errno
import tempfile
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from odf_protocol.chain.state import EMPTY
from odf_protocol.instant import Instant
from odf_workers.partitions.port import Outbox
from odf_workers.slices import write
from odf_workers.slices.schema import MILLIS, POSITION
from odf_workers.slices.write import SlicePlan
from odf_workers.stages.pipeline import write_rows

NOW = Instant.parse("2050-01-01T12:00:00Z")
SCHEMA = pa.schema(
    [
        pa.field("offset", pa.int64(), nullable=False),
        pa.field("op", pa.int32(), nullable=False),
        pa.field("system_time", MILLIS, nullable=False),
        pa.field("event_time", MILLIS, nullable=False),
        pa.field("n", pa.int64()),
    ]
)


@pytest.mark.parametrize("links", [None, {}], ids=["the worker's", "another"])
def test_each_attempt_on_a_full_disk_removes_what_it_wrote(
    links: dict[str, str] | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any, **__: Any) -> None:
        assert len(list(tmp_path.iterdir())) == 1
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(write, "described", full)
    plan = SlicePlan(
        schema=SCHEMA, vocab=EMPTY.vocab, start=0, system_time=NOW, source_event_time=NOW
    )
    rows = {"op": [0], "event_time": [0], "n": [1], POSITION: [0]}
    types = pa.schema(
        [("op", pa.int32()), ("event_time", MILLIS), ("n", pa.int64()), (POSITION, pa.int64())]
    )
    outbox = Outbox(folder=tmp_path, links=links)
    for _ in range(2):
        batches = iter([pa.RecordBatch.from_pydict(rows, types)])
        with pytest.raises(OSError, match="No space left"):
            list(write_rows(plan, outbox, False, 0, batches))
    assert list(tmp_path.iterdir()) == []
