"""Slices may hold a column as any Arrow type of its values: every door reads such a dataset.

Two programs that write to one chain choose other layouts. A column for each pair of them has the
one type in the first slice and the other type in the second.
"""

from __future__ import annotations

import io
import itertools
from collections.abc import Iterator
from datetime import UTC, date, datetime, time
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from service import NOON, Service, seeded, serving

import odf_node
from odf_node.client.nodes.remotes import Location
from odf_node.client.transfer import sync
from odf_protocol.columns.arrow_schema import from_arrow
from odf_protocol.metadata.events import SetDataSchema

UTC_MS = pa.timestamp("ms", "UTC")
TEXT = pa.string()
PART = [("t", pa.string()), ("d", pa.decimal128(9, 2))]
KINDS: dict[str, tuple[Any, list[pa.DataType]]] = {
    "text": ("Ä", [TEXT, pa.large_string(), pa.string_view()]),
    "json": ('{"a": 1}', [TEXT, pa.json_(), pa.large_string()]),
    "bytes": (b"\xff\0", [pa.binary(), pa.large_binary(), pa.binary_view()]),
    "uuid": (bytes(range(16)), [pa.binary(16), pa.uuid()]),
    "decimal": (
        Decimal("-3.25"),
        [make(9, 2) for make in (pa.decimal128, pa.decimal32, pa.decimal64, pa.decimal256)],
    ),
    "date": (date(2050, 1, 1), [pa.date32(), pa.date64()]),
    "instant": (datetime(2050, 1, 1, tzinfo=UTC), [UTC_MS, pa.timestamp("ms", "+00:00")]),
    "clock": (time(12, 30), [pa.time32("ms")]),
    "list": (
        [1, None],
        [pa.list_(pa.int64()), pa.large_list(pa.int64()), pa.list_(pa.int64(), 2)],
    ),
    "texts": (
        ["a", None],
        [pa.list_(TEXT), pa.large_list(pa.string_view()), pa.list_(pa.large_string(), 2)],
    ),
    "struct": (
        {"t": "x", "d": Decimal("1.50")},
        [pa.struct(PART), pa.struct([("t", pa.string_view()), ("d", pa.decimal64(9, 2))])],
    ),
}
"""A value, and the types that may hold it; the first one is what the dataset says."""
PAIRS = [
    (f"{kind}_{one}_{other}", value, types[0], types[one], types[other])
    for kind, (value, types) in KINDS.items()
    for one, other in itertools.product(range(len(types)), repeat=2)
]


def _column(value: Any, kind: pa.DataType) -> pa.Array:
    """The value and a null."""
    if isinstance(kind, pa.BaseExtensionType):
        return pa.ExtensionArray.from_storage(kind, pa.array([value, None], kind.storage_type))
    return pa.array([value, None], kind)


def _slice(start: int, side: int) -> bytes:
    columns: dict[str, Any] = {
        "offset": pa.array([start, start + 1], pa.int64()),
        "op": pa.array([0, 0], pa.int32()),
        "system_time": pa.array([NOON.millis] * 2, UTC_MS),
        "event_time": pa.array([NOON.millis] * 2, UTC_MS),
    }
    for name, value, _, *sides in PAIRS:
        columns[name] = _column(value, sides[side])
    sink = io.BytesIO()
    # As arrow-rs names the values of lists; DataFusion reads no fixed-size list of other names.
    pq.write_table(pa.table(columns), sink, use_compliant_nested_type=False)
    return sink.getvalue()


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    own = [
        pa.field("offset", pa.int64(), nullable=False),
        pa.field("op", pa.int32(), nullable=False),
        pa.field("system_time", UTC_MS, nullable=False),
        pa.field("event_time", UTC_MS),
    ]
    schema = pa.schema([*own, *(pa.field(name, kind) for name, _, kind, *_ in PAIRS)])
    chain = seeded().add(SetDataSchema(schema=from_arrow(schema)))
    chain.add_slice(_slice(0, 0), 2).add_slice(_slice(2, 1), 2)
    with serving(tmp_path_factory.mktemp("types") / "node") as running:
        running.keep(chain, "kamu/types")
        yield running


@pytest.fixture(scope="module")
def said(service: Service) -> list[dict[str, Any]]:
    """The four rows as `read` gives them."""
    with service.http() as http:
        return http.get("/types/read?format=json").json()


def test_rows_of_two_slices_are_the_same_whatever_types_hold_them(said):
    assert [row["offset"] for row in said] == [0, 1, 2, 3]
    for name, *_ in PAIRS:
        assert said[0][name] == said[2][name] is not None, name
        assert said[1][name] is said[3][name] is None, name


@pytest.mark.parametrize("skip", [0, 1])
def test_the_tail_has_the_rows_of_both_slices(service, said, skip):
    with service.http() as http:
        answer = http.get("/types/tail", params={"skip": skip, "limit": 3})
    assert answer.status_code == 200, answer.text
    assert answer.json()["data"] == said[4 - skip - 3 : 4 - skip]


def test_a_lookup_has_the_rows_of_both_slices(service, said):
    with service.http() as http:
        answer = http.get("/types/lookup", params={"column": "text_0_1", "value": "Ä"})
    assert answer.status_code == 200, answer.text
    assert answer.json()["data"] == [said[0], said[2]]


def test_a_query_has_the_rows_of_both_slices(service, said):
    with service.http() as http:
        found = http.post("/query", json={"query": 'select * from "types" order by "offset"'})
    assert found.status_code == 200, found.text
    assert found.json()["output"]["data"] == said


@pytest.mark.parametrize("address", ["/types", "/types?rows=0"])
def test_pages_show_the_rows_of_both_slices(service, address):
    with service.http() as http:
        page = http.get(address, headers={"accept": "text/html"})
    assert page.status_code == 200
    assert "a reader crashed" not in page.text
    assert "-3.25" in page.text or "2050-01-01" in page.text


@pytest.mark.parametrize("verify", [False, True])
def test_python_reads_and_verifies_both_slices(service, verify):
    data = odf_node.open(f"{service.url}/types", verify=verify)
    table = data.arrow()
    assert table["offset"].to_pylist() == [0, 1, 2, 3]
    for name, *_ in PAIRS:
        column = table[name].to_pylist()
        assert column[:2] == column[2:], name
    assert data.verify().ok


def test_a_copy_is_read_and_verified(service, tmp_path: Path):
    folder = tmp_path / "types"
    sync.pull(Location.parse(f"{service.url}/types"), Location.parse(str(folder)))
    assert odf_node.open(folder).arrow().num_rows == 4
    assert odf_node.verify(folder).ok
