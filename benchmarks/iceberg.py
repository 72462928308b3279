"""A million rows loaded by pyiceberg through a node, next to the same files from disk.

    python benchmarks/iceberg.py [rows] [slices]

The limit, in the same run: Arrow reads the slices where they lie. The node is a thread of this
process, so the client waits for it and it for the client.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "support"))

import pyarrow as pa
import pyarrow.parquet as pq
from iceberg_clients import catalogue
from service import serving
from table_made import TableMade

ROWS, SLICES = [int(word) for word in [*sys.argv[1:], "1000000", "10"][:2]]
COLUMNS = pa.schema([("city", pa.string()), ("pop", pa.int64())])
TIMES = 5


def took(load: Callable[[], int]) -> float:
    """Milliseconds, the median of some."""
    spent = []
    for _ in range(TIMES):
        began = time.perf_counter()
        assert load() == ROWS
        spent.append(1000 * (time.perf_counter() - began))
    return statistics.median(spent)


def main() -> None:
    with tempfile.TemporaryDirectory() as folder, serving(Path(folder) / "data") as service:
        made = TableMade(service.node.stores, "kamu/many", COLUMNS)
        size = ROWS // SLICES
        for number in range(SLICES):
            made.add([{"city": f"c{at % 997}", "pop": number * size + at} for at in range(size)])
        data = Path(folder) / "data"
        paths = [next(data.rglob(f"{part.physical_hash}*")) for part in made.parts]
        catalog = catalogue(service, service.token())

        def by_iceberg() -> int:
            return int(catalog.load_table("kamu.many").scan().to_arrow().num_rows)

        def from_disk() -> int:
            return sum(pq.read_table(path).num_rows for path in paths)

        assert by_iceberg() == ROWS  # the node looks at new slices once
        limit, found = took(from_disk), took(by_iceberg)
        print(
            f"{ROWS} rows in {SLICES} slices, {sum(p.stat().st_size for p in paths) / 1e6:.1f} MB"
        )
        print(f"  the limit: from disk   {limit:8.1f} ms")
        print(f"  by pyiceberg           {found:8.1f} ms, ratio {found / limit:5.1f}")


if __name__ == "__main__":
    main()
