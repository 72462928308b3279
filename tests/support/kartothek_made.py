"""Small Kartothek datasets, written file by file so that a test can spoil any of them."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from odf_storage.stores.keyed.folder import FolderKeyedStore

UUID = "u"


def parquet(table: pa.Table | Mapping[str, Any], **options: Any) -> bytes:
    """A table as the bytes of a Parquet file."""
    sink = io.BytesIO()
    whole = table if isinstance(table, pa.Table) else pa.table(dict(table))
    pq.write_table(whole, sink, **options)
    return sink.getvalue()


class Made:
    """A dataset in a folder. Files are written as given; the state when `write_state` is called."""

    def __init__(self, folder: Path, uuid: str = UUID) -> None:
        self.store = FolderKeyedStore(folder, durable=False)
        self.uuid = uuid
        self.state: dict[str, Any] = {
            "dataset_metadata_version": 4,
            "dataset_uuid": uuid,
            "partitions": {},
        }

    def schema(self, fields: Mapping[str, pa.DataType], table: str = "table") -> Made:
        sink = io.BytesIO()
        pq.write_metadata(pa.schema(list(fields.items())), sink)
        self.store.put(f"{self.uuid}/{table}/_common_metadata", [sink.getvalue()])
        return self

    def file(self, label: str, rows: pa.Table | Mapping[str, Any], table: str = "table") -> Made:
        """A data file and its partition."""
        key = f"{self.uuid}/{table}/{label}.parquet"
        self.store.put(key, [parquet(rows)])
        return self.partition(label, key, table)

    def partition(self, label: str, key: str, table: str = "table") -> Made:
        self.state["partitions"].setdefault(label, {"files": {}})["files"][table] = key
        return self

    def index(self, column: str, rows: pa.Table | Mapping[str, Any]) -> Made:
        key = f"{self.uuid}/indices/{column}/1.by-dataset-index.parquet"
        self.store.put(key, [parquet(rows)])
        self.state.setdefault("indices", {})[column] = key
        return self

    def write_state(self, **more: Any) -> FolderKeyedStore:
        """The state file, with these entries in place of those it had; None takes one out."""
        document = {name: value for name, value in {**self.state, **more}.items() if value != "-"}
        raw = json.dumps(document).encode()
        self.store.put(f"{self.uuid}.by-dataset-metadata.json", [raw])
        return self.store
