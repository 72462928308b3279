"""Records are converted together up to a number and a size, whatever the format."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from odf_protocol.codec.manifests import from_data
from odf_protocol.metadata.sources import ReadStep
from odf_workers.readers.formats.read import open_frame
from odf_workers.readers.values import rejected as chunks
from odf_workers.readers.values.rejected import Rejected
from odf_workers.slices.schema import Limits

LONG = "x" * 1_000
FEATURE = {"type": "Feature", "properties": {"n": 1}, "geometry": {"type": LONG}}
TEXTS = {
    "Csv": f'1,"{LONG} \\""\n' * 50,
    "Json": json.dumps([{"n": [LONG]}] * 50),
    "NdJson": (json.dumps({"n": [LONG]}) + "\n") * 50,
    "GeoJson": json.dumps({"type": "FeatureCollection", "features": [FEATURE] * 50}),
    "NdGeoJson": (json.dumps(FEATURE) + "\n") * 50,
}


@pytest.mark.parametrize("aside", [False, True], ids=["strict", "set aside"])
@pytest.mark.parametrize("kind", TEXTS)
def test_large_records_are_converted_a_few_at_a_time(
    kind: str, aside: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chunks, "BATCH_BYTES", 5_000)
    path = tmp_path / "input"
    path.write_text(TEXTS[kind])
    step = from_data({"kind": kind}, ReadStep)
    frame = open_frame(step, path, Limits(), Rejected(1) if aside else None)
    assert frame is not None
    assert [batch.num_rows for batch in frame.batches] == [5] * 10


def test_a_chunk_ends_with_the_record_that_reaches_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chunks, "BATCH_ROWS", 3)
    monkeypatch.setattr(chunks, "BATCH_BYTES", 10)
    sizes = [1, 1, 1, 1, 20, 9, 1, 2]
    assert list(chunks.chunks(sizes, int)) == [[1, 1, 1], [1, 20], [9, 1], [2]]
    assert list(chunks.chunks([], int)) == []
