"""`odf://`: the libraries that people use read the files of a node by fsspec."""

from __future__ import annotations

import io
import pickle
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from datetime import datetime
from importlib import import_module
from pathlib import Path
from typing import Any

import fsspec
import pyarrow.dataset as pads
import pytest
from counting import counting
from refusals import refusing
from service import NOON, Service, ten_rows

import odf_node
from odf_node.client.nodes.repositories import HttpRepository
from odf_node.public.filesystem import OdfFileSystem
from odf_protocol.multihash import HashMismatch, Multihash
from odf_storage.stores.ports.values import Visibility

NAMES = ("odf", "odf+http", "odf+https")


@pytest.fixture(autouse=True, scope="module")
def registered() -> Iterator[None]:
    """As the entry points of the distribution do it."""
    for name in NAMES:
        fsspec.register_implementation(name, OdfFileSystem, clobber=True)
    yield
    OdfFileSystem.clear_instance_cache()


@pytest.fixture(scope="module")
def chain(single: Service) -> Any:
    chain = ten_rows().add_rows(5).add_rows(7)
    single.keep(chain, "kamu/files")
    single.keep(ten_rows(), "kamu/hidden", Visibility.PRIVATE)
    return chain


@pytest.fixture
def where(single: Service, chain: Any) -> str:
    return f"odf://{single.url.removeprefix('http://')}/files"


@pytest.fixture
def files(where: str) -> Any:
    OdfFileSystem.clear_instance_cache()
    return fsspec.url_to_fs(where)[0]


def test_the_distribution_tells_fsspec_where_the_file_system_is() -> None:
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
    told = project["entry-points"]["fsspec.specs"]
    assert set(told) == set(NAMES) == set(OdfFileSystem.protocol)
    for place in told.values():
        module, _, name = place.partition(":")
        assert getattr(import_module(module), name) is OdfFileSystem


def test_pandas_reads_a_dataset(where: str) -> None:
    import pandas as pd

    frame = pd.read_parquet(where, columns=["offset", "city"])
    assert list(frame["offset"]) == list(range(22))
    few = pd.read_parquet(where, filters=[("offset", ">=", 15)])
    assert list(few["city"]) == [f"c{n}" for n in range(15, 22)]


def test_dask_reads_a_dataset(where: str) -> None:
    import dask.dataframe as dd

    frame = dd.read_parquet(where, columns=["offset"], calculate_divisions=False)
    assert frame.npartitions == 3
    assert sorted(frame.compute(scheduler="threads")["offset"]) == list(range(22))


def test_arrow_and_polars_read_a_dataset(where: str, files: Any, single: Service) -> None:
    import polars as pl

    schema = odf_node.open(f"{single.url}/files").schema
    data = pads.dataset(OdfFileSystem._strip_protocol(where), filesystem=files, schema=schema)
    assert data.count_rows() == 22
    found = pl.scan_pyarrow_dataset(data).filter(pl.col("offset") > 19).collect()
    assert found["city"].to_list() == ["c20", "c21"]
    with fsspec.open(files.unstrip_protocol(files.ls(where, detail=False)[0])) as file:
        assert pl.read_parquet(file)["offset"].to_list() == list(range(10))


def test_duckdb_reads_a_dataset(where: str, files: Any) -> None:
    import duckdb

    with duckdb.connect() as db:
        db.register_filesystem(files)
        query = f"select sum(\"offset\") from read_parquet('{where}/*.parquet')"
        assert db.execute(query).fetchone() == (231,)


def test_files_are_named_by_offset_and_hash_and_say_what_they_are(
    where: str, files: Any, chain: Any
) -> None:
    names = files.ls(where, detail=False)
    assert [int(name.rpartition("/")[2].partition("-")[0]) for name in names] == [0, 10, 15]
    told = files.info(names[1])
    assert (told["type"], told["records"]) == ("file", 5)
    content = files.cat_file(names[1])
    assert len(content) == told["size"] == files.size(names[1])
    assert str(Multihash.of(content)) == told["physical_hash"] == files.ukey(names[1])
    assert files.modified(names[1]) == datetime.fromisoformat(str(NOON))
    assert files.glob(f"{where}/*.parquet") == names
    assert pickle.loads(pickle.dumps(files)).ls(where, detail=False) == names


def test_parts_of_a_file_are_read_by_ranges(single: Service, chain: Any) -> None:
    with counting(single.url) as counted:
        where = f"odf+http://{counted.url.removeprefix('http://')}/files"
        files = fsspec.filesystem("odf", host=counted.url.removeprefix("http://"))
        name = files.ls(where, detail=False)[0]
        whole = files.cat_file(name)
        counted.reset()
        assert files.cat_file(name, 4, 20) == whole[4:20]
        assert files.cat_file(name, -8) == whole[-8:]
        assert files.cat_file(name, 7, 7) == b""
        with files.open(name, block_size=64, cache_type="none") as file:
            file.seek(100)
            assert file.read(11) == whole[100:111]
        assert [each.rpartition(" ")[2] for each in counted.requests] == [
            "bytes=4-19",
            f"bytes={len(whole) - 8}-{len(whole) - 1}",
            "bytes=100-110",
        ]
        assert counted.bytes == 16 + 8 + 11


