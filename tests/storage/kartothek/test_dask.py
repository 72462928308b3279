"""Dask reads what is published, partition by partition, and no data before it is asked to: in a
folder, in a bucket, and through a node."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import dask
import pytest
from backends import fresh_place
from buckets import log_in
from counting import counting
from kartothek_published import A2, Growing, Publisher, by_city
from plateau.io.dask.dataframe import read_dataset_as_ddf
from plateau.io.dask.delayed import read_dataset_as_delayed
from plateau_http import PlateauOverHttp
from plateau_peer import Plateau, PlateauInBucket
from publishing import publishing
from service import serving

from odf_storage.stores.keyed.folder import open_keyed_store
from odf_storage.stores.ports import KeyedStore


def read_lazily(peer: Plateau, uuid: str, begin: Callable[[], None]) -> None:
    """`begin` is called when everything is planned; data files may be missing before."""
    with dask.config.set(scheduler="synchronous"):
        whole = read_dataset_as_ddf(uuid, store=peer.store)
        parts = read_dataset_as_delayed(uuid, store=peer.store, predicates=[[("city", "==", "b")]])
        assert (whole.npartitions, len(parts)) == (3, 2)
        begin()
        rows = whole.compute()
        found = [row for frame in dask.compute(*parts) for row in frame.to_dict("records")]
    assert sorted(rows["offset"]) == list(range(7))
    assert [row[0] for row in by_city(found)] == [1, 3, 4]


def published_and_taken_away(
    made: Growing, store: KeyedStore, tmp_path: Path
) -> Callable[[], None]:
    """A published table whose data files are gone until the result is called."""
    refresh = Publisher(made, store, tmp_path, secondary_indices=("city",))
    for block in A2:
        made.add(block)
    refresh()
    keys = [f"u/table/b{block:08}.parquet" for block in (2, 3, 4)]
    files = {key: store.read(key, most=1 << 20) for key in keys}
    store.delete(keys)

    def put_back() -> None:
        for key, content in files.items():
            assert content is not None
            store.put(key, (content.raw,))

    return put_back


def test_a_folder_is_read_when_dask_computes_and_not_before(made: Growing, tmp_path: Path) -> None:
    store = open_keyed_store((tmp_path / "shop").as_uri(), durable=False)
    begin = published_and_taken_away(made, store, tmp_path)
    read_lazily(Plateau(tmp_path / "shop"), "u", begin)


def test_a_bucket_is_read_when_dask_computes_and_not_before(
    made: Growing, tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    log_in(monkeypatch, request.getfixturevalue("s3"))
    place = fresh_place(request)
    begin = published_and_taken_away(made, open_keyed_store(place), tmp_path)
    read_lazily(PlateauInBucket(place), "u", begin)


def test_what_a_node_serves_is_read_when_dask_computes_and_not_before(tmp_path: Path) -> None:
    with serving(tmp_path / "node") as service, publishing(service.node.stores):
        made = Growing(service.node.stores)
        for block in A2:
            made.add(block)
        with service.http(service.token()) as client:
            asked = {"uuid": "served", "secondaryIndices": ["city"]}
            client.put("/towns/projections/kartothek", json=asked).raise_for_status()
            with counting(service.url) as counted:
                client.base_url = counted.url

                def data_files() -> list[str]:
                    return [each for each in counted.requests if "/table/b" in each]

                def nothing_was_read() -> None:
                    assert len(counted.requests) > 3
                    assert data_files() == []

                read_lazily(PlateauOverHttp(client), "served", nothing_was_read)
                assert data_files() != []
