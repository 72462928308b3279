"""Texts that say numbers in a way of their own, in columns that a person declares as numbers."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from odf_node.proposal.options import chosen
from odf_node.proposal.proposal import Proposal, propose
from odf_node.proposal.sample import sample_of_file
from odf_protocol.instant import Instant
from odf_workers.slices.schema import BadRow
from odf_workers.stages.preview import preview

NOW = Instant.parse("2050-01-01T00:00:00Z")
TYPES = ("Float64", "Int64", "Decimal(9,1)")
OTHER_SIGNS = ["12%", "$5", "5 €", "EUR 5", "(5)", "5-", "1_0", "0x10", "1d", "\u0661\u0662"]
"""Texts that no source reads as numbers."""


def _csv(file: Path, texts: Sequence[str]) -> None:
    with file.open("w", newline="") as stream:
        csv.writer(stream).writerows([("id", "x"), *enumerate(texts)])


def _ndjson(file: Path, texts: Sequence[str]) -> None:
    file.write_text("".join(json.dumps({"id": at, "x": x}) + "\n" for at, x in enumerate(texts)))


def _json(file: Path, texts: Sequence[str]) -> None:
    file.write_text(json.dumps([{"id": at, "x": x} for at, x in enumerate(texts)], indent=0))


def _parquet(file: Path, texts: Sequence[str]) -> None:
    pq.write_table(pa.table({"id": range(len(texts)), "x": texts}), file)


WRITERS: dict[str, Callable[[Path, Sequence[str]], None]] = {
    ".csv": _csv, ".ndjson": _ndjson, ".json": _json, ".parquet": _parquet,
}  # fmt: skip


def proposed(folder: Path, ending: str, texts: Sequence[str], **options: Any) -> Proposal:
    file = folder / f"numbers{ending}"
    WRITERS[ending](file, texts)
    return propose(sample_of_file(file), chosen(options), now=NOW)


def stored(proposal: Proposal, folder: Path) -> list[Any]:
    found = preview(proposal.snapshot(), next(folder.glob("numbers.*")), now=NOW)
    assert found is not None
    return list(found.stored["x"].to_pylist())


@pytest.mark.parametrize("ending", WRITERS)
@pytest.mark.parametrize("text", OTHER_SIGNS)
def test_a_text_with_another_sign_is_refused_with_its_row_and_what_to_do(
    tmp_path: Path, ending: str, text: str
) -> None:
    for kind in TYPES:
        with pytest.raises(BadRow) as refused:
            proposed(tmp_path, ending, ["7", text], types={"x": kind})
        where = {".csv": "line 3", ".ndjson": "line 2", ".json": "line 6", ".parquet": "row 2"}
        for said in (where[ending], "column `x`", repr(text), "type String takes any text"):
            assert said in refused.value.message
    as_text = proposed(tmp_path, ending, ["7", text], types={"x": "String"})
    assert stored(as_text, tmp_path) == ["7", text]


@pytest.mark.parametrize("ending", [".csv", ".ndjson", ".json"])
@pytest.mark.parametrize(
    ("text", "options", "wanted"),
    [
        ("1,234", {"thousands": ","}, 1234.0),
        ("1,234", {"decimal": ","}, 1.234),
        ("1 234", {"thousands": "blank"}, 1234.0),
        ("1\u00a0234", {"thousands": "blank"}, 1234.0),
        ("1\u202f234,5", {"thousands": "blank", "decimal": ","}, 1234.5),
        ("1\u2019234", {"thousands": "'"}, 1234.0),
    ],
)
def test_signs_between_digits_are_named_by_an_option(
    tmp_path: Path, ending: str, text: str, options: dict[str, str], wanted: float
) -> None:
    kind = {"types": {"x": "Float64"}}
    assert stored(proposed(tmp_path, ending, ["7", text], **kind, **options), tmp_path)[1] == wanted
    if ending != ".csv" or text == "1,234":
        with pytest.raises(BadRow, match="odf-node/thousands"):
            proposed(tmp_path, ending, ["7", text], **kind)


@pytest.mark.parametrize("texts", [["7", "1,234"], ["1,234", "12345"], ["1,234"]])
def test_what_may_be_thousands_or_a_fraction_stays_text(tmp_path: Path, texts: list[str]) -> None:
    proposal = proposed(tmp_path, ".csv", texts)
    assert stored(proposal, tmp_path) == texts
    assert any("which the sample does not tell" in note for note in proposal.notes)


@pytest.mark.parametrize(
    ("texts", "wanted"),
    [
        (["7", "12,5"], [7.0, 12.5]),
        (["7", "0,125"], [7.0, 0.125]),
        (["7", "1,234,567"], [7, 1234567]),
        (["7", "1,234.5"], [7.0, 1234.5]),
        (["7", "1\u00a0234"], [7, 1234]),
        (["7,5", "1\u202f234,5"], [7.5, 1234.5]),
        (["7", "1\u2019234.5"], [7.0, 1234.5]),
    ],
)
def test_numbers_that_tell_their_signs_are_numbers(
    tmp_path: Path, texts: list[str], wanted: list[float]
) -> None:
    proposal = proposed(tmp_path, ".csv", texts)
    assert stored(proposal, tmp_path) == wanted
    assert not proposal.questions


def test_rows_with_other_signs_are_set_aside_with_the_reason(tmp_path: Path) -> None:
    proposal = proposed(
        tmp_path, ".csv", ["7", "12%"], types={"x": "Float64"}, on_bad_rows="quarantine"
    )
    found = preview(proposal.snapshot(), tmp_path / "numbers.csv", now=NOW, max_bad_rows=1)
    assert found is not None
    assert found.stored["x"].to_pylist() == [7.0]
    (aside,) = found.rejected
    assert "type String takes any text" in aside.reason


def test_types_have_the_names_of_manifests(tmp_path: Path) -> None:
    with pytest.raises(Exception, match=r"a type is one of String, Int64, .* not 'DOUBLE'"):
        proposed(tmp_path, ".csv", ["7", "12%"], types={"x": "DOUBLE"})
