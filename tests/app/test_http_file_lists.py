"""Lists of files in one answer, and third parties that need no more than its address."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from service import NOON, SCHEMA, Chain, Service, described, serving, ten_rows

from odf_protocol.columns.arrow_digest import digest_of
from odf_protocol.metadata.events import AddData, DataSlice, OffsetInterval, SetDataSchema
from odf_protocol.metadata.schema import DataField, DataSchema, DataTypeOption, DataTypeString
from odf_protocol.multihash import Multihash
from odf_storage.datasets.dataset import state_cache as pages
from odf_storage.stores.ports.values import ObjectKind, Visibility

WIDER = DataSchema(
    fields=(*SCHEMA.fields, DataField(name="note", type=DataTypeOption(inner=DataTypeString())))
)


def _grown() -> Chain:
    """15 rows in two slices, then 2 rows in which a column was added."""
    chain = ten_rows().add_rows(5).add(SetDataSchema(schema=WIDER))
    start = chain.state.next_offset
    sink = io.BytesIO()
    utc = pa.timestamp("ms", "UTC")
    rows = {
        "offset": pa.array([start, start + 1], pa.int64()),
        "op": pa.array([0, 0], pa.int32()),
        "system_time": pa.array([NOON.millis] * 2, utc),
        "event_time": pa.array([NOON.millis] * 2, utc),
        "city": pa.array(["late", "later"]),
        "population": pa.array([1, 2], pa.int64()),
        "note": pa.array(["new", None]),
    }
    pq.write_table(pa.table(rows), sink)
    content = sink.getvalue()
    data = DataSlice(
        logical_hash=digest_of(pq.ParquetFile(sink)).finish(),
        physical_hash=Multihash.of(content),
        offset_interval=OffsetInterval(start=start, end=start + 1),
        size=len(content),
    )
    chain.objects[ObjectKind.DATA, data.physical_hash] = content
    return chain.add(
        AddData(
            prev_checkpoint=chain.state.last_checkpoint,
            prev_offset=start - 1,
            new_data=data,
            new_checkpoint=None,
            new_watermark=NOON,
        )
    ).add(described("grown"))


@pytest.fixture(scope="module")
def chain(single: Service) -> Chain:
    chain = _grown()
    single.keep(chain, "kamu/open")
    single.keep(chain_of_strangers := _grown(), "kamu/closed", Visibility.PRIVATE)
    assert chain_of_strangers.id != chain.id
    return chain


def _lists(service: Service, name: str, token: str | None = None, **query: Any) -> dict[str, Any]:
    found = {}
    with service.http(token) as client:
        for form in ("csv", "ndjson", "txt"):
            answer = client.get(f"/{name}/files", params={"format": form, **query})
            assert answer.status_code == 200, answer.text
            found[form] = answer
    return found


def test_each_line_is_a_file_oldest_first(single: Service, chain: Chain) -> None:
    found = _lists(single, "open")
    with single.http() as client:
        told = client.get("/open/files").json()["files"][::-1]
    rows = list(csv.DictReader(io.StringIO(found["csv"].text)))
    assert [json.loads(line) for line in found["ndjson"].text.splitlines()] == [
        {
            "url": each["url"],
            "size": each["size"],
            "records": each["records"],
            "first_offset": each["offsets"]["start"],
            "last_offset": each["offsets"]["end"],
            "system_time": each["systemTime"],
            "block": each["block"],
            "physical_hash": each["physicalHash"],
        }
        for each in told
    ]
    assert [row["url"] for row in rows] == found["txt"].text.splitlines()
    assert [int(row["first_offset"]) for row in rows] == [0, 10, 15]
    assert {each.headers["odf-block"] for each in found.values()} == {str(chain.head)}
    schema = f'<{single.url}/open/metadata?include=schema>; rel="describedby"'
    assert found["csv"].headers["link"] == schema


def test_a_list_is_as_of_a_block_and_may_be_empty(single: Service, chain: Chain) -> None:
    first = next(block for block in chain.blocks if isinstance(block.event, AddData))
    assert len(_lists(single, "open", at=str(first.hash))["txt"].text.splitlines()) == 1
    seed = _lists(single, "open", at=str(chain.blocks[0].hash))
    assert seed["txt"].text == seed["ndjson"].text == ""
    assert seed["csv"].text.startswith("url,size,records,first_offset")


def test_a_list_is_whole_over_pages_of_the_index_and_headers_alone_have_an_end(
    single: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pages, "PAGE", 2)
    chain = ten_rows()
    for _ in range(7):
        chain.add_rows(1)
    single.keep(chain, "kamu/long")
    with single.http() as client:
        answer = client.get("/long/files", params={"format": "txt"})
        assert len(answer.text.splitlines()) == 8
        head = client.head("/long/files", params={"format": "txt"})
        assert (head.status_code, head.content) == (200, b"")


def test_urls_of_private_datasets_are_signed_and_only_those(single: Service, chain: Chain) -> None:
    with single.http() as anybody:
        assert anybody.get("/closed/files?format=csv").status_code == 404
        for each in _lists(single, "closed", single.token()).values():
            assert each.headers["cache-control"] == "no-store"
        url = _lists(single, "closed", single.token())["txt"].text.splitlines()[0]
        assert "?sp=" in url
        assert pq.read_metadata(io.BytesIO(anybody.get(url).content)).num_rows == 10
        assert anybody.get(url.partition("?")[0]).status_code == 404
        assert "?" not in _lists(single, "open")["txt"].text
        assert "?" not in _lists(single, "closed", single.token(), sign=False)["txt"].text
        assert "?sp=" in _lists(single, "open", sign=True)["txt"].text
    with single.http(single.token()) as owner:
        plain, signed = (
            owner.get("/closed/files", params=query).json()["files"][0]["url"]
            for query in ({}, {"sign": True})
        )
        assert "?" not in plain
        assert signed.startswith(f"{plain}?sp=")


def test_a_node_that_wants_a_token_of_everybody_signs_all_urls(tmp_path: Path) -> None:
    with serving(tmp_path / "node", allow_anonymous=False) as service:
        service.keep(ten_rows(), "kamu/open")
        (url,) = _lists(service, "open", service.token())["txt"].text.splitlines()
        with service.http() as anybody:
            assert anybody.get(url).status_code == 200


@pytest.mark.parametrize(
    "query", ["format=xml", "format=csv&limit=3", "format=csv&at=xyz", "format=txt&before=f1620"]
)
def test_what_is_no_list_is_refused(single: Service, chain: Chain, query: str) -> None:
    with single.http() as client:
        assert client.get(f"/open/files?{query}").status_code == 400


# --- third parties --------------------------------------------------------------------------


@pytest.fixture
def rows(single: Service, chain: Chain) -> list[dict[str, Any]]:
    """As the node reads them."""
    with single.http() as client:
        answer = client.get("/open/read?projection=changelog&columns=offset,city,note")
    return [json.loads(line) for line in answer.text.splitlines()]


def test_two_statements_of_duckdb_read_the_dataset(
    single: Service, rows: list[dict[str, Any]]
) -> None:
    import duckdb
    import duckdb_extension_httpfs

    with duckdb.connect() as db:
        folder = Path(duckdb_extension_httpfs.__file__).parent
        db.load_extension(str(next(folder.rglob("*.duckdb_extension"))))
        db.execute(
            f"SET VARIABLE files = (SELECT list(url) FROM "
            f"read_csv('{single.url}/open/files?format=csv'))"
        )
        found = db.execute(
            'SELECT "offset", city, note FROM '
            "read_parquet(getvariable('files'), union_by_name=true) ORDER BY 1"
        ).fetchall()
    assert found == [(row["offset"], row["city"], row["note"]) for row in rows]


def test_polars_reads_a_private_dataset_by_signed_urls(
    single: Service, rows: list[dict[str, Any]]
) -> None:
    import polars as pl

    urls = _lists(single, "closed", single.token())["txt"].text.splitlines()
    schema = pl.scan_parquet(urls[-1]).collect_schema()
    frame = pl.scan_parquet(urls, schema=schema, missing_columns="insert")
    assert frame.select("offset", "city", "note").collect().to_dicts() == rows
