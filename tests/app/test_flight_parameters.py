"""Values of prepared statements, as ADBC binds them: apart from the text, never a part of it."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import adbc_driver_flightsql.dbapi as adbc
import pyarrow as pa
import pyarrow.flight as fl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from service import SCHEMA, Service, described, seeded, serving

from odf_node.service.flight.fetching import Statement
from odf_protocol.flight_sql import STREAM_END, written
from odf_protocol.metadata.events import SetDataSchema
from odf_storage.stores.ports.values import Visibility

ROWS = 5
ALL = 'select "offset" from "kamu/city"'


@pytest.fixture(scope="module")
def service(tmp_path_factory: Any) -> Iterator[Service]:
    folder = tmp_path_factory.mktemp("flight") / "node"
    with serving(folder, flight_port=0, tenancy="multi", turn_wait_s=60) as service:
        chain = seeded().add(described(), SetDataSchema(schema=SCHEMA)).add_rows(ROWS)
        service.keep(chain, "kamu/city", Visibility.PUBLIC)
        yield service


def refused(why: str) -> Any:
    return pytest.raises(adbc.Error, match=why)


@pytest.fixture(scope="module")
def cursor(service: Service) -> Iterator[Any]:
    url, login = f"grpc://127.0.0.1:{service.node.flight.port}", {"username": "anonymous"}
    with adbc.connect(url, login, autocommit=True) as connection, connection.cursor() as cursor:
        yield cursor


def asked(cursor: Any, query: str, *values: Any) -> list[Any]:
    cursor.execute(query, values)
    return list(cursor.fetchall())


@pytest.mark.parametrize(
    ("query", "values", "found"),
    [
        (f"{ALL} where city = ?", ["c3"], [3]),
        (f"{ALL} where city = $1", ["c3"], [3]),
        (f'{ALL} where "offset" > ? and "offset" < ?', [1, 4], [2, 3]),
        (f'{ALL} where "offset" > $2 and "offset" < $1', [4, 1], [2, 3]),
        (f'{ALL} where "offset" in ($1, $2) or "offset" = $1', [1, 4], [1, 4]),
        (f'{ALL} where "offset" between ? and ? order by 1 limit ?', [1, 4, 2], [1, 2]),
        (f"{ALL} where city = '?' or city = ? -- ?\n or city = '$1'", ["c1"], [1]),
        (f"{ALL} where city = ? /* ? and $2 */", ["c1"], [1]),
        (f"{ALL} where city like ?", ["%2"], [2]),
        (f"{ALL} where city = ?", [None], []),
        (f"{ALL} where ? is null", [None], [0, 1, 2, 3, 4]),
        ('select "offset" from kamu.kamu."kamu/city" where city = ?', ["c2"], [2]),
        (f'{ALL} where "offset" in (select x from (values (?), (?)) v(x))', [0, 4], [0, 4]),
    ],
)  # fmt: skip
def test_rows_are_those_of_the_query_with_the_values_written_in_it(cursor, query, values, found):
    assert sorted(row[0] for row in asked(cursor, query, *values)) == found


@pytest.mark.parametrize(
    "value",
    [
        "it's", "'; drop table x; --", "?", "$1", 'a"b', "ü\U0001f600\x00", "", 2**62, -1, 0.1,
        float("inf"), True, False, b"\x00\xff", date(1, 1, 1), Decimal("123456789012345678901.25"),
        datetime(2026, 11, 30, 1, 2, 3, 456789, tzinfo=UTC),
    ],
)  # fmt: skip
def test_a_value_comes_back_as_it_was_bound(cursor, value):
    assert asked(cursor, "select ? as x", value) == [(value,)]


@given(st.text(max_size=40))
@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_a_text_is_a_value_whatever_is_in_it(cursor, text):
    assert asked(cursor, f"select ? as x, count(*) from ({ALL}) where ? = ?", text, text, text) == [
        (text, ROWS)
    ]


def test_a_prepared_statement_runs_again_with_other_values(cursor):
    for number in (2, 0, 4):
        cursor.execute(f"{ALL} where city = ? limit 7", [f"c{number}"])
        assert cursor.fetchall() == [(number,)]


def test_a_driver_is_told_the_types_that_the_query_gives_to_its_parameters(cursor):
    told = cursor.adbc_prepare(
        f'{ALL} where city = ? and "offset" > ? and system_time < ? and ? is null '
        "and cast(? as date) = event_time limit ?"
    )
    assert told.types[0] == pa.string()
    assert told.types[1] == pa.int64()
    assert pa.types.is_timestamp(told.types[2])
    assert told.types[3:] == [pa.string(), pa.date32(), pa.int64()]


def test_a_statement_without_parameters_tells_of_none(cursor):
    assert cursor.adbc_prepare(f"{ALL} where city = '?'") is None


@pytest.mark.parametrize(
    ("query", "values", "why"),
    [
        (f"{ALL} where city = ?", ["a", "b"], "takes 1 values; 2 were sent"),
        (f"{ALL} where city = ? or city = $1", ["a"], "one of both forms"),
        (f"{ALL} where city = ? /* /* */ */", ["a"], "no comment in a comment"),
        (f"{ALL} where city = E'\\'?'  or city = ?", ["a"], "no E'…'"),
        (f"{ALL} where city = $$?$$ or city = ?", ["a"], r"no \$…\$"),
        (f"{ALL} where city <> ?", [], "values of its parameters are missing"),
        (f"{ALL} where nope = ?", ["a"], "No field named nope"),
        (f"{ALL} where city = $name", ["a"], "parameters"),
        (f'{ALL} where "offset" = ?', ["ü"], "ü"),
        (f"delete from {ALL} where city = ?", ["a"], "SELECT"),
        (" or ".join([f"{ALL} where ?"] + ["?"] * 1_000), [True], "1000 parameters at most"),
    ],
)  # fmt: skip
def test_what_cannot_be_bound_is_refused_with_a_reason(cursor, query, values, why):
    with refused(why):
        asked(cursor, query, *values)
    assert asked(cursor, f"{ALL} where city = ?", "c1") == [(1,)]


def test_values_for_several_runs_are_refused(cursor):
    with refused("one run of the query, not for 2"):
        cursor.execute(f"{ALL} where city = ?", pa.record_batch({"": ["c1", "c2"]}))


@pytest.mark.parametrize("raw", [b"", b"\x00" * 64, b"ARROW1\x00\x00"])
def test_values_that_are_no_arrow_are_refused_by_the_process_of_the_query(service, raw):
    login = fl.FlightCallOptions(headers=[(b"authorization", b"Basic YW5vbnltb3VzOg")])
    handle = Statement("select ? as x", [], raw + STREAM_END).handle
    ticket = fl.Ticket(written("TicketStatementQuery", (1, handle)))
    with (
        fl.connect(f"grpc://127.0.0.1:{service.node.flight.port}") as client,
        pytest.raises(pa.ArrowInvalid, match="values of the parameters cannot be read"),
    ):
        client.do_get(ticket, login).read_all()


def test_over_http_a_query_has_no_parameters(service):
    with service.http() as client:
        told = client.post("/query", json={"query": f"{ALL} where city = ?"})
    assert told.status_code == 400
    assert "write the value where `?` or `$1` is" in told.json()["detail"]


def test_values_are_limited_as_the_text_of_a_query_is(service, cursor):
    limit = service.node.settings.query_text_bytes
    assert asked(cursor, "select char_length(?) as n", "x" * (limit // 2)) == [(limit // 2,)]
    with refused("ODF_NODE_QUERY_TEXT_BYTES"):
        asked(cursor, "select char_length(?) as n", "x" * limit)
