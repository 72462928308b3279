"""Slices of peers may hold values that stop most readers: every door answers all the same."""

from __future__ import annotations

import io
import json
from typing import Any

import httpx
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from bad_values import BAD_COLUMNS
from msgspec.structs import replace
from service import SCHEMA, Service, described, parquet_rows, seeded, serving

from odf_protocol.columns.arrow_schema import from_arrow
from odf_protocol.identity import DatasetRef
from odf_protocol.metadata.events import SetDataSchema
from odf_storage.datasets.read.formats import Format
from odf_storage.datasets.verify.run import DatasetSource, verify_chain

CASES = [
    what
    for what in BAD_COLUMNS
    if "dictionary" not in what and "struct" not in what  # see test_gate.py
]


@pytest.fixture(scope="module")
def service(tmp_path_factory: Any) -> Any:
    with serving(tmp_path_factory.mktemp("values") / "node", turn_wait_s=60) as service:
        yield service


@pytest.fixture(scope="module", params=CASES)
def kept(service: Service, request: pytest.FixtureRequest) -> tuple[str, str]:
    """The alias of a dataset of three rows, whose second has a bad value, and what is bad."""
    rows = pq.read_table(io.BytesIO(parquet_rows(0, 3)))
    rows = rows.append_column("v", BAD_COLUMNS[request.param][0])
    sink = io.BytesIO()
    pq.write_table(rows, sink)
    added = from_arrow(rows.schema).fields[-1]
    schema = SetDataSchema(schema=replace(SCHEMA, fields=(*SCHEMA.fields, added)))
    chain = seeded().add(described(), schema).add_slice(sink.getvalue(), 3)
    alias = f"values-{CASES.index(request.param)}"
    service.keep(chain, f"kamu/{alias}")
    return alias, request.param


def asked(service: Service, path: str, **asked: Any) -> httpx.Response:
    with service.http() as client:
        return client.get(path, params=asked)


@pytest.mark.parametrize("shape", ["JsonAoS", "JsonSoA", "JsonAoA"])
def test_the_last_rows_are_answered(service: Service, kept: tuple[str, str], shape: str) -> None:
    answer = asked(service, f"/{kept[0]}/tail", dataFormat=shape)
    assert answer.status_code == 200, answer.text
    if kept[1].endswith("text"):
        assert "\\xff\\xfe" in json.loads(answer.text).__str__().replace("\\\\", "\\")


def test_rows_without_places_are_refused_as_a_format_of_places(
    service: Service, kept: tuple[str, str]
) -> None:
    answer = asked(service, f"/{kept[0]}/read", format=Format.GEOPARQUET.value)
    assert answer.status_code == 400, answer.text
    assert "GeoParquet needs the column" in answer.text


@pytest.mark.parametrize("form", [form for form in Format if form is not Format.GEOPARQUET])
def test_rows_are_read_in_every_format(
    service: Service, kept: tuple[str, str], form: Format
) -> None:
    answer = asked(service, f"/{kept[0]}/read", format=form.value)
    assert answer.status_code == 200, answer.text
    if "text" not in kept[1]:
        return
    if form is Format.PARQUET:
        pq.read_table(io.BytesIO(answer.content)).validate(full=True)
    elif form is Format.ARROW:
        pa.ipc.open_stream(answer.content).read_all().validate(full=True)
    else:
        assert "\\xff\\xfe" in answer.text.replace("\\\\", "\\")


def test_a_query_is_answered_or_refused_with_a_reason(
    service: Service, kept: tuple[str, str]
) -> None:
    with service.http() as client:
        answer = client.post("/query", json={"query": f'select "offset", v from "{kept[0]}"'})
        counted = client.post("/query", json={"query": f'select count(*) as n from "{kept[0]}"'})
    assert counted.json()["output"]["data"] == [{"n": 3}]
    assert answer.status_code < 500, answer.text


def test_verification_warns_with_column_and_offset_and_accuses_nobody(
    service: Service, kept: tuple[str, str]
) -> None:
    stores = service.node.stores
    dataset = stores.dataset(DatasetRef.parse(f"kamu/{kept[0]}"))
    report = verify_chain(DatasetSource(dataset))
    assert report.ok
    assert report.notes == ()
    [warning] = report.warnings
    assert warning.reason == "UnstorableValue"
    assert "column `v" in warning.message
    assert "offset 1: " in warning.message
    assert report.data_blocks[0].objects == "valid"
