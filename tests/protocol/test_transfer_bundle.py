"""Bundles come back whole, and nothing else gets in."""

from __future__ import annotations

import gzip
import io
import tarfile
import zlib
from collections.abc import Callable

import pytest
from refusals import refusing

from odf_protocol.codec.blocks import MAX_BLOCK_BYTES, encode_block
from odf_protocol.errors import NodeError
from odf_protocol.identity import DatasetId
from odf_protocol.instant import Instant
from odf_protocol.metadata.events import DatasetKind, HashedBlock, MetadataBlock, Seed, SetInfo
from odf_protocol.multihash import HashMismatch, Multihash
from odf_protocol.transfer.bundle import BundleLimits, pack, unpack
from odf_protocol.transfer.messages import MetadataBlocksBatch
from odf_protocol.transfer.phases import decode_payload, encode_payload

NOW = Instant.parse("2024-01-01T00:00:00Z")


def _chain(length: int) -> list[HashedBlock]:
    seed = Seed(dataset_id=DatasetId(bytes(range(32))), dataset_kind=DatasetKind.Root)
    blocks = [encode_block(MetadataBlock(system_time=NOW, sequence_number=0, event=seed), 2)]
    for number in range(1, length):
        event = SetInfo(description=f"version {number}")
        block = MetadataBlock(
            system_time=NOW, prev_block_hash=blocks[-1].hash, sequence_number=number, event=event
        )
        blocks.append(encode_block(block))
    return blocks


CHAIN = _chain(5)


def _batch(compressed: bytes, num_blocks: int = 1, **changes: str) -> MetadataBlocksBatch:
    fields = {"media_type": "application/tar+gzip", "encoding": "raw"} | changes
    return MetadataBlocksBatch(num_blocks=num_blocks, payload=encode_payload(compressed), **fields)


