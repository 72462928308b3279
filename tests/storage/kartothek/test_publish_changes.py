"""Publication of datasets whose schema grows or whose history is replaced; and into a bucket."""

from __future__ import annotations

import pytest
from backends import fresh_place
from buckets import log_in
from chain_maker import infos, linked
from kartothek_published import A2, A, C, Growing, Publisher, Watched, by_city, extend
from plateau_peer import Plateau
from upkeep_parts import key_of

from odf_storage.datasets.kartothek.definition import Mode
from odf_storage.datasets.kartothek.rows import whole_table
from odf_storage.datasets.kartothek.select import open_table
from odf_storage.datasets.node.open_stores import StoreSettings, open_stores
from odf_storage.stores.keyed.folder import open_keyed_store
from odf_storage.stores.ports.errors import SwapLost
from odf_storage.stores.ports.values import ObjectKind


def test_slices_from_before_a_new_column_get_it_as_nulls(made, store, tmp_path):
    refresh = Publisher(made, store, tmp_path, secondary_indices=("mayor",))
    plain = Publisher(made, store, tmp_path)
    made.add(A2[0])
    plain()
    extend(made)
    refresh.now = plain.now
    refresh()
    rows = Plateau(store.root).read("u", [[("mayor", "==", "Ada")]])
    assert by_city(rows) == [(3, A, "w", 1)]
    rows = whole_table(open_table(store, "u")).to_pylist()
    assert sorted((row["city"], row["mayor"]) for row in rows) == [
        ("a", None), ("b", None), ("c", None), ("w", "Ada")
    ]  # fmt: skip
    labels = sorted(each.label for each in open_table(store, "u").partitions)
    assert labels == ["b00000002-r00000004", "b00000004"]


def test_a_replaced_history_is_published_under_keys_that_nobody_reads(made, store, tmp_path):
    refresh = Publisher(made, store, tmp_path, secondary_indices=("city",))
    made.add(A2[0])
    made.add(A2[1])
    refresh()
    reader = open_table(store, "u")
    before = by_city(whole_table(reader).to_pylist())
    old = made.blocks[-1].hash
    made.blocks, made.offset = made.blocks[:2], 0
    made.blocks.append(linked(made.blocks[-1], infos("another history")[0]))
    made.dataset.commit([made.blocks[-1]], expected=old, force=True)
    made.add([(A, "new", 1)])
    made.add([(A, "newer", 2)])
    refresh()
    assert by_city(whole_table(open_table(store, "u")).to_pylist()) == [
        (0, A, "new", 1), (1, A, "newer", 2)
    ]  # fmt: skip
    assert by_city(whole_table(reader).to_pylist()) == before
    assert sorted(Plateau(store.root).index("u", "city")) == ["new", "newer"]


def test_two_publishers_do_not_write_over_each_other(made, store, tmp_path):
    made.add(A2[0])
    Publisher(made, store, tmp_path)()
    made.add(A2[1])

    class Overtaken(Watched):
        def __getattr__(self, name):
            if name == "swap":
                path = store.root / "u.by-dataset-metadata.json"
                path.write_bytes(path.read_bytes() + b" ")
            return super().__getattr__(name)

    with pytest.raises(SwapLost):
        Publisher(made, store, tmp_path)(store=Overtaken(store))
    assert len(whole_table(open_table(store, "u"))) == 3


@pytest.mark.parametrize("mode", list(Mode))
def test_a_bucket_has_what_a_folder_has(made, store, tmp_path, request, monkeypatch, mode):
    log_in(monkeypatch, request.getfixturevalue("s3"))
    bucket = open_keyed_store(fresh_place(request))
    (tmp_path / "bucket").mkdir()
    settings = {"mode": mode, "secondary_indices": ("city", "event_time")}
    publishers = [
        Publisher(made, store, tmp_path, **settings),
        Publisher(made, bucket, tmp_path / "bucket", **settings),
    ]
    for block in A2:
        made.add(block)
        for publisher in publishers:
            publisher()
        there, here = (whole_table(open_table(place, "u")).to_pylist() for place in (bucket, store))
        assert by_city(there) == by_city(here)
    assert sorted(info.key for info in bucket.list("u")) == sorted(
        info.key for info in store.list("u")
    )


def test_a_bucket_copies_slices_of_a_bucket_by_itself(tmp_path, request, monkeypatch):
    log_in(monkeypatch, request.getfixturevalue("s3"))
    settings = StoreSettings(
        data=tmp_path / "node", objects_url=fresh_place(request), durable=False
    )
    stores = open_stores(settings)
    try:
        made = Growing(stores)
        made.add([(A, "a", 1), (C, "a", 1)])
        shop = Watched(open_keyed_store(fresh_place(request)))
        Publisher(made, shop, tmp_path)()
        [part] = made.parts
        found = shop.read("u/table/b00000002.parquet", most=1 << 20)
        key = key_of(made.entry, ObjectKind.DATA, part.physical_hash)
        assert found.raw == stores.objects.open(key).read()
        assert shop.names("link") == ["u/table/b00000002.parquet"]
    finally:
        stores.close()
