"""Texts of strangers are measured before anything reads them, whatever door they come by."""

from __future__ import annotations

import time
from typing import Any

import pytest
from refusals import refusing
from service import Service, serving, ten_rows

from odf_node.service.auth.actors import ANONYMOUS
from odf_node.service.definitions.authors import _named_in
from odf_node.service.flight.calls import ReaderTypes
from odf_node.service.flight.tables import FlightTables
from odf_node.service.query.inputs import views_by_alias
from odf_protocol.ddl import MAX_DDL_CHARS, parse_ddl
from odf_protocol.flight_sql import FlightCommand

MOST = 4_000
LONG = "select 1," + " " * MOST + "!"
SETTING = "ODF_NODE_QUERY_TEXT_BYTES"


@pytest.fixture(scope="module")
def service(tmp_path_factory: Any) -> Any:
    with serving(tmp_path_factory.mktemp("texts"), query_text_bytes=MOST) as service:
        service.keep(ten_rows(), "kamu/city")
        yield service


def test_a_query_that_is_too_long_is_refused_at_every_door(service: Service):
    bodies = [{"query": LONG}, {"query": LONG, "queryDialect": "SqlSpark"}]
    with service.http(service.token()) as client:
        posted = [client.post("/query", json=body) for body in bodies]
        linked = client.get("/query", params={"query": LONG})
        page = client.get("/city", params={"query": LONG}, headers={"accept": "text/html"})
    for answer in (*posted, linked):
        assert answer.status_code == 400, answer.text
        assert SETTING in answer.text
    assert page.status_code == 200
    assert SETTING in page.text


def test_the_bytes_of_a_query_count_and_not_its_letters(service: Service):
    inputs = service.node.query_inputs
    inputs.sources(ANONYMOUS, "é" * (MOST // 2), [])
    with refusing("TextTooLong"):
        inputs.sources(ANONYMOUS, "é" * (MOST // 2 + 1), [])


def test_a_long_pattern_of_tables_is_refused_and_a_short_one_takes_no_time(service: Service):
    tables = FlightTables(service.node.access, service.node.query_inputs)

    def listed(pattern: str, field: int = 3) -> int:
        command = FlightCommand("CommandGetTables", {field: [pattern.encode()]})
        found = tables.batches(ANONYMOUS, command, ReaderTypes.ARROW)
        return sum(batch.num_rows for batch in found)

    assert listed("no") == 0  # what is loaded once is loaded
    began = time.thread_time()
    assert listed("%" * 199 + "!") == 0
    assert listed("%i%" + "%" * 100 + "t_") == 1
    assert time.thread_time() - began < 1
    for field in (2, 3):
        with refusing("TextTooLong"):
            listed("%" * 201, field)


@pytest.mark.parametrize("blank", [" ", "\n", "\u00a0", "\u2003", "(", " ( ( "])
def test_names_stand_behind_any_blanks(blank: str):
    assert set(views_by_alias(f"select 1 from{blank * 3} a,{blank}b")) == {"a", "b"}


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("${{ env.a || env.b }} env.c ${{env.d}}", {"a", "b", "d"}),
        ("${{ env.a } ${{ env.b }}", {"b"}),
        ("${{ env.a", set()),
        ("}} env.a ${{", set()),
    ],
)
def test_variables_are_found_in_templates_as_the_worker_expands_them(text: str, names: set[str]):
    assert set(_named_in({"url": [text]})) == names


def test_a_comment_in_ddl_that_is_not_closed_is_told_with_its_place():
    with refusing("DdlSyntax", match="comment at character 9 ") as told:
        parse_ddl(["a STRING " + "/* " * 20_000])
    assert told.value.facts["position"] == 9
    assert parse_ddl(["a /* one */ STRING /**/"]) == parse_ddl(["a STRING"])


def test_ddl_has_a_limit_that_thousands_of_columns_stay_below():
    assert (
        len(parse_ddl([f"column_of_measurements_{n} STRING" for n in range(5_000)]).fields) == 5_000
    )
    with refusing("DdlSyntax", match=str(MAX_DDL_CHARS)):
        parse_ddl(["a STRING" + " " * MAX_DDL_CHARS])
