"""Verification judges damage as the vectors say."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
from chain_maker import parquet, slice_of, table
from damaged import (
    PLAIN,
    ROWS,
    DatasetMaker,
    change_block,
    change_object,
    flip,
    part_of,
)
from known import document
from msgspec.structs import replace

from odf_protocol.metadata.events import DatasetKind
from odf_protocol.multihash import Multihash
from odf_storage.datasets.verify.run import (
    verify_chain,
)
from odf_storage.stores.ports.values import ObjectKind

CASES = [
    case
    for case in document("ingest/verify")["cases"]
    if case["expect"].get("error", {}).get("kind") != "DataNotReproducible"
]
"""All but those that need a transformation replayed, which is no part of this verification."""


def build(given: dict[str, Any]) -> DatasetMaker:
    """The dataset of a vector, damaged as it says."""
    made = DatasetMaker(DatasetKind(given["dataset_kind"])).play(given["blocks"])
    tampers = given["tamper"] if isinstance(given["tamper"], list) else [given["tamper"]]
    for tamper in tampers:
        if tamper is not None:
            made = TAMPER[tamper["target"], tamper["change"]](made, tamper["block"])
    return made


def other_rows(made: DatasetMaker, number: int) -> DatasetMaker:
    start = part_of(made.blocks[number]).offset_interval.start
    content = parquet(table(start, ROWS, value="y"), **PLAIN)
    return change_object(made, number, ObjectKind.DATA, lambda _: content)


def encoded_anew(made: DatasetMaker, number: int) -> DatasetMaker:
    start = part_of(made.blocks[number]).offset_interval.start
    content = parquet(table(start, ROWS), compression="gzip")
    return change_object(made, number, ObjectKind.DATA, lambda _: content)


def replace_event(made: DatasetMaker, number: int, **changes: Any) -> DatasetMaker:
    """Another event in a block, and the blocks behind it linked anew."""
    changed, *later = [block.event for block in made.blocks[number:]]
    del made.blocks[number:]
    made.add(replace(changed, **changes))  # type: ignore[type-var]
    for event in later:
        made.add(event)
    return made


def a_row_less(made: DatasetMaker, number: int) -> DatasetMaker:
    start = part_of(made.blocks[number]).offset_interval.start
    rows = table(start, ROWS - 1)
    content = parquet(rows, **PLAIN)
    made.source.put(ObjectKind.DATA, content)
    return replace_event(made, number, new_data=slice_of(content, rows, start))


def wrong_logical_hash(made: DatasetMaker, number: int) -> DatasetMaker:
    wrong = replace(part_of(made.blocks[number]), logical_hash=Multihash.of(b"wrong"))
    return replace_event(made, number, new_data=wrong)


def without_data(made: DatasetMaker, number: int, content: Any) -> DatasetMaker:
    made = replace_event(made, number, new_data=None)
    return change_object(made, number, ObjectKind.CHECKPOINT, content)


BYTES = {"flip-byte": flip, "truncate": lambda content: content[:-1]}
TAMPER: dict[tuple[str, str], Any] = {
    ("data", "replace-rows-same-size"): other_rows,
    ("data", "re-encode-other-size"): encoded_anew,
    ("data+block", "drop-first-row"): a_row_less,
    ("block", "logical-hash"): wrong_logical_hash,
    **{
        (target, change): partial(change_object, kind=kind, content=content)
        for target, kind in (("data", ObjectKind.DATA), ("checkpoint", ObjectKind.CHECKPOINT))
        for change, content in BYTES.items()
    },
    **{
        (target, change): partial(damage, content=content)
        for target, damage in (
            ("block-bytes", change_block),
            ("checkpoint-of-dataless-block", without_data),
        )
        for change, content in BYTES.items()
    },
}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["title"])
def test_damage_is_judged_as_the_known_answers_say(case: dict[str, Any]) -> None:
    options, expected = case["given"]["options"], case["expect"]
    report = verify_chain(
        build(case["given"]).source,
        objects=options["check_integrity"],
        logical=options["check_logical_hashes"],
    )
    if "error" not in expected:
        assert report.problems == ()
        return
    first, error = report.problems[0], expected["error"]
    assert (first.kind, first.sequence_number) == (error["kind"], error["block"])
    assert first.reason == error.get("reason", "HashMismatch")
