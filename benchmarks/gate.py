"""What it costs that received slices are held to their blocks, next to storing them.

    python benchmarks/gate.py [MiB]

Makes slices of that many MiB (default 1024), of 12 MiB each. Then, in turns: they are put into an
object store, as a push puts them (hashed, written, synced); and they pass the gate, with their rows
hashed and without. Seconds by the clock and of processors, those of the processes that look among
them; and both as a share of storing.
"""

from __future__ import annotations

import resource
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "support"))

from chain_maker import some_id
from verify import MIB, make, rows

from odf_protocol.chain.state import EMPTY
from odf_protocol.codec.blocks import decode_block
from odf_storage.datasets.contents.claims import SliceClaim, slice_claims
from odf_storage.datasets.contents.slice_limits import GateLimits
from odf_storage.datasets.gate.gate import Children, SliceGate
from odf_storage.stores.objects.local import LocalObjectStore
from odf_storage.stores.objects.pending_files import FolderObjects
from odf_storage.stores.ports.values import ObjectKey, ObjectKind
from odf_workers.slices.write import parquet_settings

LIMITS = {"memory": 2048 * MIB, "seconds": 600.0, "ratio": 1000}


class Slices:
    """A dataset as the gate needs one."""

    def __init__(self, objects: FolderObjects) -> None:
        self._objects = objects

    def open_whole(self, kind: ObjectKind, name: Any) -> Any:
        return self._objects.open(kind, name)


def claims_of(objects: FolderObjects) -> list[SliceClaim]:
    blocks, following = [], objects.read_ref("head")
    while following is not None:
        with objects.open(ObjectKind.BLOCK, following) as stream:
            blocks.append(decode_block(stream.read()))
        following = blocks[-1].prev
    return list(slice_claims(reversed(blocks), EMPTY))


def cost(work: Callable[[], None]) -> tuple[float, float]:
    began, used = time.perf_counter(), processors()
    work()
    return time.perf_counter() - began, processors() - used


def processors() -> float:
    """Seconds of this process and of those it has waited for."""
    both = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(one.ru_utime + one.ru_stime for one in both)


def store(objects: FolderObjects, claims: list[SliceClaim], folder: Path) -> None:
    target = LocalObjectStore(folder)
    for claim in claims:
        name = claim.declared.physical_hash
        with objects.open(ObjectKind.DATA, name) as stream:
            chunks = iter(lambda: stream.read(MIB), b"")
            target.put(ObjectKey(some_id("bench"), ObjectKind.DATA, name), chunks)


def held(objects: FolderObjects, claims: list[SliceClaim], at_once: int | None) -> None:
    children = Children()
    gate = SliceGate(GateLimits(**LIMITS, hashed_at_once=at_once), children)
    gate.hold(Slices(objects), claims)  # type: ignore[arg-type]
    children.end()


def main() -> None:
    size = int(sys.argv[1]) if len(sys.argv) > 1 else 1024
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        objects, _ = make(folder / "made", size * MIB, parquet_settings(rows(0, 1).schema))
        claims = claims_of(objects)
        ways: dict[str, Callable[[], None]] = {
            "stored": lambda: store(objects, claims, folder / "stored"),
            "all rows": lambda: held(objects, claims, None),
            "system columns": lambda: held(objects, claims, 0),
        }
        costs = {way: cost(work) for way, work in ways.items()}
    print(f"{size} MiB, {len(claims)} slices")
    for way, (clock, used) in costs.items():
        shares = [one / base for one, base in zip((clock, used), costs["stored"], strict=True)]
        told = f"{way:16} {clock:6.1f} s, {used:6.1f} s of processors"
        print(f"{told}   {shares[0]:.2f} {shares[1]:.2f}")


if __name__ == "__main__":
    main()