def test_a_cache_keeps_whole_files_that_fit_their_hashes(
    single: Service, where: str, tmp_path: Path
) -> None:
    import pandas as pd

    options = {"cache": str(tmp_path / "cache")}
    assert len(pd.read_parquet(where, storage_options=options)) == 22
    with counting(single.url) as counted:
        there = where.replace(single.url.removeprefix("http://"), counted.url.split("//")[1])
        assert len(pd.read_parquet(there, storage_options=options)) == 22
        assert [each for each in counted.requests if "/data/" in each] == []


def test_a_cache_takes_no_file_with_a_changed_byte(
    where: str, files: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = files.ls(where, detail=False)[0]
    content = bytearray(files.cat_file(name))
    content[100] ^= 1
    monkeypatch.setattr(HttpRepository, "open_object", lambda *_: io.BytesIO(content))
    cached = fsspec.filesystem("odf", cache=str(tmp_path))
    with cached.open(name) as file, pytest.raises(HashMismatch):
        file.read(10)
    assert not list((tmp_path / "data").glob("f1620*"))


def test_a_block_pins_the_files(where: str, chain: Any) -> None:
    import pandas as pd

    first = next(block for block in chain.blocks if block.sequence_number == 3)
    assert len(pd.read_parquet(where, storage_options={"at": str(first.hash)})) == 10


def test_a_token_opens_private_datasets_of_its_node_only(
    single: Service, where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    import pandas as pd

    hidden = where.replace("/files", "/hidden")
    with pytest.raises(FileNotFoundError):
        pd.read_parquet(hidden)
    token = single.token()
    assert len(pd.read_parquet(hidden, storage_options={"token": token})) == 10
    monkeypatch.setenv("ODF_NODE_TOKEN", token)
    monkeypatch.setenv("ODF_NODE_URL", "https://elsewhere.example")
    with pytest.raises(FileNotFoundError):
        pd.read_parquet(hidden)
    monkeypatch.setenv("ODF_NODE_URL", single.url)
    assert len(pd.read_parquet(hidden)) == 10
    with refusing("AnotherNode"):
        fsspec.filesystem("odf", token=token)
    mine = fsspec.filesystem("odf", host="elsewhere.example", token=token)
    with refusing("AnotherNode"):
        mine.ls(hidden)


def test_a_node_lists_its_datasets(single: Service, multi: Service, where: str) -> None:
    host = where.rpartition("/")[0]
    fs = fsspec.filesystem("odf")
    assert [each.rpartition("/")[2] for each in fs.ls(host, detail=False)] == ["files"]
    multi.keep(ten_rows(), "alice/one")
    there = f"odf://{multi.url.removeprefix('http://')}"
    assert fs.ls(there, detail=False) == [f"{there.removeprefix('odf://')}/alice"]
    assert fs.isdir(f"{there}/alice")
    assert fs.ls(f"{there}/alice", detail=False)[0].endswith("/alice/one")
    assert len(fs.ls(f"{there}/alice/one")) == 1
    with pytest.raises(FileNotFoundError):
        fs.ls(f"{there}/bob")


def test_what_is_not_there_is_missing_and_nothing_can_be_written(where: str, files: Any) -> None:
    assert not files.exists(f"{where}-not")
    with pytest.raises(FileNotFoundError):
        files.ls(f"{where}-not")
    with pytest.raises(FileNotFoundError):
        files.open(f"{where}/{0:020}-f1620{'0' * 64}.parquet")
    for write in (
        lambda: files.open(f"{where}/x.parquet", "wb"),
        lambda: files.pipe(f"{where}/x.parquet", b""),
        lambda: files.mkdir(f"{where}/x"),
        lambda: files.rm(files.ls(where, detail=False)[0]),
        lambda: files.mv(where, f"{where}-2"),
    ):
        with pytest.raises(OSError, match="read-only"):
            write()


ENDS_BEFORE_ARROW = """
import threading, time
import fsspec, pyarrow.fs
from odf_node.public.filesystem import OdfFileSystem

held = [pyarrow.fs.FSSpecHandler(OdfFileSystem(host="127.0.0.1:1"))]

def drop():
    time.sleep(0.05)
    held.clear()
    print("dropped", flush=True)

threading.Thread(target=drop, daemon=True).start()
"""
"""A thread drops the file system late, as those of Arrow do."""


def test_a_program_ends_after_arrow_has_dropped_the_file_system() -> None:
    done = subprocess.run(
        [sys.executable, "-c", ENDS_BEFORE_ARROW], capture_output=True, text=True, check=True
    )
    assert done.stdout == "dropped\n"
