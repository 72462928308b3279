"""Values of many slices are read as partitions, in the process and on Spark, and are the same."""

from __future__ import annotations

import pytest
from kartothek_published import A2, A, Growing
from publishing import in_process

from odf_protocol.kartothek.predicates import Op, Term
from odf_storage.datasets.kartothek.own_index import block_of, made_of, own_index, refresh_own_index
from odf_storage.datasets.kartothek.parts import SliceValues
from odf_storage.datasets.kartothek.select import selected
from odf_storage.datasets.node.open_stores import StoreSettings, open_stores
from odf_workers.jobs.reading import publish as values
from odf_workers.partitions.port import Here

COLUMNS = ("city", "pop")


@pytest.fixture
def made(tmp_path):
    stores = open_stores(StoreSettings(data=tmp_path / "node", durable=False))
    made = Growing(stores)
    for block in A2:
        made.add(block)
    yield made
    stores.close()


def kept_of(made) -> SliceValues:
    return SliceValues(made_of(made.stores.projections, made.entry.id))


def keep(made, way, monkeypatch, *, least=0) -> int:
    context = in_process()
    context.ingest.micro_batch_bytes = least
    monkeypatch.setattr(values, "way_of", lambda *_: way)
    stores = made.stores
    return values.keep_values(made.dataset, stores.projections, kept_of(made), COLUMNS, context)


def files_of(made) -> dict[str, bytes]:
    mine = made_of(made.stores.projections, made.entry.id)
    return {info.key: mine.read(info.key, most=10**6).raw for info in mine.list("slices")}


def test_an_index_made_of_values_that_were_read_ahead_is_right(made, monkeypatch):
    assert keep(made, Here(), monkeypatch) == 3
    opened = []
    monkeypatch.setattr(type(made.dataset), "open_whole", lambda *some: opened.append(some))
    refresh_own_index(made.dataset, made.stores.projections, COLUMNS)
    assert opened == []
    index = own_index(made.stores.projections, made.entry.id)
    found = selected(index.table, [[Term("city", Op.EQUAL, "b")]])
    assert sorted(block_of(part.label) for part in found) == [2, 3]


def test_values_read_ahead_are_those_that_a_refresh_reads(made, monkeypatch):
    refresh_own_index(made.dataset, made.stores.projections, COLUMNS)
    by_refresh = files_of(made)
    made_of(made.stores.projections, made.entry.id).delete(
        [
            *by_refresh,
            *(info.key for info in made_of(made.stores.projections, made.entry.id).list("index")),
        ]
    )
    keep(made, Here(), monkeypatch)
    assert files_of(made) == by_refresh


def test_only_slices_that_no_index_covers_are_read_ahead_and_only_large_ones(made, monkeypatch):
    refresh_own_index(made.dataset, made.stores.projections, COLUMNS)
    assert keep(made, Here(), monkeypatch) == 0
    made.add([(A, "z", 1)])
    assert keep(made, Here(), monkeypatch, least=10**9) == 0
    assert keep(made, Here(), monkeypatch) == 1
    assert keep(made, Here(), monkeypatch) == 0


@pytest.mark.spark
def test_spark_reads_the_same_values(made, monkeypatch, spark):
    from odf_workers.partitions.on_spark import OnSpark

    keep(made, Here(), monkeypatch)
    here = files_of(made)
    made_of(made.stores.projections, made.entry.id).delete(list(here))
    assert keep(made, OnSpark(spark), monkeypatch) == 3
    assert files_of(made) == here
