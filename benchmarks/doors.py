"""A table of a thousand slices: what `query` of Delta Sharing and loading by Iceberg's catalogue
take on the node's side.

    python benchmarks/doors.py [slices] [asked]

Times are of requests over HTTP after the first one, which looks at every slice once; next to them,
in the same run, is the limit: the smallest answer that the node gives, to a request with a token.
The processor's time is that of the whole process, client included. The last table has a
row taken back from every slice.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "support"))

import httpx
import pyarrow as pa
from service import serving
from table_made import TableMade

SLICES, ASKED = [int(word) for word in [*sys.argv[1:], "1000", "30"][:2]]
COLUMNS = pa.schema([("city", pa.string()), ("pop", pa.int64())])
DELTA = {"delta-sharing-capabilities": "responseformat=delta;readerfeatures=deletionvectors"}
R = 1


@dataclass(frozen=True)
class Took:
    """Medians of a request in milliseconds, and the first one."""

    first_ms: float
    wall_ms: float
    cpu_ms: float
    size: int


def took(ask: Callable[[], httpx.Response]) -> Took:
    first, wall, cpu, size = 0.0, [], [], 0
    for number in range(ASKED + 1):
        began, worked = time.perf_counter(), time.process_time()
        answer = ask()
        spent = 1000 * (time.perf_counter() - began)
        assert answer.status_code == 200, answer.text
        if number == 0:
            first = spent
            continue
        wall.append(spent)
        cpu.append(1000 * (time.process_time() - worked))
        size = len(answer.content)
    return Took(first, statistics.median(wall), statistics.median(cpu), size)


def show(name: str, found: Took, limit: Took) -> None:
    print(
        f"  {name:<30} p50 {found.wall_ms:7.1f} ms, {found.cpu_ms:6.1f} ms of processor, "
        f"{found.size / 1e3:7.1f} kB, first {found.first_ms:8.1f} ms, "
        f"ratio {found.wall_ms / limit.wall_ms:5.1f}"
    )


def main() -> None:
    with tempfile.TemporaryDirectory() as folder, serving(Path(folder) / "data") as service:
        many = TableMade(service.node.stores, "kamu/many", COLUMNS)
        for number in range(SLICES):
            many.add([{"city": f"c{number}-{at}", "pop": at} for at in range(10)])
        some = TableMade(service.node.stores, "kamu/some", COLUMNS)
        for number in range(SLICES):
            some.add([{"city": f"c{number}-{at}", "pop": at} for at in range(10)])
        gone = [{"city": f"c{number}-3", "pop": 3} for number in range(SLICES)]
        some.add(gone, [R] * len(gone))
        with service.http(service.token()) as client:
            tables = "/delta-sharing/shares/kamu/schemas/default/tables"
            print(f"{SLICES} slices of 10 rows")
            limit = took(lambda: client.get("/delta-sharing/shares/kamu"))
            show("the limit: one share", limit, limit)
            catalogue = "/iceberg/v1/default/namespaces/kamu/tables"
            asked: dict[str, Callable[[], httpx.Response]] = {
                "version": lambda: client.get(f"{tables}/many/version"),
                "metadata": lambda: client.get(f"{tables}/many/metadata"),
                "query": lambda: client.post(f"{tables}/many/query", json={}),
                "query, limitHint": lambda: client.post(
                    f"{tables}/many/query", json={"limitHint": 5}
                ),
                "query, rows taken back": lambda: client.post(
                    f"{tables}/some/query", json={}, headers=DELTA
                ),
                "iceberg": lambda: client.get(f"{catalogue}/many"),
                "iceberg, newest snapshot": lambda: client.get(f"{catalogue}/many?snapshots=refs"),
                "iceberg, rows taken back": lambda: client.get(f"{catalogue}/some"),
            }
            for name, ask in asked.items():
                show(name, took(ask), limit)


if __name__ == "__main__":
    main()
