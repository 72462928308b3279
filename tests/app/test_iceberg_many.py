"""A thousand slices as an Iceberg table: few manifests, which stay as they are while it grows.

They take some twenty seconds to make and to look at, so one test follows them through: what clients
ask of a table grows with its slices, and shows with so many only.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pytest
from iceberg_clients import catalogue, rows
from plain_values import plain
from service import Service, serving
from table_made import ITEMS, TableMade, item

R = 1
SLICES = 1_000
NAMES = ("id", "price", "seen", "tags", "place")
COLUMNS = pa.schema([ITEMS.field(name) for name in NAMES])
"""Decimals, instants, lists and structs, some of them null."""


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with serving(tmp_path_factory.mktemp("node")) as service:
        yield service


def test_a_thousand_slices_are_few_manifests_and_deleted_rows_stay_with_their_slice(service):
    many = TableMade(service.node.stores, "kamu/many", COLUMNS)
    many.add_blocks([[item(at), item(at)] for at in range(SLICES)])
    catalog = catalogue(service, service.token())
    table = catalog.load_table("kamu.many")
    assert len(table.snapshots()) == SLICES
    before = table.current_snapshot().manifests(table.io)
    assert len(before) == 4
    assert len(list(table.scan().plan_files())) == SLICES
    some = table.scan(row_filter="offset >= 700 and offset < 706")
    assert [task.file.record_count for task in some.plan_files()] == [2, 2, 2]
    found = [row[4:] for row in rows(some.to_arrow())]
    wanted = [item(at) for at in (350, 350, 351, 351, 352, 352)]
    assert found == [[plain(row[name]) for name in NAMES] for row in wanted]

    gone = [item(at) for at in range(3, SLICES, 100)]
    many.add(gone, [R] * len(gone))
    table = catalog.load_table("kamu.many")
    assert len(table.snapshots()) == SLICES
    after = table.current_snapshot().manifests(table.io)
    kept = {each.manifest_path for each in after} & {each.manifest_path for each in before}
    assert kept == {each.manifest_path for each in before[:-1]}
    tasks = [task for task in table.scan().plan_files() if task.delete_files]
    assert len(tasks) == len(gone) + 1
    living = table.scan(row_filter="offset < 16", selected_fields=("offset", "id")).to_arrow()
    left = [at for at in range(8) for _ in range(1 if at == 3 else 2)]
    assert sorted(living["id"].to_pylist()) == left
    assert table.scan(row_filter=f"offset >= {2 * SLICES}").to_arrow().num_rows == 0
