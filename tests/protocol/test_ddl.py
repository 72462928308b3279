"""DDL columns become the schema the reference makes of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from odf_protocol.columns.arrow_schema import UnsupportedSchema
from odf_protocol.ddl import parse_ddl
from odf_protocol.metadata import schema as odf
from odf_protocol.metadata.schema import DataType

CASES = json.loads((Path(__file__).parents[1] / "vectors/ingest/ddl.json").read_text())["cases"]
SHORT = {"Timestamp": "timestamp[ms,UTC]"}


def _short(data_type: DataType) -> str:
    match data_type:
        case odf.DataTypeOption(inner=inner):
            return _short(inner) + "?"
        case odf.DataTypeList(item_type=item_type):
            return f"list<{_short(item_type)}>"
        case odf.DataTypeDecimal(precision=precision, scale=scale):
            return f"decimal({precision},{scale})"
        case odf.DataTypeTimestamp(unit=odf.TimeUnit.Millisecond, timezone="UTC"):
            return "timestamp[ms,UTC]"
    return type(data_type).__name__.removeprefix("DataType").lower()


def _parsed(*columns: str) -> list[tuple[str, str]]:
    return [(field.name, _short(field.type)) for field in parse_ddl(columns).fields]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["title"])
def test_columns_become_what_the_reference_makes_of_them(case: dict[str, Any]) -> None:
    columns, expected = case["given"]["ddl"], case["expect"]
    if "error" in expected:
        with pytest.raises(UnsupportedSchema) as refused:
            parse_ddl(columns)
        assert (refused.value.code == "DdlSyntax") == (expected["error"]["kind"] == "Syntax")
        return
    assert _parsed(*columns) == [
        (field["name"], field["type"] + ("?" if field["nullable"] else ""))
        for field in expected["fields"]
    ]


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("BOOL", "bool?"),
        ("bOOlean NOT NULL", "bool"),
        ("INTEGER", "int32?"),
        ("SIGNED", "int32?"),
        ("INT32", "int32?"),
        ("INT(11) NOT NULL", "int32"),
        ("INTEGER UNSIGNED", "uint32?"),
        ("UNSIGNED", "uint32?"),
        ("UINT32", "uint32?"),
        ("INT(10) UNSIGNED NOT NULL", "uint32"),
        ("BIGINT(20) UNSIGNED", "uint64?"),
        ("FLOAT32", "float32?"),
        ("TINYTEXT", "string?"),
        ("MEDIUMTEXT", "string?"),
        ("LONGTEXT", "string?"),
        ("FIXEDSTRING(8)", "string?"),
        ("VARCHAR(10) NOT NULL", "string"),
        ("TIMESTAMP(3) WITH TIME ZONE", "timestamp[ms,UTC]?"),
        ("TIMESTAMP WITHOUT TIME ZONE NOT NULL", "timestamp[ms,UTC]"),
        ("TIMESTAMPTZ", "timestamp[ms,UTC]?"),
        ("DATE NOT NULL", "date"),
        ("DECIMAL(10, 2)", "decimal(10,2)"),
        ("DECIMAL(10,2) NOT NULL", "decimal(10,2)"),
        ("ARRAY<INT> NOT NULL", "list<int32?>"),
        ("ARRAY<ARRAY<DATE>>", "list<list<date>?>?"),
        ("ARRAY<DECIMAL(5,1)>", "list<decimal(5,1)>?"),
    ],
)
def test_every_type_name_has_its_type(sql: str, expected: str) -> None:
    assert _parsed(f"x {sql}") == [("x", expected)]


@pytest.mark.parametrize(
    "sql",
    [
        "TINYINT",
        "SMALLINT",
        "MEDIUMINT",
        "INT64",
        "UINT64",
        "INT8",
        "FLOAT64",
        "CHAR",
        "CHARACTER VARYING(3)",
        "NUMERIC",
        "NUMERIC(5,2)",
        "DECIMAL(5)",
        "DECIMAL(77,2)",
        "DECIMAL(5,6)",
        "DECIMAL(1,2,3)",
        "DOUBLE PRECISION",
        "TIME",
        "BINARY(3)",
        "VARBINARY",
        "BLOB",
        "BYTES",
        "UUID",
        "MAP<STRING,INT>",
        "STRUCT<a INT>",
        "ARRAY",
        "ARRAY(INT)",
        "BIGINT[]",
        "INT NULL",
        "INT PRIMARY KEY",
        "INT DEFAULT 1",
        "INT UNIQUE",
        'STRING COLLATE "C"',
        'STRING COMMENT "x"',
        "geometry",
        "ARRAY<INT NOT NULL>",
        "TEXT(10)",
        "STRUCT<a: INT>",
        "ENUM('a', 'b')",
        "INT DEFAULT -1",
        "STRING DEFAULT 'a'",
        "STRING COMMENT 'what it''s, and why'",
        "spatial.point",
    ],
)
def test_other_types_and_options_are_unsupported(sql: str) -> None:
    with pytest.raises(UnsupportedSchema) as refused:
        parse_ddl(["ok INT", f"x {sql}"])
    assert refused.value.code != "DdlSyntax"
    assert refused.value.facts["column"] == "x"
    assert isinstance(refused.value.facts["position"], int)


@pytest.mark.parametrize(
    "columns",
    [
        ["a"],
        ["a: INT"],
        ["a INT,"],
        ["a INT", ""],
        ["a INT)"],
        ["a INT NOT"],
        ["1a INT"],
        ["'a' INT"],
        ['"" INT'],
        ['"a INT'],
        ["a.b INT"],
        ["a ARRAY<INT"],
        ["a VARCHAR("],
        ["a DECIMAL(x,y)"],
        ["a TIMESTAMP WITH ZONE"],
        ["primary INT"],
        ["PRIMARY KEY (a)"],
        ["constraint STRING"],
        ["index BIGINT"],
        ["unique INT"],
        ["check INT"],
        ["foreign STRING"],
        ["a INT; drop table x"],
    ],
    ids=str,
)
def test_text_that_is_no_column_list_is_a_syntax_error(columns: list[str]) -> None:
    with pytest.raises(UnsupportedSchema) as refused:
        parse_ddl(columns)
    assert refused.value.code == "DdlSyntax" or "NOT" in columns[0]


def test_one_entry_may_hold_several_columns() -> None:
    assert _parsed("a INT, b STRING", "c DATE") == _parsed("a INT", "b STRING", "c DATE")


def test_no_columns_are_an_empty_schema() -> None:
    assert parse_ddl([]).fields == ()


def test_comments_and_line_breaks_are_blanks() -> None:
    assert _parsed("a -- the first\n INT", "b /* , */ STRING") == [
        ("a", "int32?"),
        ("b", "string?"),
    ]


def test_common_words_are_column_names() -> None:
    names = [
        "date",
        "time",
        "timestamp",
        "from",
        "to",
        "value",
        "user",
        "order",
        "group",
        "select",
        "type",
        "name",
    ]
    assert [name for name, _ in _parsed(*(f"{name} STRING" for name in names))] == names


def test_quotes_inside_of_quoted_names_are_doubled() -> None:
    assert _parsed('"a""b" INT', "`key` INT", "`c``d` INT") == [
        ('a"b', "int32?"),
        ("key", "int32?"),
        ("c`d", "int32?"),
    ]


def test_endless_arrays_are_refused() -> None:
    with pytest.raises(UnsupportedSchema):
        parse_ddl(["a " + "ARRAY<" * 5000 + "INT" + ">" * 5000])


WORDS = st.sampled_from(
    ["a", "INT", "ARRAY", "<", ">", "(", ")", ",", "NOT", "NULL", "DECIMAL", "9", '"', "`x`", " "]
)


@given(st.lists(st.lists(WORDS).map(" ".join) | st.text()))
@example(["a INT", "/*"])
def test_any_text_is_a_schema_or_refused(columns: list[str]) -> None:
    try:
        schema = parse_ddl(columns)
    except UnsupportedSchema:
        return
    assert all(field.name for field in schema.fields)
