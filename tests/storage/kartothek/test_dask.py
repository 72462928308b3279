"""Dask reads what is published, partition by partition, and no data before it is asked to."""

from __future__ import annotations

from pathlib import Path

import dask
from kartothek_published import A2, Growing, Publisher, by_city
from plateau.io.dask.dataframe import read_dataset_as_ddf
from plateau.io.dask.delayed import read_dataset_as_delayed
from plateau_peer import Plateau

from odf_node.storage.stores.keyed.folder import FolderKeyedStore


def test_dask_reads_rows_when_it_computes_and_not_before(
    made: Growing, store: FolderKeyedStore, tmp_path: Path
) -> None:
    refresh = Publisher(made, store, tmp_path, secondary_indices=("city",))
    for block in A2:
        made.add(block)
    refresh()
    peer = Plateau(store.root).store
    data = sorted((store.root / "u/table").glob("*.parquet"))
    away = tmp_path / "away"
    away.mkdir()
    for path in data:
        path.rename(away / path.name)
    with dask.config.set(scheduler="synchronous"):
        whole = read_dataset_as_ddf("u", store=peer)
        parts = read_dataset_as_delayed("u", store=peer, predicates=[[("city", "==", "b")]])
        assert (whole.npartitions, len(parts)) == (3, 2)
        for path in data:
            (away / path.name).rename(path)
        rows = whole.compute()
        found = [row for frame in dask.compute(*parts) for row in frame.to_dict("records")]
    assert sorted(rows["offset"]) == list(range(7))
    assert [row[0] for row in by_city(found)] == [1, 3, 4]
