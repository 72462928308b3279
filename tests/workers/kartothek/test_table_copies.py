"""Data files of a table are fetched side by side, and are the same as one after the other."""

from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path
from threading import Barrier
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from chain_maker import NOON
from refusals import refusing

from odf_protocol.kartothek.keys import KartothekFileMissing
from odf_protocol.kartothek.partition_values import encode_schema, table_schema
from odf_protocol.kartothek.state import State, encode_json
from odf_storage.datasets.kartothek.select import SelectedTable, open_table
from odf_storage.stores.keyed.folder import FolderKeyedStore
from odf_workers.fetch.kartothek import copied
from odf_workers.fetch.values import Deadline, FetchRequest, FetchRules

FILES = 6


@pytest.fixture
def table(tmp_path: Path) -> SelectedTable:
    store = FolderKeyedStore(tmp_path / "store", durable=False)
    keys = {f"p{at}": f"u/table/p{at}.parquet" for at in range(FILES)}
    for at, key in enumerate(keys.values()):
        sink = io.BytesIO()
        pq.write_table(pa.table({"n": [at]}), sink)
        store.put(key, [sink.getvalue()])
    schema = table_schema(pa.schema({"n": pa.int64()}))
    store.put("u/table/_common_metadata", [encode_schema(schema)])
    state = State(uuid="u", partitions={label: {"table": key} for label, key in keys.items()})
    store.put("u.by-dataset-metadata.json", [encode_json(state)])
    return open_table(store, "u")


def fetched(table: SelectedTable, folder: Path, **rules: Any) -> list[int]:
    """The row of each file, in the order of the copies."""
    folder.mkdir()
    given = FetchRules(**rules)
    request = FetchRequest(state=None, system_time=NOON, folder=folder, rules=given)
    copies = copied(table, table.partitions, request, Deadline(given))
    assert [each.part.key for each in copies] == [each.key for each in table.partitions]
    return [pq.read_table(each.path)["n"][0].as_py() for each in copies]


class Meeting:
    """A store in which each read waits for others."""

    def __init__(self, table: SelectedTable, parties: int) -> None:
        self._store, self._barrier = table.store, Barrier(parties, timeout=90)

    def open(self, key: str) -> Any:
        self._barrier.wait()
        return self._store.open(key)


def test_files_are_fetched_side_by_side_and_keep_their_order(table, tmp_path):
    meeting = replace(table, store=Meeting(table, 3))
    assert fetched(meeting, tmp_path / "a", threads=3) == list(range(FILES))
    assert fetched(table, tmp_path / "b", threads=1) == list(range(FILES))


def test_the_first_file_that_is_missing_is_named(table, tmp_path):
    for at in (2, 4):
        (tmp_path / f"store/u/table/p{at}.parquet").unlink()
    for threads in (1, 4):
        with pytest.raises(KartothekFileMissing, match=r"p2\.parquet"):
            fetched(table, tmp_path / str(threads), threads=threads)


def test_all_files_together_are_bounded(table, tmp_path):
    size = sum(path.stat().st_size for path in (tmp_path / "store/u/table").glob("*.parquet"))
    with refusing("FetchedTooLarge", match=f"more than {size - 1} bytes"):
        fetched(table, tmp_path / "a", max_bytes=size - 1)
    assert len(fetched(table, tmp_path / "b", max_bytes=size)) == FILES


def test_too_many_files_are_refused_before_one_is_fetched(table, tmp_path):
    with refusing("TooManyFiles", match="6 new data files, more than the 5") as refused:
        fetched(table, tmp_path / "a", max_files=FILES - 1)
    assert refused.value.facts["limit"] == "max_fetched_files"
    assert list((tmp_path / "a").iterdir()) == []
    assert len(fetched(table, tmp_path / "b", max_files=FILES)) == FILES
