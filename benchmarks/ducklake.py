"""A lake of many datasets, and of one with many slices: what DuckDB takes to attach and to scan it.

    python benchmarks/ducklake.py DATASETS SLICES

Each dataset has ten columns and one slice; one more has SLICES slices, which are also read from the
disk of the node.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "support"))

from ducklake_clients import duck, lake
from service import serving
from table_made import ITEMS, TableMade, item

from odf_storage.stores.ports.values import Visibility

ROWS, TIMES = 2_000, 5


def seconds(what: Callable[[], object]) -> float:
    start = time.perf_counter()
    what()
    return time.perf_counter() - start


def main(datasets: int, slices: int) -> None:
    with tempfile.TemporaryDirectory() as folder, serving(Path(folder)) as service:
        stores, public = service.node.stores, Visibility.PUBLIC
        for at in range(datasets):
            made = TableMade(stores, f"kamu/d{at}", ITEMS, visibility=public)
            made.add([item(at)])
        many = TableMade(stores, "kamu/many", ITEMS, visibility=public)
        many.add_blocks([[item(at) for at in range(ROWS)] for _ in range(slices)])
        print(f"{datasets} datasets, {slices} slices of {ROWS} rows")
        print(f"make the lake: {seconds(lambda: lake(service)):.2f} s")
        many.add([item(0)])
        print(f"make it again, one head later: {seconds(lambda: lake(service)):.2f} s")
        attach = lake(service)["attach"]
        print(f"name it again: {seconds(lambda: lake(service)):.3f} s")

        def attached() -> float:
            with duck(service, attach="SELECT 1") as db:
                return seconds(lambda: db.execute(attach)) + seconds(
                    lambda: db.execute("SELECT count(*) FROM odf.kamu.d0").fetchall()
                )

        took = statistics.median(attached() for _ in range(TIMES))
        print(f"attach and count one table: {took:.2f} s")
        paths = [str(each) for each in Path(folder).rglob("data/*") if each.is_file()]
        names = {str(part.physical_hash) for part in many.parts}
        files = [path for path in paths if Path(path).name in names]
        urls = [f"{service.url}/many/data/{Path(path).name}" for path in files]
        query = "SELECT count(name), sum(weight), max(price) FROM "
        for what, source in (
            ("files on the disk", f"read_parquet({files})"),
            ("URLs of files", f"read_parquet({urls})"),
            ("lake", "odf.kamu.many"),
        ):
            taken = []
            for _ in range(TIMES):
                with duck(service, attach=attach) as db:
                    db.execute("SELECT count(*) FROM odf.kamu.d0")  # the catalogue is read
                    taken.append(seconds(lambda q=query + source, d=db: d.execute(q).fetchall()))
            print(f"scan, {what}: {statistics.median(taken):.2f} s")


if __name__ == "__main__":
    main(*(int(each) for each in sys.argv[1:]))
