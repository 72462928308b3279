"""The dataset as Parquet files at URLs: the listing, and third parties that read by it."""

from __future__ import annotations

import io
import os
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from counting import counting
from ranged_files import ranged_files
from service import NOON, described, seeded, ten_rows

from odf_protocol.metadata.events import AddData, DataSlice, OffsetInterval
from odf_protocol.multihash import Multihash
from odf_storage.stores.ports.values import ObjectKind, Visibility

ROWS = 200_000


@pytest.fixture(scope="module")
def chain(single):
    chain = ten_rows()
    chain.add_rows(5).add(described("more")).add_rows(7).add(described("last"))
    single.keep(chain)
    return chain


@pytest.fixture
def listed(single, chain):
    with single.http() as client:

        def get(**query):
            answer = client.get("/foo/files", params=query)
            assert answer.status_code == 200
            return answer.json()

        yield get


def _data_blocks(chain):
    return [block for block in chain.blocks if isinstance(block.event, AddData)]


def test_the_list_names_every_slice_newest_first(listed, chain, single):
    answer = listed()
    blocks = list(reversed(_data_blocks(chain)))
    assert answer["at"] == str(chain.head)
    assert (answer["records"], answer["lastOffset"]) == (22, 21)
    assert answer["next"] is None
    assert [file["offsets"] for file in answer["files"]] == [
        {"start": 15, "end": 21},
        {"start": 10, "end": 14},
        {"start": 0, "end": 9},
    ]
    for file, block in zip(answer["files"], blocks, strict=True):
        data = block.event.new_data
        assert file["block"] == str(block.hash)
        assert file["sequenceNumber"] == block.sequence_number
        assert file["logicalHash"] == str(data.logical_hash)
        assert file["path"] == f"data/{file['physicalHash']}" == f"data/{data.physical_hash}"
        assert file["url"] == f"{single.url}/foo/{file['path']}"
        assert file["watermark"] == str(NOON)


def test_each_file_is_served_at_its_url_in_its_size(listed, single, chain):
    answer = listed()
    with single.http() as client:
        for file in answer["files"]:
            content = client.get(file["url"]).content
            assert len(content) == file["size"]
            assert Multihash.parse(file["physicalHash"]) == Multihash.of(content)
            assert pq.read_metadata(io.BytesIO(content)).num_rows == file["records"]
    assert answer["size"] == sum(file["size"] for file in answer["files"])
    assert [one["name"] for one in answer["schema"]["fields"]][:2] == ["offset", "op"]


def test_an_older_block_shows_the_dataset_as_it_was(listed, chain):
    first = _data_blocks(chain)[0]
    answer = listed(at=str(first.hash))
    assert (answer["records"], answer["sequenceNumber"]) == (10, first.sequence_number)
    assert [file["block"] for file in answer["files"]] == [str(first.hash)]
    before = listed(at=str(chain.blocks[0].hash))
    assert (before["files"], before["schema"], before["watermark"]) == ([], None, None)


def test_pages_together_are_the_whole_list(listed, chain):
    whole, pages, before = listed()["files"], [], None
    while True:
        page = listed(limit=1, **({"before": before} if before else {}))
        pages += page["files"]
        assert page["at"] == str(chain.head)
        before = page["next"]
        if before is None:
            break
    assert pages == whole


def test_what_is_no_block_of_the_dataset_is_refused(single, chain):
    unknown = str(Multihash.of(b"nobody has this"))
    with single.http() as client:
        for query, status in (
            ({"at": "xyz"}, 400),
            ({"at": unknown}, 404),
            ({"before": unknown}, 404),
            ({"limit": "0"}, 400),
        ):
            assert client.get("/foo/files", params=query).status_code == status
        assert client.get("/nobody/files").status_code == 404


def test_the_list_of_a_private_dataset_is_hidden(multi):
    multi.keep(seeded(), "alice/secret", Visibility.PRIVATE)
    with multi.http() as client:
        assert client.get("/alice/secret/files").status_code == 404
    with multi.http(multi.token("alice")) as client:
        assert client.get("/alice/secret/files").json()["files"] == []


# --- third parties --------------------------------------------------------------------------


