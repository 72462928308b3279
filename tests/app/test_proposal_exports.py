"""Files as databases and other programs export them: what a proposal makes of their dialects."""

from __future__ import annotations

import json

import pytest
from refusals import refusing

from odf_node.client.transfer.folder import FILE_TYPES
from odf_node.proposal.proposal import Proposal, propose
from odf_node.proposal.sample import FORMATS, MEDIA_TYPES, sample_of
from odf_node.service.http.answers import media_type_of
from odf_protocol.instant import Instant

NOW = Instant.parse("2026-11-01T00:00:00Z")


def proposed(text: str, name: str = "rows.csv") -> Proposal:
    return propose(sample_of(name, text.encode(), is_whole=True), now=NOW)


def kinds(proposal: Proposal) -> dict[str, str]:
    return {column.name: column.kind for column in proposal.columns}


@pytest.mark.parametrize("name", ["rows.json", "rows.data", "rows.jsonl"])
def test_records_on_lines_of_their_own_are_ndjson_whatever_the_file_is_called(name: str) -> None:
    text = '{"_id":{"$oid":"5f1d7f3b"},"x":1}\n{"_id":{"$oid":"5f1d7f3c"},"x":2}\n'
    proposal = proposed(text, name)
    assert (proposal.format, proposal.looked_at) == ("NdJson", 2)
    assert any("read as NDJSON" in note for note in proposal.notes) is (name == "rows.json")
    pretty = json.dumps({"rows": [{"x": 1}, {"x": 2}]}, indent=1)
    assert proposed(pretty, "rows.json").format == "Json"


@pytest.mark.parametrize("name", ["rows.geojsonl", "rows.json", "rows"])
def test_features_on_lines_of_their_own_are_known(name: str) -> None:
    line = (
        '{"type":"Feature","properties":{"a":%d},"geometry":{"type":"Point","coordinates":[1,2]}}'
    )
    proposal = proposed(f"{line % 1}\n{line % 2}\n", name)
    assert proposal.format == "NdGeoJson"
    assert kinds(proposal) == {"a": "Int64", "geometry": "String"}


@pytest.mark.parametrize("name", ["rows.json", "rows.geojsons", "rows.ndjson"])
def test_a_json_text_sequence_is_refused_with_a_way(name: str) -> None:
    with refusing("NoRecords", match="RFC 8142.*tr -d '.036'"):
        proposed('\x1e{"a":1}\n\x1e{"a":2}\n', name)


def test_rows_that_are_lists_are_not_passed_over_for_records_beside_them() -> None:
    view = {"meta": {"columns": [{"name": "sid"}, {"name": "a"}]}, "data": [["r-1", "x"]]}
    with refusing("NoRecords", match="rows that are lists, at 'data'.*meta.columns"):
        proposed(json.dumps(view), "rows.json")
    shapes = [{"type": "Point", "coordinates": [0, 0], "properties": {"x": 1}}]
    places = {"type": "Topology", "objects": {"a": {"geometries": shapes}}, "arcs": []}
    with refusing("NoRecords", match="is TopoJSON"):
        proposed(json.dumps(places), "rows.json")


@pytest.mark.parametrize(
    ("values", "told"),
    [
        (["1.2", "2.2 p", "3"], "numbers, but for 1 texts such as '2.2 p', so text"),
        (["1", "2", "x", "y"], "numbers, but for 2 texts such as 'x', so text"),
        (["2025-01-01", "2025-01-02", "soon"], "dates, but for 1 texts such as 'soon', so text"),
        (["(1,234.50)", "99.00"], "in brackets, so text"),
        (["$5", "7"], "sign of money or per cent"),
        (['="01067"', '="01068"'], "written as formulas"),
        (["4.00638E+12", "4.00639E+12"], "which a program of tables has rounded"),
        (["+5", "-3", "7"], "numbers with a plus sign, or infinity in words, so text (--type)"),
        (["1.5", "Infinity", "-Infinity"], "infinity in words"),
        (["20250101", "20250228"], "looks like days (yyyyMMdd); kept as a number (--type v=Date)"),
        (["20251301", "20250228"], None),
        (["a", "b", "1"], None),
        (["1.5e3", "2"], None),
        (["1.23456789E+15", "2"], None),
    ],
)
def test_a_column_that_is_half_of_another_kind_or_rounded_is_told(
    values: list[str], told: str | None
) -> None:
    rows = "".join(
        f'{at},"{value.replace(chr(34), chr(34) * 2)}"\n' for at, value in enumerate(values)
    )
    notes = [note for note in proposed(f"id,v\n{rows}").notes if note.startswith("v: ")]
    assert (notes == []) if told is None else (told in notes[0])


def test_words_and_signs_of_database_exports_are_told() -> None:
    text = "1\tanna\t\\N\n2\tbe\\trt\t3.5\n3\tcarl\t4\n"
    proposal = proposed(text, "rows.tsv")
    assert kinds(proposal)["column_3"] == "Float64"
    assert any(
        "line 2" in note and "backslashes outside of quotes" in note for note in proposal.notes
    )
    plain = proposed("1\tc:\\temp\n2\td\n", "rows.tsv")  # no export of a database
    assert not any("backslashes" in note for note in plain.notes)
    twice = proposed("id,v\n1,\\\\N\n2,1.5\n")
    assert kinds(twice) == {"id": "Int64", "v": "Float64"}
    assert not any("backslashes" in note for note in twice.notes)


def test_empty_quotes_are_told_where_other_texts_have_no_quotes() -> None:
    def told(text: str) -> bool:
        return any("empty quotes are no value" in note for note in proposed(text).notes)

    assert told('id,name\n1,anna\n2,""\n3,\n')
    assert told('id,name,at\n1,anna,2025-01-01\n2,"",2025-01-02\n')
    assert not told('"id","name"\n"1","anna"\n"2",""\n')
    assert not told('id,n\n1,5\n2,""\n')


def test_days_of_sas_and_stata_are_days() -> None:
    assert kinds(proposed("id,d\n1,01JAN2025\n2,15feb2025\n"))["d"] == "Date"
    assert kinds(proposed("id,t\n1,01JAN2025:10:20:30\n2,15FEB2025:01:02:03\n"))["t"] == "Timestamp"


def test_a_comma_before_the_fraction_of_a_second_is_one_of_iso_8601() -> None:
    text = 'id,t\n1,"2025-01-01 10:00:00,125"\n2,"2025-01-01T10:00:01,5Z"\n'
    assert kinds(proposed(text))["t"] == "Timestamp"


def test_fields_between_blanks_are_told() -> None:
    (told,) = (
        one for one in proposed('"a" "b"\n"1" 1.5 "x y"\n"2" 2 "z"\n').notes if "between" in one
    )
    assert "all rows have 3 fields between blanks (--separator ' ')" in told


def test_a_file_that_can_be_published_can_be_posted_again_by_its_name() -> None:
    kinds = {ending: MEDIA_TYPES[form] for ending, form in FORMATS.items()}
    assert {ending: FILE_TYPES.get(ending) for ending in kinds} == kinds
    assert {ending: media_type_of(None, f"rows{ending}") for ending in kinds} == kinds
