"""Blocks per second: authoring, decoding with hashes, folding the rules, bundling both ways.

    python benchmarks/codec.py [blocks]

Prints each rate, its ratio to the aim, and its ratio to a limit measured in the same run:
SHA3-256 over the same bytes, and the standard `tarfile` with gzip for bundles. Rates are per
second of processor time of one process, the best of several rounds, so that other work on
the machine shows little.
"""

from __future__ import annotations

import hashlib
import io
import sys
import tarfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

sys.path.insert(0, str(Path(__file__).parents[1]))

from odf_protocol.chain.rules import fold
from odf_protocol.codec.blocks import decode_block, encode_block
from odf_protocol.identity import DatasetId
from odf_protocol.instant import Instant
from odf_protocol.metadata.events import (
    AddData,
    DatasetKind,
    DataSlice,
    HashedBlock,
    MetadataBlock,
    MetadataEvent,
    OffsetInterval,
    Seed,
    SetDataSchema,
)
from odf_protocol.metadata.schema import (
    DataField,
    DataSchema,
    DataTypeInt32,
    DataTypeInt64,
    DataTypeTimestamp,
)
from odf_protocol.multihash import ARROW0_SHA3_256, Multihash
from odf_protocol.transfer.bundle import pack, raw_blocks, unpack

T = TypeVar("T")
BLOCKS = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
DECODE_AIM, BUNDLE_AIM = 25_000, 40_000
START = Instant.parse("2024-01-01T00:00:00Z")


def timed(work: Callable[[], T], rounds: int = 3) -> tuple[float, T]:
    """Shortest processor time in seconds, and what came out last."""
    shortest = float("inf")
    for _ in range(rounds):
        began = time.process_time()
        result = work()
        shortest = min(shortest, time.process_time() - began)
    return shortest, result


def events(count: int) -> list[MetadataEvent]:
    """A seed, a schema, and slices of ten rows each."""
    system = {"offset": DataTypeInt64(), "op": DataTypeInt32()}
    times = dict.fromkeys(("system_time", "event_time"), DataTypeTimestamp())
    fields = tuple(DataField(name=n, type=t) for n, t in {**system, **times}.items())
    first: list[MetadataEvent] = [
        Seed(dataset_id=DatasetId(bytes(32)), dataset_kind=DatasetKind.Root),
        SetDataSchema(schema=DataSchema(fields=fields)),
    ]
    return first + [slice_of(number) for number in range(count - len(first))]


def slice_of(number: int) -> AddData:
    digest = hashlib.sha3_256(number.to_bytes(8, "little")).digest()
    return AddData(
        prev_offset=number * 10 - 1 if number else None,
        new_data=DataSlice(
            logical_hash=Multihash(ARROW0_SHA3_256, digest),
            physical_hash=Multihash(0x16, digest),
            offset_interval=OffsetInterval(start=number * 10, end=number * 10 + 9),
            size=4096,
        ),
        new_watermark=START,
    )


def chain(all_events: Sequence[MetadataEvent]) -> list[HashedBlock]:
    blocks: list[HashedBlock] = []
    for number, event in enumerate(all_events):
        prev = blocks[-1].hash if blocks else None
        block = MetadataBlock(
            system_time=START, prev_block_hash=prev, sequence_number=number, event=event
        )
        blocks.append(encode_block(block))
    return blocks


def standard_tar(blocks: Sequence[HashedBlock]) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as archive:
        for block in blocks:
            info = tarfile.TarInfo(str(block.hash))
            info.size = len(block.raw)
            archive.addfile(info, io.BytesIO(block.raw))
    return out.getvalue()


def standard_untar(archive: bytes) -> int:
    with tarfile.open(fileobj=io.BytesIO(archive), mode="r:gz") as entries:
        return sum(
            len(hashlib.sha3_256(entries.extractfile(entry).read()).digest()) > 0  # type: ignore[union-attr]
            for entry in entries
        )


def report(what: str, seconds: float, limit: float, limit_name: str, aim: int = 0) -> None:
    rate = BLOCKS / seconds
    aimed = f"   {rate / aim:>5.2f} × aim of {aim:,}" if aim else ""
    print(f"{what:<34}{rate:>12,.0f} blocks/s   {limit / seconds:>6.2f} × {limit_name}{aimed}")


def main() -> None:
    all_events = events(BLOCKS)
    authoring, blocks = timed(lambda: chain(all_events), rounds=1)
    raws = [block.raw for block in blocks]
    hashing, _ = timed(lambda: [hashlib.sha3_256(raw).digest() for raw in raws])
    decoding, decoded = timed(lambda: [decode_block(raw) for raw in raws])
    folding, state = timed(lambda: fold(decoded))
    print(
        f"{BLOCKS:,} blocks of {sum(map(len, raws)) / BLOCKS:.0f} bytes, {state.num_records:,} rows"
    )
    report("SHA3-256 alone", hashing, hashing, "itself")
    report("author (encode and hash)", authoring, hashing, "SHA3-256")
    report("decode and hash", decoding, hashing, "SHA3-256")
    report("fold the rules", folding, hashing, "SHA3-256")
    report("decode, hash and fold", decoding + folding, hashing, "SHA3-256", DECODE_AIM)
    tarring, archive = timed(lambda: standard_tar(blocks), rounds=1)
    untarring, _ = timed(lambda: standard_untar(archive), rounds=1)
    packing, bundle = timed(lambda: pack(blocks))
    reading, read = timed(lambda: list(raw_blocks(bundle)))
    unpacking, unpacked = timed(lambda: unpack(bundle))
    report("tarfile: build", tarring, tarring, "itself")
    report("bundle: build", packing, tarring, "tarfile", BUNDLE_AIM)
    report("tarfile: read and hash", untarring, untarring, "itself")
    report("bundle: read and hash", reading, untarring, "tarfile", BUNDLE_AIM)
    report("bundle: read, hash and decode", unpacking, untarring, "tarfile")
    if unpacked != blocks or read != [(block.hash, block.raw) for block in blocks]:
        raise SystemExit("the bundle did not come back as it was")


if __name__ == "__main__":
    main()