@pytest.fixture(scope="module")
def wide(single, tmp_path_factory):
    """Two larger slices of eight columns, and the same files in a folder."""
    chain = ten_rows(os.urandom(32))
    folder = tmp_path_factory.mktemp("static")
    for start in (10, 10 + ROWS):
        content = _parquet(start)
        data = DataSlice(
            logical_hash=Multihash(0x300016, Multihash.of(content).digest),
            physical_hash=Multihash.of(content),
            offset_interval=OffsetInterval(start=start, end=start + ROWS - 1),
            size=len(content),
        )
        chain.objects[ObjectKind.DATA, data.physical_hash] = content
        (folder / str(data.physical_hash)).write_bytes(content)
        chain.add(AddData(prev_offset=start - 1, new_data=data, new_watermark=NOON,
                          prev_checkpoint=chain.state.last_checkpoint))  # fmt: skip
    single.keep(chain, "kamu/wide")
    return chain, folder


def _parquet(start):
    rng = np.random.default_rng(start)
    columns = {f"c{number}": rng.integers(0, 1 << 40, ROWS) for number in range(7)}
    table = pa.table({"offset": np.arange(start, start + ROWS), **columns})
    out = io.BytesIO()
    pq.write_table(table, out, row_group_size=ROWS // 8, use_dictionary=False)
    return out.getvalue()


def _with_duckdb(urls):
    import duckdb  # late, as the other: only one of the processes of a run needs them
    import duckdb_extension_httpfs

    with duckdb.connect() as db:
        extension = next(Path(duckdb_extension_httpfs.__file__).parent.rglob("*.duckdb_extension"))
        db.load_extension(str(extension))
        query = 'select count(*), sum(c3) from read_parquet(?) where "offset" < 1000'
        return db.execute(query, [urls]).fetchone()


def _with_polars(urls):
    import polars as pl

    few = pl.scan_parquet(urls).filter(pl.col("offset") < 1000)
    found = few.select(pl.len().alias("n"), pl.col("c3").sum()).collect()
    return found["n"][0], found["c3"][0]


@pytest.mark.parametrize("read", [_with_duckdb, _with_polars])
def test_other_readers_get_by_ranges_no_more_than_from_a_file_server(read, single, wide):
    chain, folder = wide
    with single.http() as client:
        files = client.get("/wide/files", params={"limit": 2}).json()["files"]
    names = [file["physicalHash"] for file in files]
    total = sum(file["size"] for file in files)
    contents = [chain.objects[ObjectKind.DATA, Multihash.parse(name)] for name in names]
    table = pa.concat_tables(pq.read_table(io.BytesIO(content)) for content in contents)
    few = table.filter(pa.compute.less(table["offset"], 1000))
    expected = (few.num_rows, pa.compute.sum(few["c3"]).as_py())
    with ranged_files(folder) as plain, counting(plain) as other, counting(single.url) as ours:
        assert read([f"{other.url}/{name}" for name in names]) == expected
        assert read([f"{ours.url}/wide/data/{name}" for name in names]) == expected
    assert ours.bytes <= other.bytes < total / 4
    assert len(ours.requests) <= len(other.requests)


def test_a_greatest_value_is_read_from_the_ends_of_files(single, wide):
    """As many requests, and bytes, as of a plain file server."""
    import duckdb
    import duckdb_extension_httpfs

    _, folder = wide
    with single.http() as client:
        files = client.get("/wide/files", params={"limit": 2}).json()["files"]
    names = [file["physicalHash"] for file in files]
    extension = next(Path(duckdb_extension_httpfs.__file__).parent.rglob("*.duckdb_extension"))
    with ranged_files(folder) as plain, counting(plain) as other, counting(single.url) as ours:
        for base in (f"{other.url}/", f"{ours.url}/wide/data/"):
            with duckdb.connect() as db:
                db.load_extension(str(extension))
                query = 'select max("offset") from read_parquet(?)'
                found = db.execute(query, [[base + name for name in names]]).fetchone()
            assert found == (9 + 2 * ROWS,)
    assert ours.bytes <= other.bytes < sum(file["size"] for file in files) / 4
    assert len(ours.requests) <= len(other.requests)
