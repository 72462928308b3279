"""Options of a source: what each one changes, and that nothing changes without a word."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from refusals import refusing

from odf_protocol.codec.manifests import from_data
from odf_protocol.metadata.sources import ReadStep
from odf_protocol.sources.source_options import OPTIONS, check_options, options_of
from odf_workers.readers.formats.read import open_frame
from odf_workers.slices.schema import BadRow, Frame, Limits

pytestmark = pytest.mark.usefixtures("whichever_is_quicker")


def field(name: str, kind: Any, **extra: Any) -> dict[str, Any]:
    made = {"name": name, "type": {"kind": "Option", "inner": kind}}
    return {**made, "extra": {f"odf-node/{key}": extra[key] for key in extra}} if extra else made


def step_of(kind: str, fields: list[dict[str, Any]], extra: dict[str, Any], **rest: Any) -> Any:
    schema = {"fields": fields, "extra": {f"odf-node/{key}": extra[key] for key in extra}}
    header = {"header": True} if kind == "Csv" else {}
    return from_data({"kind": kind, **header, **rest, "schema": schema}, ReadStep)


def frame_of(folder: Path, content: str | bytes, step: Any) -> Frame:
    path = folder / "input"
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    frame = open_frame(step, path, Limits())
    assert frame is not None
    return frame


def read(
    folder: Path,
    content: str | bytes,
    fields: list[dict[str, Any]],
    kind: str = "Csv",
    **extra: Any,
) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = (
        frame_of(folder, content, step_of(kind, fields, extra)).table().to_pylist()
    )
    return rows


TEXT = [field("a", "String"), field("b", "String")]


def test_lines_before_and_after_the_header_and_at_the_end_are_no_rows(tmp_path: Path) -> None:
    text = 'A "title, of sorts\n\na,b\nm,kg\n1,2\n\n3,4\nSum,4\nSource: x\n\n'
    frame = frame_of(
        tmp_path,
        text,
        step_of("Csv", TEXT, {"skipLines": 2, "unitLines": 1, "footerLines": 2}),
    )
    assert frame.table().to_pylist() == [{"a": "1", "b": "2"}, {"a": "3", "b": "4"}]
    (told,) = frame.warnings
    assert told.endswith("1 have as many fields as a row; the first begins with 'Sum,4'")


WARM = [
    field("at", "Date"),
    field("temp", "Float64", unit="°C"),
    field("air", "Float64", unit="µg/m³"),
]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("at,temp,air\n,°F,µg/m³\n2025-01-01,1.5,2\n", "°F"),
        ("at,temp,air\n,,µg/m³\n2025-01-01,1.5,2\n", "''"),
        ("at,air,temp\n,°C,µg/m³\n2025-01-01,1.5,2\n", "µg/m³"),
        ("at,temp,air\n2025-01-01,1.5,2\n2025-01-02,1.5,3\n", "1.5"),
    ],
)
def test_a_file_with_other_units_or_without_its_line_of_them_is_refused(
    tmp_path: Path, text: str, found: str
) -> None:
    with refusing("UnitsDiffer", match=f"line 2, column `temp`.*{found}.*declares '°C'"):
        read(tmp_path, text, WARM, unitLines=1)


@pytest.mark.parametrize(
    "text",
    [
        "at,temp,air\n,°C,µg/m³\n2025-01-01,1.5,2\n",
        'at,air,temp\n,[ug/m3],"°C"\n2025-01-01,2,1.5\n'.replace("ug", "\u03bcg"),
        "a,b,c\n,(°C), µg/m3\n2025-01-01,1.5,2\n",
    ],
)
def test_units_are_compared_by_the_names_of_columns_and_without_brackets(
    tmp_path: Path, text: str
) -> None:
    (row,) = read(tmp_path, text, WARM, unitLines=1)
    assert (row["temp"], row["air"]) == (1.5, 2.0)


@pytest.mark.parametrize("line", ["A,1.5", "A, -2", '"A","2,5"', "A,2025-01-01"])
def test_a_row_is_not_left_out_as_a_line_of_units(tmp_path: Path, line: str) -> None:
    columns = [field("k", "String"), field("n", "Float64")]
    with refusing("UnitsDiffer", match="line 2, column `n`.* the line may be a row"):
        read(tmp_path, f"k,n\n{line}\nB,2\n", columns, unitLines=1)
    for unit in ("m/s", "1/min", "%", "10^3 t"):
        assert read(tmp_path, f"k,n\n,{unit}\nB,2\n", columns, unitLines=1)


def test_an_error_names_the_line_of_the_original(tmp_path: Path) -> None:
    with pytest.raises(BadRow, match="line 6, column `b`"):
        read(
            tmp_path,
            "title\r\na,b\r\nm,kg\r\n1,2\r\n\r\n3,x\r\n",
            [field("a", "String"), field("b", "Int64")],
            skipLines=1,
            unitLines=1,
        )


def test_a_file_shorter_than_what_is_left_out_is_refused(tmp_path: Path) -> None:
    for options in ({"skipLines": 3}, {"footerLines": 2}):
        with refusing("TooFewLines", match="leaves out"):
            read(tmp_path, "title\n1,2\n", TEXT, **options)


def test_a_line_left_out_behind_one_that_tells_the_separator_is_told(tmp_path: Path) -> None:
    step = step_of("Csv", TEXT, {"skipLines": 1}, header=False)
    for mark, told in (("", []), ("sep=,\n", ["line 2: '1,2'"])):
        frame = frame_of(tmp_path, f"{mark}1,2\n3,4\n", step)
        assert frame.table().to_pylist() == [{"a": "3", "b": "4"}]
        assert [text.partition(" is ")[2] for text in frame.warnings if "skipLines" in text] == told


def test_lines_that_repeat_the_header_are_counted_and_no_rows(tmp_path: Path) -> None:
    text = "a,b\n1,2\na,b\n3,4\r\na,b"
    frame = frame_of(tmp_path, text, step_of("Csv", TEXT, {"repeatedHeader": "skip"}))
    assert frame.table().to_pylist() == [{"a": "1", "b": "2"}, {"a": "3", "b": "4"}]
    assert frame.warnings == ["2 lines repeat the header and are no rows: 3, 5"]


@pytest.mark.parametrize(
    ("text", "options", "value"),
    [
        ("1,5", {"decimal": ","}, 1.5),
        ("-1,5e3", {"decimal": ","}, -1500.0),
        (" 15 ", {"decimal": ","}, 15.0),
        ("1.234,5", {"decimal": ",", "thousands": "."}, 1234.5),
        ("12.34.567,5", {"decimal": ",", "thousands": "."}, 1234567.5),
        ("1,234.5", {"thousands": ","}, 1234.5),
        ("1234.5", {"thousands": ","}, 1234.5),
        ("1\u202f234,5", {"decimal": ",", "thousands": " "}, 1234.5),
        ("1'234.5", {"thousands": "'"}, 1234.5),
        ("NaN", {"decimal": ","}, None),
        ("1.5", {"decimal": ","}, BadRow),
        ("1,23", {"thousands": ","}, BadRow),
        ("1234,567", {"thousands": ","}, BadRow),
        (",5", {"thousands": ","}, BadRow),
        ("1,,234", {"thousands": ","}, BadRow),
    ],
)
@pytest.mark.parametrize("kind", ["Csv", "NdJson", "Json"])
def test_numbers_are_written_as_the_source_says(
    tmp_path: Path, kind: str, text: str, options: dict[str, str], value: Any
) -> None:
    whole = {
        "Csv": f'n\n"{text}"\n',
        "NdJson": f'{{"n":"{text}"}}\n',
        "Json": f'[{{"n":"{text}"}}]',
    }[kind]
    if value is BadRow:
        with pytest.raises(BadRow, match="column `n`"):
            read(tmp_path, whole, [field("n", "Float64")], kind, **options)
        return
    (row,) = read(tmp_path, whole, [field("n", "Float64")], kind, **options)
    assert row["n"] == value or (value is None and row["n"] != row["n"])


def test_words_of_null_of_a_source_leave_text_alone_and_of_a_column_do_not(tmp_path: Path) -> None:
    fields = [
        field("country", "String"),
        field("n", "Int64"),
        field("at", "Date"),
        field("note", "String", nullWords=["-"]),
        field("m", "Int64", nullWords=["none"]),
    ]
    expected = {"country": "NA", "n": None, "at": None, "note": None, "m": None}
    text = "country,n,at,note,m\nNA,NA,..,-,none\n"
    assert read(tmp_path, text, fields, nullWords=["NA", ".."]) == [expected]
    lines = '{"country":"NA","n":"NA","at":"..","note":"-","m":"none"}\n'
    assert read(tmp_path, lines, fields, "NdJson", nullWords=["NA", ".."]) == [expected]
    with pytest.raises(BadRow, match="column `m`"):
        read(tmp_path, text.replace("none", "NA"), fields, nullWords=["NA", ".."])


@pytest.mark.parametrize("kind", ["Csv", "NdJson"])
@pytest.mark.parametrize(
    ("text", "zone", "hour"),
    [
        ("2025-01-01 12:00", "Europe/Berlin", 11),
        ("2025-07-01T12:00:00", "Europe/Berlin", 10),
        ("2025-01-01 12:00:00.5", "+01:00", 11),
        ("20250101T1200", "+01:00", 11),
        ("2025-01-01T12:00Z", "Europe/Berlin", 12),
        ("2025-01-01 12:00 UTC", "Europe/Berlin", 12),
        ("2025-01-02", "-12:00", 12),
        ("2025-10-26 02:30", "Europe/Berlin", None),
    ],
)
def test_times_without_a_zone_are_in_that_of_the_source(
    tmp_path: Path, kind: str, text: str, zone: str, hour: int | None
) -> None:
    whole = f"t\n{text}\n" if kind == "Csv" else f'{{"t":"{text}"}}\n'
    if hour is None:
        with pytest.raises(BadRow):
            read(tmp_path, whole, [field("t", "Timestamp")], kind, timeZone=zone)
        return
    (row,) = read(tmp_path, whole, [field("t", "Timestamp")], kind, timeZone=zone)
    assert row["t"].astimezone(UTC).hour == hour


def test_a_pattern_without_a_zone_is_in_that_of_the_source(tmp_path: Path) -> None:
    step = step_of(
        "Csv",
        [field("t", "Timestamp")],
        {"timeZone": "Europe/Berlin"},
        timestampFormat="dd.MM.yyyy HH:mm[XXX]",
    )
    rows = frame_of(tmp_path, "t\n01.07.2025 12:00\n01.07.2025 12:00Z\n", step).table()
    assert [row["t"].hour for row in rows.to_pylist()] == [10, 12]


@pytest.mark.parametrize("zone", ["Europe/Berlin", "-11:00", "Pacific/Auckland"])
@pytest.mark.parametrize("kind", ["Csv", "NdJson"])
def test_a_day_is_the_one_that_is_written_whatever_the_zone_of_the_source(
    tmp_path: Path, kind: str, zone: str
) -> None:
    for form, text in (
        ("dd.MM.yyyy", "01.07.2025"),
        ("dd.MM.yyyy HH:mmXXX", "01.07.2025 23:30-05"),
    ):
        step = step_of(kind, [field("d", "Date")], {"timeZone": zone}, dateFormat=form)
        whole = f"d\n{text}\n" if kind == "Csv" else f'{{"d":"{text}"}}\n'
        (row,) = frame_of(tmp_path, whole, step).table().to_pylist()
        assert str(row["d"]) == "2025-07-01"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("2025-10-26 02:30", "clocks of Europe/Berlin showed this time twice, or never"),
        ("2025-07-01 02:30 EDT", "no zone is called 'EDT'"),
        ("2025-07-01 02:30 CET", "CET is the name of winter time, and this is a time in summer"),
    ],
)
@pytest.mark.parametrize("kind", ["Csv", "NdJson"])
def test_a_time_of_an_unclear_zone_is_refused_with_the_reason(
    tmp_path: Path, kind: str, text: str, reason: str
) -> None:
    whole = f"t\n{text}\n" if kind == "Csv" else f'{{"t":"{text}"}}\n'
    with refusing("BadRow", match=reason):
        read(tmp_path, whole, [field("t", "Timestamp")], kind, timeZone="Europe/Berlin")


@pytest.mark.parametrize(
    ("unit", "count"),
    [
        ("s", "1735689600"),
        ("ms", "1735689600000"),
        ("us", "1735689600000000"),
        ("s", "1735689600.0"),
    ],
)
def test_numbers_count_the_unit_that_is_declared_in_every_format(
    tmp_path: Path, unit: str, count: str
) -> None:
    expected = [{"t": datetime(2025, 1, 1, tzinfo=UTC)}]
    own = [field("t", "Timestamp", epoch=unit)]
    for kind, text in (
        ("Csv", f"t\n{count}\n"),
        ("NdJson", f'{{"t":{count}}}\n'),
        ("Json", f'[{{"t":"{count}"}}]'),
    ):
        assert read(tmp_path, text, [field("t", "Timestamp")], kind, epoch=unit) == expected
        assert read(tmp_path, text, own, kind) == expected


def test_numbers_for_whole_numbers_and_for_text_follow_the_rule_of_the_source(
    tmp_path: Path,
) -> None:
    whole, text = [field("n", "Int64")], [field("n", "String")]
    assert read(tmp_path, '{"n":1.7}\n', whole, "NdJson", jsonNumbers="cut") == [{"n": 1}]
    line = '{"n":1.10}\n{"n":5}\n{"n":"x"}\n'
    assert read(tmp_path, line, text, "NdJson", jsonNumbers="text") == [
        {"n": "1.10"}, {"n": "5"}, {"n": "x"},
    ]  # fmt: skip
    with pytest.raises(BadRow, match="line 1"):
        read(tmp_path, line, text, "NdJson")


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-32", "cp1252"])
@pytest.mark.parametrize("kind", ["Csv", "NdJson", "Json"])
def test_a_file_of_a_declared_encoding_is_read_as_if_it_were_utf8(
    tmp_path: Path, encoding: str, kind: str
) -> None:
    text = {"Csv": "a\nZürich\n", "NdJson": '{"a":"Zürich"}\n', "Json": '[{"a":"Zürich"}]'}[kind]
    step = step_of(kind, [field("a", "String")], {}, encoding=encoding)
    rows = frame_of(tmp_path, text.encode(encoding), step).table().to_pylist()
    assert rows == [{"a": "Zürich"}]


def test_a_byte_order_mark_tells_the_encoding_by_itself(tmp_path: Path) -> None:
    for encoding in ("utf-16", "utf-32", "utf-8-sig"):
        content = "a,b\nZürich,1\n".encode(encoding)
        assert read(tmp_path, content, TEXT) == [{"a": "Zürich", "b": "1"}]


def test_bytes_that_are_not_of_the_encoding_have_a_line(tmp_path: Path) -> None:
    step = step_of("Csv", TEXT, {}, encoding="windows-1252")
    with pytest.raises(BadRow, match="line 2: the text is not cp1252"):
        frame_of(tmp_path, b"a,b\n\x81,1\n", step)


@pytest.mark.parametrize(
    "extra",
    [
        {"skipLines": -1},
        {"skipLines": 1.5},
        {"skipLines": True},
        {"footerLines": 10**6},
        {"decimal": ";"},
        {"decimal": ",", "thousands": ","},
        {"nullWords": []},
        {"nullWords": [1]},
        {"timeZone": "Middle/Earth"},
        {"epoch": "h"},
        {"jsonNumbers": "any"},
        {"skipLine": 1},
    ],
)
def test_an_option_that_means_nothing_is_refused_where_it_is_defined(extra: dict[str, Any]) -> None:
    with refusing("UnknownSourceOption", match="odf-node/"):
        check_options(step_of("Json" if "jsonNumbers" in extra else "Csv", TEXT, extra))
    with refusing("UnknownSourceOption", match="of a column is not known"):
        check_options(step_of("Csv", [field("a", "String", skipLines=1)], {}))
    for unit in ("", "x" * 51, "a\nb", 1):
        with refusing("UnknownSourceOption", match="odf-node/unit"):
            check_options(step_of("Csv", [field("a", "String", unit=unit)], {}))
    with refusing("UnknownSourceOption", match="of a source is not known"):
        check_options(step_of("Csv", TEXT, {"unit": "m"}))


def test_every_option_is_a_field_of_what_readers_get_and_is_described() -> None:
    described = (Path(__file__).parents[3] / "docs/ingestion.md").read_text()
    assert [option.key for option in OPTIONS if f"| `{option.key}`" not in described] == []
    defaults = options_of(step_of("Csv", TEXT, {}))
    assert all(hasattr(defaults, option.name) for option in OPTIONS if option.of_sources)
    assert len({option.key for option in OPTIONS}) == len(OPTIONS)


@pytest.mark.parametrize("encoding", ["windows-1252", "iso-8859-1", "cp850", "koi8-r", "mac-roman"])
def test_utf8_that_is_read_as_the_declared_encoding_is_told(tmp_path: Path, encoding: str) -> None:
    step = step_of("Csv", [field("a", "String")], {}, encoding=encoding)
    for text, said in (("a\nKöln\n", 1), ("a\nKoeln\n", 0), (b"a\nK\xe9ln\n", 0)):
        frame = frame_of(tmp_path, text, step)
        assert frame.table().num_rows == 1
        assert len(frame.warnings) == said
        assert not said or "UTF-8, as those of 'ö' are" in frame.warnings[0]
