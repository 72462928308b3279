"""What is wrong with a query is told with its place and the names that it may have meant."""

from __future__ import annotations

import adbc_driver_flightsql.dbapi as adbc
import pytest
from click.testing import CliRunner
from service import serving, ten_rows

from odf_node.cli.main import main
from odf_storage.stores.ports.values import Visibility

WRONG = [
    pytest.param("select citty from city", 'Did you mean "city"?', 1, 8, id="a column"),
    pytest.param(
        "select city\nfrom city\n where  popul > 1", 'mean "population"?', 3, 9, id="a line below"
    ),
    pytest.param("select 'sit', sit.x from sit", "'kamu.kamu.sit' not found", 1, 15, id="a table"),
    pytest.param(
        "select * from cities", 'did you mean "city"?', 1, 15, id="a table that is like one"
    ),
    pytest.param("select city, from cit", 'did you mean "city"?', 1, 19, id="after a comma"),
    pytest.param("select lenth(city) from city", "Invalid function 'lenth'", 1, 8, id="a function"),
    pytest.param("select city from city where  ", "found: EOF", 1, 28, id="the end"),
    pytest.param("selec city from city", "did you mean SELECT?", 1, 1, id="no SELECT"),
    pytest.param("select * frm city", "`frm`: did you mean FROM?", 1, 10, id="a keyword"),
    pytest.param(
        "select * from city wher population > 1",
        "`wher`: did you mean WHERE?",
        1,
        25,
        id="a keyword before the place",
    ),
    pytest.param("select ???", "found: ? at Line: 1, Column: 9", 1, 9, id="a sign"),
]


@pytest.fixture(scope="module")
def node(tmp_path_factory):
    with serving(tmp_path_factory.mktemp("places") / "node", flight_port=0) as service:
        service.keep(ten_rows(), "kamu/city")
        service.keep(ten_rows(), "kamu/cities2", Visibility.PRIVATE)
        yield service


@pytest.mark.parametrize(("query", "words", "line", "column"), WRONG)
def test_an_error_has_its_place(node, query, words, line, column):
    with node.http() as client:
        told = client.post("/query", json={"query": query}).json()
        page = client.get("/city", params={"query": query}, headers={"accept": "text/html"}).text
    assert words in told["message"]
    assert (told["line"], told["column"]) == (line, column)
    assert f"(line {line}, column {column})" in page or f"Line: {line}, Column: {column}" in page
    who = {"username": "anonymous", "password": ""}
    with (
        adbc.connect(
            f"grpc://127.0.0.1:{node.node.flight.port}", who, autocommit=True
        ) as connection,
        connection.cursor() as cursor,
        pytest.raises(Exception, match=f"(?i)line:? {line}, column:? {column}"),
    ):
        cursor.execute(query)
    done = CliRunner().invoke(main, ["sql", query, "--node", node.url])
    shown, mark, *_ = done.stderr.splitlines()
    assert shown == query.split("\n")[line - 1]
    assert mark == " " * (column - 1) + "^"


def test_a_name_that_the_caller_may_not_read_is_not_suggested(node):
    with node.http() as client:
        told = client.post("/query", json={"query": "select * from cities2"}).json()
    assert "did you mean" not in told["message"] or 'cities2"' not in told["message"]
    with node.http(node.token()) as client:
        told = client.post("/query", json={"query": "select * from cities22"}).json()
    assert told["nearest"][0] == "cities2"


def test_a_function_of_other_types_is_told_without_talk_of_bugs(node):
    with node.http() as client:
        told = client.post("/query", json={"query": "select sum(city) from city"}).json()
    assert told["message"].startswith("No function matches the given name and argument types")


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("select 9223372036854775807 + 1", "value of 9223372036854775808 is out of range Int64"),
        ("select cast('x' as bigint)", "Cannot cast string 'x' to value of Int64 type"),
        ("select population / 0 from city", "Divide by zero error"),
        ("select to_timestamp('no')", "Error parsing timestamp from 'no'"),
        ("select repeat(city, 99999999999) from city", "string size overflow"),
    ],
)
def test_an_error_of_a_value_begins_with_what_is_wrong(node, query, said):
    with node.http() as client:
        told = client.post("/query", json={"query": query}).json()
    assert told["message"].startswith(said)
