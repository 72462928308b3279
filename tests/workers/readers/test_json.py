"""Json and NdJson: strictness, places of errors, streams longer than a chunk."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from refusals import refusing

from odf_protocol.codec.manifests import from_data
from odf_protocol.errors import BadInput
from odf_protocol.metadata.sources import ReadStep
from odf_workers.readers.formats.read import open_frame
from odf_workers.slices.schema import BadRow, InputTooLarge, Limits


def read(
    folder: Path, text: str, kind: str = "NdJson", limits: Limits | None = None, **step: Any
) -> Any:
    path = folder / "input.json"
    path.write_text(text)
    frame = open_frame(from_data({"kind": kind, **step}, ReadStep), path, limits or Limits())
    return None if frame is None else frame.table().to_pydict()


def of_type(data_type: Any) -> Any:
    return {"schema": {"fields": [{"name": "x", "type": {"kind": "Option", "inner": data_type}}]}}


def one(folder: Path, value: str, data_type: Any) -> Any:
    return read(folder, f'{{"x": {value}}}', **of_type(data_type))["x"][0]


@pytest.mark.parametrize(
    ("value", "data_type", "expected"),
    [
        ("1.0", "Int64", 1),
        ("9007199254740993.0", "Int64", 9007199254740993),
        ('"12"', "Int32", 12),
        ("1e3", "Int32", 1000),
        ('"1.5"', "Float64", 1.5),
        ("2", "Float64", 2.0),
        ("16777217.0000000001", "Float32", 16777218.0),
        ('"16777217.0000000001"', "Float32", 16777218.0),
        ("9007199791611905", "Float32", 9007200328482816.0),
        ("true", "Bool", True),
        ('"True"', "Bool", True),
        ("null", "Bool", None),
        ('"é"', "String", "é"),
    ],
)
def test_a_fitting_value_is_taken(
    value: str, data_type: Any, expected: Any, tmp_path: Path
) -> None:
    assert one(tmp_path, value, data_type) == expected


@pytest.mark.parametrize(
    ("value", "data_type"),
    [
        ("5", "String"),
        ("true", "String"),
        ('{"a": 1}', "String"),
        ('"yes"', "Bool"),
        ("1.7", "Int64"),
        ("1e400", "Float64"),
        ("1e999999999", "Int64"),
        ("1735689600", "Timestamp"),
        ("1", "Bool"),
        ('"12.5"', "Int64"),
        ("3000000000", "Int32"),
        ("-1", "UInt8"),
        ("true", "Int64"),
        ("NaN", "Float64"),
        ('"\\ud800"', "String"),
        ("[1]", "Int64"),
        ('"9/25/2022 1:02:03"', "Timestamp"),
    ],
)
def test_a_value_of_another_kind_is_refused(value: str, data_type: Any, tmp_path: Path) -> None:
    with pytest.raises(BadRow) as caught:
        one(tmp_path, value, data_type)
    assert caught.value.facts["line"] == 1


def test_a_number_for_a_time_counts_the_unit_of_the_column(tmp_path: Path) -> None:
    assert str(one(tmp_path, "1500", "Timestamp")) == "1970-01-01 00:00:01.500000+00:00"


def test_decimals_keep_their_digits_and_are_cut(tmp_path: Path) -> None:
    kind = {"kind": "Decimal", "precision": 38, "scale": 3}
    value = one(tmp_path, "12345678901234567890.12399", kind)
    assert str(value) == "12345678901234567890.123"


@pytest.mark.parametrize("name", ['5" disk', "a\\b", "two\nlines", "", "a.b", "\u2028"])
def test_a_column_may_be_called_anything(name: str, tmp_path: Path) -> None:
    fields = [{"name": name, "type": "Int32"}, {"name": name + "2", "type": "String"}]
    text = json.dumps({name: 1, name + "2": "x"})
    assert read(tmp_path, text, schema={"fields": fields}) == {name: [1], name + "2": ["x"]}


@pytest.mark.parametrize("step", [{}, of_type("Int64")], ids=["inferred", "declared"])
@pytest.mark.parametrize("kind", ["NdJson", "NdGeoJson"])
@pytest.mark.parametrize("text", ["{0} {0}", "{0}{0}", "{0}, {0}", "{1}\n{2}", "{0}\n{1}"])
def test_a_line_that_is_not_exactly_one_record_is_refused(
    kind: str, text: str, step: dict[str, Any], tmp_path: Path
) -> None:
    record = '{"x": 3}'
    if kind == "NdGeoJson":
        record = f'{{"type": "Feature", "properties": {record}, "geometry": {{}}}}'
    good = f"{record}\n\n \t{record}\r\n"
    assert read(tmp_path, good, kind, **step)["x"] == [3, 3]
    with pytest.raises(BadRow) as bad:
        read(tmp_path, good + text.format(record, record[:5], record[5:]) + "\n", kind, **step)
    assert bad.value.facts["line"] == 4 + text.endswith("\n{1}")


def test_the_line_of_a_bad_value_is_told(tmp_path: Path) -> None:
    lines = [json.dumps({"x": n, "pad": "y" * 50}) for n in range(5_000)]
    lines[4_321] = '{"x": "no"}'
    with pytest.raises(BadRow) as caught:
        read(tmp_path, "\n".join(lines), **of_type("Int64"))
    assert caught.value.facts == {"line": 4_322, "column": "x", "value": "no"}


@pytest.mark.parametrize(
    "bad", ['{"x": 1', '{"x" 1}', "[1]", "{'x': 1}", '{"x": 1}}', '{"x": tru}']
)
def test_text_that_is_no_json_is_refused_with_its_line(bad: str, tmp_path: Path) -> None:
    with pytest.raises(BadRow) as caught:
        read(tmp_path, f'{{"x": 0}}\n{bad}\n', **of_type("Int64"))
    assert caught.value.facts["line"] == 2


@pytest.mark.parametrize("schema", [of_type("Int64"), {}])
@pytest.mark.parametrize(
    "twice",
    [
        '{"x":1,"x":2}',
        '{"x":1,"x":1}',
        '{"x":null,"x":1}',
        '{"x":1,"x":null}',
        '{"x" :1,"x":1}',
        '{"x" \t:null,"x" :1}',
        '{"y":{"z":"\\":", "z":2}}',
        '{"x":1,"\\u0078":2}',
    ],
)
def test_a_name_that_stands_twice_in_one_record_is_refused_with_its_line(
    twice: str, schema: Any, tmp_path: Path
) -> None:
    for kind, text in (("NdJson", '{"x":0}\n\n%s\n'), ("Json", '[{"x":0},\n\n%s\n]')):
        with pytest.raises(BadRow, match="twice in one object") as caught:
            read(tmp_path, text % twice, kind, **schema)
        assert caught.value.facts["line"] == 3


def test_texts_with_quotes_and_colons_are_no_names(tmp_path: Path) -> None:
    lines = ['{"x":"a\\": \\"a\\":"}', '{"x" : " :\\" :"}', '{"x":null}', '{"z":" :"}']
    found = read(tmp_path, "\n".join(lines), **of_type("String"))
    assert found["x"] == ['a": "a":', ' :" :', None, None]


@pytest.mark.parametrize(
    ("kind", "text", "column"),
    [
        ("NdJson", '{"n": 1, "city": "A"}\n{"n": 1, "city": "\\ud800"}', "city"),
        ("NdJson", '{"n": 1}\n{"n": 1, "\\udfff": "x"}', "\\udfff"),
        ("NdJson", '{"n": 1}\n{"n": {"in": [{"a\\ud83d": 1}]}}', "a\\ud83d"),
        ("Json", '[{"n": ["A"]},\n{"n": ["\\ud800x"]}]', "n"),
        ("NdGeoJson", '\n{"type": "Feature", "properties": {}, "geometry": "\\ud800"}', "geometry"),
    ],
)
def test_half_of_a_surrogate_pair_is_refused_with_line_and_column(
    kind: str, text: str, column: str, tmp_path: Path
) -> None:
    with pytest.raises(BadRow) as bad:
        read(tmp_path, text, kind)
    assert (bad.value.facts["line"], bad.value.facts["column"]) == (2, column)
    json.dumps([bad.value.message, bad.value.facts], ensure_ascii=False).encode()


def test_an_array_longer_than_a_chunk_is_streamed(tmp_path: Path) -> None:
    rows = [{"n": n, "t": "z" * 40} for n in range(5_000)]
    assert read(tmp_path, json.dumps(rows), "Json")["n"] == list(range(5_000))


def test_an_array_is_found_behind_other_keys(tmp_path: Path) -> None:
    text = json.dumps({"a": [1.5, {"b": 2}], "r": {"x": None, "rows": [{"n": 1}]}, "z": 12})
    assert read(tmp_path, text, "Json", subPath="r.rows") == {"n": [1]}


@pytest.mark.parametrize("rest", ["", "}", ', "more": [1', "}} text", ', "more": 1, }}'])
def test_a_document_that_is_wrong_behind_its_array_is_no_document(
    tmp_path: Path, rest: str
) -> None:
    text = '{"r": {"rows": [{"n": 1}]'
    assert read(tmp_path, text + ', "more": {"a": [1]}}, "b": 2}', "Json", subPath="r.rows")
    with pytest.raises(BadRow):
        read(tmp_path, text + rest, "Json", subPath="r.rows")


@pytest.mark.parametrize("root", ["5", "null", "true", "-1.5", '"text"', "{}"])
def test_a_document_that_is_no_array_is_told_as_such(tmp_path: Path, root: str) -> None:
    with refusing("SubPathNotFound", match="does not specify an array"):
        read(tmp_path, root, "Json")


def test_an_array_that_breaks_off_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInput):
        read(tmp_path, '[{"n": 1}, {"n": 2}', "Json")


def test_nesting_without_end_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadRow):
        read(tmp_path, '{"x": ' + "[" * 100_000)


def test_a_record_longer_than_the_limit_ends_the_reading(tmp_path: Path) -> None:
    text = '{"x": "' + "y" * 300_000 + '"}'
    with pytest.raises(InputTooLarge):
        read(tmp_path, text, limits=Limits(row_bytes=100_000))
    with pytest.raises(InputTooLarge, match="column `x`"):
        read(tmp_path, text, limits=Limits(cell_bytes=1_000))


def test_columns_of_later_records_come_after_those_of_the_first(tmp_path: Path) -> None:
    assert list(read(tmp_path, '{"z": 1, "b": 2}\n{"a": 1, "z": 3}\n')) == ["b", "z", "a"]


@pytest.mark.parametrize("early", [0, 1_100])
def test_a_record_longer_than_the_limit_is_refused_wherever_a_chunk_begins(
    early: int, tmp_path: Path
) -> None:
    text = '{"x": "a"}\n' * early + '{"x": "%s"}\n' % ("y" * 12_000)
    schema = {"fields": [{"name": "x", "type": "String"}]}
    limits = Limits(row_bytes=12_000)
    with pytest.raises(InputTooLarge, match=f"line {early + 2}:"):
        read(tmp_path, '{"x": "b"}\n' + text, limits=limits, schema=schema)
