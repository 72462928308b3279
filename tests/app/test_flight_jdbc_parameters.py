"""Values of prepared statements as Java programs bind them, by the JDBC driver of Apache Arrow."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import jdbc
import pytest
from jdbc import rows
from py4j.java_gateway import JavaGateway
from py4j.protocol import Py4JJavaError
from service import SCHEMA, Service, described, seeded, serving

from odf_protocol.metadata.events import SetDataSchema
from odf_storage.stores.ports.values import Visibility

pytestmark = pytest.mark.skipif(
    not jdbc.DRIVERS, reason="no JDBC driver in .venv/jdbc: `make dev` fetches it where Maven is"
)
CITY = 'select city from "kamu/city" where '


@pytest.fixture(scope="module")
def service(tmp_path_factory: Any) -> Iterator[Service]:
    folder = tmp_path_factory.mktemp("jdbc") / "node"
    with serving(folder, flight_port=0, tenancy="multi", turn_wait_s=60) as service:
        chain = seeded().add(described(), SetDataSchema(schema=SCHEMA)).add_rows(3)
        service.keep(chain, "kamu/city", Visibility.PUBLIC)
        yield service


@pytest.fixture(scope="module", params=["America/New_York", "Asia/Tokyo"])
def gateway(request: pytest.FixtureRequest) -> Iterator[JavaGateway]:
    with jdbc.java(f"-Duser.timezone={request.param}") as gateway:
        yield gateway


@pytest.fixture(scope="module")
def anonymous(gateway: JavaGateway, service: Service) -> Iterator[Any]:
    port = service.node.flight.port
    with jdbc.connected(gateway, port, user="anonymous", password="") as connection:
        yield connection


def asked(connection: Any, query: str, *binds: tuple[str, Any]) -> list[Any]:
    """Return the values of the one column of the rows."""
    statement = connection.prepareStatement(query)
    try:
        for at, (name, value) in enumerate(binds, 1):
            getattr(statement, name)(at, value)
        return [value for row in rows(statement.executeQuery()) for value in row.values()]
    finally:
        statement.close()


@pytest.mark.parametrize(
    ("query", "binds", "found"),
    [
        (CITY + '"offset" > ?', [("setInt", 0)], ["c1", "c2"]),
        (CITY + '"offset" > ?', [("setLong", 1)], ["c2"]),
        (CITY + "city = ?", [("setString", "c1")], ["c1"]),
        (CITY + 'city = ? and "offset" < ?', [("setString", "c1"), ("setLong", 2)], ["c1"]),
        (CITY + '"offset" > ?', [("setNull", 4)], []),
        (CITY + "true order by 1 limit ?", [("setInt", 2)], ["c0", "c1"]),
        (CITY + "event_time < ?", [("setString", "2050-01-01T12:00:00Z")], []),
        (CITY + "event_time <= ?", [("setString", "2050-01-01T12:00:00Z")], ["c0", "c1", "c2"]),
        ("select cast(? as timestamp) as x", [("setString", "2030-01-01T00:00:00.123456789")],
         ["2030-01-01 00:00:00.123456789"]),
        ("select cast(? as time) as x", [("setString", "12:30:00")], ["12:30:00.000000000"]),
        ("select cast(? as double) as x", [("setDouble", 1.5)], ["1.5"]),
        ("select cast(? as boolean) as x", [("setBoolean", True)], ["true"]),
        ("select cast(? as int) as x", [("setInt", 5)], ["5"]),
        ("select ? as x", [("setString", "it's ?")], ["it's ?"]),
        ("select ? as x", [("setNull", 12)], [None]),
    ],
)  # fmt: skip
def test_rows_are_those_of_the_query_with_the_values_written_in_it(anonymous, query, binds, found):
    assert asked(anonymous, query, *binds) == found


def test_a_day_and_a_decimal_are_bound_as_they_are_in_any_zone(gateway, anonymous):
    java = gateway.jvm.java
    day = ("setDate", java.sql.Date.valueOf("2030-01-01"))
    assert asked(anonymous, "select cast(cast(? as date) as varchar) as x", day) == ["2030-01-01"]
    price = ("setBigDecimal", java.math.BigDecimal("12.50"))
    assert asked(anonymous, "select cast(? as decimal(20, 2)) as x", price) == ["12.50"]


@pytest.mark.parametrize("query", [CITY + "event_time < ?", "select cast(? as timestamp) as x"])
def test_a_timestamp_that_the_driver_would_move_is_refused_by_it(gateway, anonymous, query):
    moment = ("setTimestamp", gateway.jvm.java.sql.Timestamp(1893456000123))
    with pytest.raises(Py4JJavaError, match="not yet supported for expected Arrow type Utf8"):
        asked(anonymous, query, moment)


def test_a_number_without_a_type_asks_for_a_cast(anonymous):
    with pytest.raises(Py4JJavaError, match="not yet supported for expected Arrow type Utf8"):
        asked(anonymous, "select ? as x", ("setInt", 5))
    assert asked(anonymous, "select cast(? as bigint) as x", ("setInt", 5)) == ["5"]


def test_a_statement_runs_again_with_other_values(anonymous):
    statement = anonymous.prepareStatement(CITY + "city = ?")
    for city in ("c2", "c0", "none"):
        statement.setString(1, city)
        assert len(rows(statement.executeQuery())) == (city != "none")
    statement.close()
