"""Readers give the rows of the known answers, or refuse what those refuse.

Where an answer is disputed, what the answer wants is required here too, except for `WIDER`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from refusals import refusing
from tests.workers import tables

from odf_protocol.codec.manifests import from_data
from odf_protocol.errors import BadInput
from odf_protocol.metadata.sources import ReadStep
from odf_workers.readers.formats.read import open_frame
from odf_workers.slices.schema import Frame, Limits

pytestmark = pytest.mark.usefixtures("whichever_is_quicker")
WIDER = {"reader-018"}
"""Disputed answers that refuse what this node reads: other encodings than UTF-8."""


def write_input(given: dict[str, Any], folder: Path) -> Path:
    path = folder / "input"
    if "files" in given:
        file = given["files"][0]
        pq.write_table(tables.table_from(file["schema"], file["rows"]), path)
    else:
        path.write_text(given["input"]["text"])
    return path


def read(given: dict[str, Any], folder: Path) -> Frame | None:
    step: ReadStep = from_data(given["read"], ReadStep)
    return open_frame(step, write_input(given, folder), Limits())


def read_all(given: dict[str, Any], folder: Path) -> None:
    frame = read(given, folder)
    assert frame is not None
    frame.table()


@pytest.mark.parametrize(
    "case",
    [pytest.param(c, id=c["id"]) for c in tables.cases("reader") if c["id"] not in WIDER],
)
def test_a_known_input_reads_as_the_answer_says(case: dict[str, Any], tmp_path: Path) -> None:
    expect = case["expect"]
    if error := expect.get("error"):
        with pytest.raises(BadInput) as caught:
            read_all(case["given"], tmp_path)
        assert error.get("kind") != "Unsupported" or caught.value.code == "Unsupported"
        assert error.get("contains", "") in str(caught.value)
        return
    frame = read(case["given"], tmp_path)
    if "dataframe" in expect:
        assert frame is None
        return
    assert frame is not None
    assert tables.schema_rows(frame.schema) == expect["schema"]
    assert tables.rows_of(frame.table()) == expect["rows"]


def test_a_missing_sub_path_is_named(tmp_path: Path) -> None:
    given = {"read": {"kind": "Json", "subPath": "a.b"}, "input": {"text": '{"a": {"c": []}}'}}
    with refusing("SubPathNotFound", match=r"a\.b"):
        read(given, tmp_path)
