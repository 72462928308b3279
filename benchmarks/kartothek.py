"""What publishing a dataset as a Kartothek dataset costs, beside copying its files.

First rows in few slices, with an index on a text; then one more block on very many slices; then one
more block on the state of slices of a thousand rows, with a key and without.

    python benchmarks/kartothek.py [ROWS] [SLICES]
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "support"))

from chain_maker import add_data, parquet, slice_of
from kartothek_published import A, C, D, Growing, Publisher, R, Watched
from processes import bytes_read
from upkeep_parts import key_of

from odf_storage.datasets.kartothek.definition import Mode
from odf_storage.datasets.node.open_stores import StoreSettings, open_stores
from odf_storage.stores.keyed.folder import FolderKeyedStore
from odf_storage.stores.ports.values import ObjectKind

ROWS, SLICES, ROWS_OF_SLICE, CITIES = 1_000_000, 1_000, 50_000, 10_000
ROWS_OF_STATE = 1_000


def main() -> None:
    rows = int(sys.argv[1]) if len(sys.argv) > 1 else ROWS
    slices = int(sys.argv[2]) if len(sys.argv) > 2 else SLICES
    with tempfile.TemporaryDirectory() as folder:
        many_rows(Path(folder), rows)
    with tempfile.TemporaryDirectory() as folder:
        many_slices(Path(folder), slices)
    for key in (("city",), None):
        with tempfile.TemporaryDirectory() as folder:
            state_of_many(Path(folder), slices, key)


def many_rows(folder: Path, rows: int) -> None:
    """Publication for the first time, as a ratio to copying the slices."""
    stores = open_stores(StoreSettings(data=folder / "node", durable=False))
    made = Growing(stores)
    random = np.random.default_rng(0)
    for start in range(0, rows, ROWS_OF_SLICE):
        add_table(made, random.integers(0, CITIES, min(ROWS_OF_SLICE, rows - start)))
    paths = [made.slice_path(part) for part in made.parts]
    copy = timed(lambda: [shutil.copy(path, folder / path.name) for path in paths])
    size = sum(path.stat().st_size for path in paths)
    print(f"{rows:,} rows, {size / 1e6:,.1f} MB in {len(paths)} slices; a copy: {copy:.2f} s")
    for said, config in (
        ("changelog", {}),
        ("changelog, index", {"secondary_indices": ("city",)}),
        ("state, index", {"mode": Mode.STATE, "secondary_indices": ("city",)}),
    ):
        place = folder / said.replace(", ", "-")
        place.mkdir()
        store = FolderKeyedStore(place / "shop", durable=False)
        took = timed(Publisher(made, store, place, **config))
        print(f"  published as {said}: {took:.2f} s, {took / copy:.1f} times the copy")
    stores.close()


def many_slices(folder: Path, slices: int) -> None:
    """One block more: what is opened and written of a table that stands."""
    stores = open_stores(StoreSettings(data=folder / "node", durable=False))
    made = Growing(stores)
    for number in range(slices):
        made.add([(A, f"c{number % CITIES}", number), (A, "everywhere", number)])
    store = FolderKeyedStore(folder / "shop", durable=False)
    refresh = Publisher(made, store, folder, secondary_indices=("city",))
    first = timed(refresh)
    made.add([(A, "new", 1)])
    watched = Watched(store)
    again = timed(lambda: refresh(store=watched))
    calls = {name: len(watched.names(name)) for name in ("open", "list", "link", "put", "swap")}
    print(f"{slices:,} slices published in {first:.2f} s; one more block: {again:.2f} s")
    print(f"  calls of the store: {calls}")
    stores.close()


def state_of_many(folder: Path, slices: int, key: tuple[str, ...] | None) -> None:
    """One block more, of rows that are new, corrected and retracted, in state mode."""
    stores = open_stores(StoreSettings(data=folder / "node", durable=False))
    made = Growing(stores)
    for number in range(slices):
        made.add([(A, f"c{number:05}-{at:03}", at) for at in range(ROWS_OF_STATE)])
    store = FolderKeyedStore(folder / "shop", durable=False)
    refresh = Publisher(made, store, folder, mode=Mode.STATE, primary_key=key)
    first, read = timed(refresh), bytes_read(os.getpid())
    size = sum(part.size for part in made.parts)
    matched = f"key {', '.join(key)}" if key else "no key"
    print(f"{slices:,} slices of {ROWS_OF_STATE:,} rows, {size / 1e6:,.1f} MB, state, {matched}")
    print(f"  published in {first:.2f} s")
    for said, rows in (
        ("a new row", [(A, "new", 1)]),
        ("a correction", [(C, "c00007-007", 7), (D, "c00007-007", 8)]),
        ("a retraction", [(R, "c00009-007", 7)]),
    ):
        made.add(rows)
        read = bytes_read(os.getpid())
        again = timed(refresh)
        read = bytes_read(os.getpid()) - read
        print(f"  {said} more: {again:.2f} s, {read / 1e6:,.2f} MB read")
    stores.close()


def add_table(made: Growing, cities: np.ndarray) -> None:
    """A block of +A."""
    count = len(cities)
    empty = made.table([])
    columns = {
        "offset": pa.array(np.arange(made.offset, made.offset + count)),
        "op": pa.array(np.zeros(count, np.int32)),
        "system_time": pa.array([0] * count, empty.schema.field("system_time").type),
        "event_time": pa.array([0] * count, empty.schema.field("event_time").type),
        "city": pa.array([f"city {number}" for number in cities]),
        "pop": pa.array(cities.astype(np.int64)),
    }
    table = pa.table(columns, schema=empty.schema)
    content = parquet(table)
    part = slice_of(content, table, made.offset)
    made.stores.objects.put(key_of(made.entry, ObjectKind.DATA, part.physical_hash), [content])
    made.commit(add_data(part, prev=made.offset - 1 if made.offset else None))
    made.offset += count
    made.parts.append(part)


def timed(work: Callable[[], object]) -> float:
    """Seconds."""
    begun = time.perf_counter()
    work()
    return time.perf_counter() - begun


if __name__ == "__main__":
    main()