def _tar(*entries: tuple[str, bytes], flavour: int = tarfile.GNU_FORMAT, **info: object) -> bytes:
    """A tar made by somebody else."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=flavour) as tar:
        for name, content in entries:
            member = tarfile.TarInfo(name)
            member.size = len(content)
            for key, value in info.items():
                setattr(member, key, value)
            tar.addfile(member, io.BytesIO(content))
    return out.getvalue()


def _one(block: HashedBlock = CHAIN[0], name: str | None = None) -> tuple[str, bytes]:
    return (name or str(block.hash), block.raw)


def _compressed(batch: MetadataBlocksBatch) -> bytes:
    return b"".join(decode_payload(batch.payload))


def test_blocks_come_back_in_their_order_with_their_bytes() -> None:
    batch = pack(CHAIN)
    assert batch.num_blocks == 5
    assert unpack(batch) == CHAIN


def test_no_blocks_are_a_bundle_too() -> None:
    assert unpack(pack([])) == []


def test_the_same_blocks_make_the_same_bytes() -> None:
    assert pack(CHAIN) == pack(list(CHAIN))


def test_other_tools_read_our_bundles() -> None:
    with tarfile.open(fileobj=io.BytesIO(_compressed(pack(CHAIN))), mode="r:gz") as tar:
        members = tar.getmembers()
        assert [member.name for member in members] == [str(block.hash) for block in CHAIN]
        assert {(member.mode, member.uid, member.gid, member.mtime) for member in members} == {
            (0, 0, 0, 0)
        }
        assert [tar.extractfile(member).read() for member in members] == [b.raw for b in CHAIN]


@pytest.mark.parametrize("flavour", [tarfile.GNU_FORMAT, tarfile.USTAR_FORMAT, tarfile.PAX_FORMAT])
@pytest.mark.parametrize("info", [{}, {"mtime": 12.5, "uname": "é", "mode": 0o644}], ids=str)
def test_bundles_of_other_tools_are_read(flavour: int, info: dict[str, object]) -> None:
    if flavour == tarfile.USTAR_FORMAT:
        info = {**info, "uname": "u"}
    tar = _tar(*(_one(block) for block in CHAIN), flavour=flavour, **info)
    assert unpack(_batch(gzip.compress(tar), 5)) == CHAIN


def test_long_names_of_other_encodings_are_read() -> None:
    base2 = "0" + "".join(f"{byte:08b}" for byte in CHAIN[0].hash.raw)
    for flavour in (tarfile.GNU_FORMAT, tarfile.PAX_FORMAT):
        tar = _tar(_one(name=base2), flavour=flavour)
        with pytest.raises(NodeError):  # base 2 is no final encoding
            unpack(_batch(gzip.compress(tar)))


def _refused(compressed: bytes, num_blocks: int = 1, **changes: str) -> None:
    with refusing("MalformedBundle"):
        unpack(_batch(compressed, num_blocks, **changes))


GOOD = gzip.compress(_tar(_one()))


@pytest.mark.parametrize("change", [{"media_type": "application/tar"}, {"encoding": "base64"}])
def test_another_format_is_refused(change: dict[str, str]) -> None:
    _refused(GOOD, **change)


@pytest.mark.parametrize("num_blocks", [0, 2])
def test_another_number_than_announced_is_refused(num_blocks: int) -> None:
    _refused(GOOD, num_blocks)


def test_a_block_twice_is_refused_except_where_repeats_are_expected() -> None:
    twice = gzip.compress(_tar(_one(), _one()))
    _refused(twice, 2)
    for announced in (1, 2):
        assert len(unpack(_batch(twice, announced), repeats=True)) == 2
    with refusing("MalformedBundle"):
        unpack(_batch(twice, 3), repeats=True)


@pytest.mark.parametrize(
    "name", ["", "head", "../x", "./{}", "blocks/{}", "{}/", "{}\n", "f1620abcd", "é"]
)
def test_a_name_that_is_no_plain_hash_is_refused(name: str) -> None:
    _refused(gzip.compress(_tar(_one(name=name.format(CHAIN[0].hash) or "\t"))))


@pytest.mark.parametrize(
    "kind",
    [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.DIRTYPE, tarfile.FIFOTYPE, tarfile.CHRTYPE, b"S"],
)
def test_anything_but_regular_files_is_refused(kind: bytes) -> None:
    _refused(gzip.compress(_tar(_one(), type=kind, linkname="/etc/passwd")))


def test_content_that_is_not_its_name_is_refused() -> None:
    with pytest.raises(HashMismatch):
        unpack(_batch(gzip.compress(_tar(_one(CHAIN[1], str(CHAIN[0].hash))))))


def test_a_file_that_is_no_block_is_refused() -> None:
    with refusing("MalformedBlock"):
        unpack(_batch(gzip.compress(_tar((str(Multihash.of(b"x")), b"x")))))


TAR = _tar(_one())
DAMAGES: dict[str, Callable[[], bytes]] = {
    "no gzip": lambda: TAR,
    "empty": lambda: b"",
    "gzip broken off": lambda: GOOD[:-9],
    "two members": lambda: GOOD + GOOD,
    "behind the gzip": lambda: GOOD + b"x",
    "behind the tar": lambda: gzip.compress(TAR + b"x"),
    "zlib": lambda: zlib.compress(TAR),
    "no end": lambda: gzip.compress(TAR[:1024]),
    "broken off": lambda: gzip.compress(TAR[:700]),
    "header broken off": lambda: gzip.compress(TAR[:300]),
    "checksum": lambda: gzip.compress(TAR[:100] + b"1" + TAR[101:]),
    "size with sign": lambda: gzip.compress(_size(b"-0000000001\0")),
    "no number": lambda: gzip.compress(_size(b"0000000009x\0")),
}


def _size(field: bytes) -> bytes:
    """The first header with another size, and a right checksum."""
    header = bytearray(TAR[:512])
    header[124:136] = field
    header[148:156] = b" " * 8
    header[148:156] = b"%06o\0 " % sum(header)
    return bytes(header) + TAR[512:]


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_archive_is_refused(damage: str) -> None:
    _refused(DAMAGES[damage]())


def test_a_bomb_is_stopped_while_it_inflates() -> None:
    bomb = gzip.compress(bytes(64 << 20))
    with refusing("BundleTooLarge") as refused:
        unpack(_batch(bomb))
    assert refused.value.facts["limit"] == BundleLimits().max_ratio


@pytest.mark.parametrize(
    "size", [b"%011o\0" % (MAX_BLOCK_BYTES + 1), b"77777777777\0", b"\xff" * 12]
)
def test_a_block_above_the_limit_is_refused_before_it_is_read(size: bytes) -> None:
    """Its bytes are not even in the archive."""
    with refusing("BlockTooLarge"):
        unpack(_batch(gzip.compress(_size(size))))


def test_a_bundle_beyond_the_size_limit_is_refused() -> None:
    with refusing("BundleTooLarge"):
        unpack(pack(CHAIN), limits=BundleLimits(max_inflated=2048))


def test_more_blocks_than_the_limit_are_refused_before_inflating() -> None:
    with refusing("BundleTooLarge"):
        unpack(pack(CHAIN), limits=BundleLimits(max_blocks=4))
