"""A thousand slices as an Iceberg table: few manifests, which stay as they are while it grows.

They take some seconds to make and to look at once, so there are few tests, which follow each other.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pytest
from iceberg_clients import catalogue
from service import Service, serving
from table_made import TableMade

R = 1
SLICES = 1_000
TOWNS = pa.schema([("city", pa.string()), ("pop", pa.int64())])


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with serving(tmp_path_factory.mktemp("node")) as service:
        yield service


def test_a_thousand_slices_are_few_manifests_and_deleted_rows_stay_with_their_slice(service):
    many = TableMade(service.node.stores, "kamu/many", TOWNS)
    many.add_blocks([[{"city": f"c{at}", "pop": at}] * 2 for at in range(SLICES)])
    catalog = catalogue(service, service.token())
    table = catalog.load_table("kamu.many")
    assert len(table.snapshots()) == SLICES
    before = table.current_snapshot().manifests(table.io)
    assert len(before) == 4
    assert len(list(table.scan().plan_files())) == SLICES
    some = table.scan(row_filter="offset >= 700 and offset < 704")
    assert [task.file.record_count for task in some.plan_files()] == [2, 2]
    assert some.to_arrow()["pop"].to_pylist() == [350, 350, 351, 351]

    gone = [{"city": f"c{at}", "pop": at} for at in range(3, SLICES, 100)]
    many.add(gone, [R] * len(gone))
    table = catalog.load_table("kamu.many")
    assert len(table.snapshots()) == SLICES
    after = table.current_snapshot().manifests(table.io)
    assert [each.manifest_path for each in before[:-1]] == [
        each.manifest_path for each in after if each in before
    ]
    tasks = [task for task in table.scan().plan_files() if task.delete_files]
    assert len(tasks) == len(gone) + 1
    living = table.scan(row_filter="offset < 16", selected_fields=("offset", "pop")).to_arrow()
    left = [at for at in range(8) for _ in range(1 if at == 3 else 2)]
    assert sorted(living["pop"].to_pylist()) == left
    assert table.scan(row_filter=f"offset >= {2 * SLICES}").to_arrow().num_rows == 0
