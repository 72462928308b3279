"""Verification finds every kind of damage to a chain, and names it."""

from __future__ import annotations

import pytest
from chain_maker import infos, linked
from damaged import (
    DatasetMaker,
    change_block,
    flip,
    part_of,
    reasons,
    root,
)
from refusals import refusing

from odf_protocol.codec.blocks import decode_block
from odf_protocol.instant import Instant
from odf_protocol.multihash import Multihash
from odf_storage.datasets.verify.run import (
    verify_chain,
)
from odf_storage.stores.ports.values import ObjectKind


def test_every_broken_rule_is_listed() -> None:
    made = root()
    for _ in range(2):
        made.blocks.append(linked(made.blocks[-1], infos("x")[0], at=Instant(len(made.blocks))))
        made.source.objects[ObjectKind.BLOCK, made.blocks[-1].hash] = made.blocks[-1].raw
    made.blocks.append(linked(made.blocks[-1], made.event("Seed")))
    made.source.tip = made.source.put(ObjectKind.BLOCK, made.blocks[-1].raw)
    assert reasons(verify_chain(made.source)) == [
        ("SystemTimeIsNotMonotonic", 4),
        ("AppendingSeedBlockToNonEmptyChain", 6),
    ]


def test_a_changed_head_that_can_still_be_read_is_numbered_as_it_says() -> None:
    made = DatasetMaker().play(["Seed"])
    made.add(infos("a description")[0])
    content = made.source.objects[ObjectKind.BLOCK, made.blocks[1].hash]
    made.source.objects[ObjectKind.BLOCK, made.blocks[1].hash] = content.replace(b"descr", b"DESCR")
    assert reasons(verify_chain(made.source)) == [("HashMismatch", 1)]


def test_a_head_whose_event_cannot_be_read_is_numbered_as_it_says() -> None:
    made = root()
    change_block(made, 3, flip)
    [first, *_] = verify_chain(made.source).problems
    assert (first.kind, first.reason, first.sequence_number) == (
        "BlockMalformed",
        "HashMismatch",
        3,
    )
    with refusing("MalformedBlock"):
        decode_block(made.source.block_bytes(made.blocks[3].hash))


def test_damaged_blocks_are_reported_oldest_first() -> None:
    made = DatasetMaker().play(["Seed"])
    for number in (1, 2, 3):
        made.add(infos(f"description {number}")[0])
    for number in (1, 3):
        change_block(made, number, lambda content: content.replace(b"descr", b"DESCR"))
    assert reasons(verify_chain(made.source)) == [("HashMismatch", 1), ("HashMismatch", 3)]
    del made.source.objects[ObjectKind.BLOCK, made.blocks[0].hash]
    found = reasons(verify_chain(made.source))
    assert found == [("HashMismatch", 1), ("BlockNotFound", 0), ("HashMismatch", 3)]


def test_a_missing_block_is_reported_and_what_lies_behind_it_is_still_checked() -> None:
    made = root()
    del made.source.objects[ObjectKind.BLOCK, made.blocks[1].hash]
    made.source.flip(ObjectKind.DATA, part_of(made.blocks[3]).physical_hash)
    report = verify_chain(made.source)
    assert reasons(report) == [("BlockNotFound", 1), ("PhysicalHashMismatch", 3)]
    assert report.problems[0].path == f"blocks/{made.blocks[1].hash}"


def test_a_head_that_leads_nowhere_is_a_result() -> None:
    made = root()
    made.source.tip = Multihash.of(b"nobody")
    assert reasons(verify_chain(made.source)) == [("BlockNotFound", None)]


@pytest.mark.parametrize("content", [b"", b"nonsense", bytes(1000)])
def test_a_block_replaced_by_anything_is_reported(content: bytes) -> None:
    made = root()
    made.source.objects[ObjectKind.BLOCK, made.blocks[2].hash] = content
    assert reasons(verify_chain(made.source))[0] == ("HashMismatch", 2)


def test_something_that_is_no_block_under_its_own_hash_is_reported() -> None:
    made = root()
    made.source.tip = made.source.put(ObjectKind.BLOCK, b"nonsense")
    assert reasons(verify_chain(made.source)) == [("MalformedBlock", None)]


def test_blocks_that_stand_in_for_each_other_do_not_lead_in_circles() -> None:
    made = root()
    newest = made.blocks[-1]
    made.source.objects[ObjectKind.BLOCK, made.blocks[1].hash] = newest.raw
    assert ("HashMismatch", 1) in reasons(verify_chain(made.source))
