"""Flight SQL as Java programs speak it: the JDBC driver of Apache Arrow."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import jdbc
import pyarrow as pa
import pytest
from jdbc import rows
from py4j.java_gateway import JavaGateway
from py4j.protocol import Py4JJavaError
from service import SCHEMA, Service, described, seeded, serving
from table_made import TableMade

from odf_node.protocol.metadata.events import SetDataSchema
from odf_node.storage.stores.ports.values import Visibility

pytestmark = pytest.mark.skipif(
    not jdbc.DRIVERS, reason="no JDBC driver in .venv/jdbc: `make dev` fetches it where Maven is"
)
CITIES = 'select city from "kamu/city" order by city'


@pytest.fixture(scope="module")
def service(tmp_path_factory: Any) -> Iterator[Service]:
    folder = tmp_path_factory.mktemp("jdbc") / "node"
    with serving(folder, flight_port=0, tenancy="multi", query_wait_s=60) as service:
        for name, seen in (("city", Visibility.PUBLIC), ("secret", Visibility.PRIVATE)):
            chain = seeded().add(described(), SetDataSchema(schema=SCHEMA)).add_rows(3)
            service.keep(chain, f"kamu/{name}", seen)
        half = pa.schema([("half", pa.float16())])
        TableMade(service.node.stores, "kamu/halves", half, visibility=Visibility.PUBLIC)
        yield service


@pytest.fixture(scope="module")
def gateway() -> Iterator[JavaGateway]:
    with jdbc.java() as gateway:
        yield gateway


@pytest.fixture(scope="module")
def anonymous(gateway: JavaGateway, service: Service) -> Iterator[Any]:
    port = service.node.flight.port
    with jdbc.connected(gateway, port, user="anonymous", password="") as connection:
        yield connection


def asked(connection: Any, query: str) -> list[dict[str, Any]]:
    statement = connection.createStatement()
    try:
        return rows(statement.executeQuery(query))
    finally:
        statement.close()


def refusal(connection: Any, query: str) -> str:
    with pytest.raises(Py4JJavaError) as refused:
        asked(connection, query)
    return str(refused.value)


def test_a_caller_without_an_account_reads_what_is_public(anonymous):
    assert asked(anonymous, CITIES) == [{"city": "c0"}, {"city": "c1"}, {"city": "c2"}]
    refused = refusal(anonymous, 'select * from "kamu/secret"')
    assert "kamu/secret" in refused
    assert "odf_node" not in refused


def java_class(gateway: JavaGateway, name: str) -> Any:
    """A class of java.time."""
    return gateway.jvm.java.lang.Class.forName(f"java.time.{name}")


@pytest.mark.parametrize("zone", ["America/New_York", "Asia/Tokyo"])
def test_an_instant_is_the_same_in_a_jvm_of_any_zone(service, zone):
    query = (
        "select system_time, to_timestamp('2025-01-01T00:00:00') as local, "
        "arrow_cast(system_time, 'Timestamp(Microsecond, Some(\"Europe/Berlin\"))') as zoned "
        'from "kamu/city" limit 1'
    )
    port = service.node.flight.port
    with (
        jdbc.java(f"-Duser.timezone={zone}") as gateway,
        jdbc.connected(gateway, port, user="anonymous", password="") as connection,
    ):
        assert gateway.jvm.java.time.ZoneId.systemDefault().getId() == zone
        statement = connection.createStatement()
        results = statement.executeQuery(query)
        assert results.next()
        instant, local = (java_class(gateway, name) for name in ("Instant", "LocalDateTime"))
        for at in (1, 3):
            assert results.getObject(at, instant).toString() == "2050-01-01T12:00:00Z"
        assert results.getObject(2, local).toString() == "2025-01-01T00:00"
        statement.close()


def test_times_and_numbers_come_in_their_types(gateway, anonymous):
    statement = anonymous.createStatement()
    results = statement.executeQuery('select offset, system_time from "kamu/city" limit 1')
    told = results.getMetaData()
    types = [told.getColumnTypeName(at) for at in (1, 2)]
    assert types == ["BIGINT", "TIMESTAMP_WITH_TIMEZONE"]
    assert results.next()
    assert results.getLong(1) == 0
    instant = java_class(gateway, "Instant")
    assert results.getObject(2, instant).toString() == "2050-01-01T12:00:00Z"
    results.close()
    statement.close()


def test_a_token_opens_what_its_account_may_read(gateway, service):
    port, count = service.node.flight.port, 'select count(*) as n from "kamu/secret"'
    with jdbc.connected(gateway, port, token=service.token()) as connection:
        assert asked(connection, count) == [{"n": "3"}]


def test_tools_find_catalogue_schema_tables_and_columns(anonymous):
    told = anonymous.getMetaData()
    assert told.getDatabaseProductName() == "ODF Node"
    assert told.isReadOnly()
    assert rows(told.getCatalogs()) == [{"TABLE_CAT": "kamu"}]
    assert [each["TABLE_SCHEM"] for each in rows(told.getSchemas())] == ["kamu"]
    tables = rows(told.getTables(None, None, "%", None))
    assert [(each["TABLE_NAME"], each["TABLE_TYPE"]) for each in tables] == [
        ("kamu/city", "TABLE"),
        ("kamu/halves", "TABLE"),
    ]
    columns = rows(told.getColumns(None, None, "kamu/city", "%"))
    assert [each["COLUMN_NAME"] for each in columns] == SCHEMA_NAMES
    assert rows(told.getPrimaryKeys(None, None, "kamu/city")) == []
    assert rows(told.getImportedKeys(None, None, "kamu/city")) == []


def test_a_column_of_half_floats_hides_no_columns(anonymous):
    told = rows(anonymous.getMetaData().getColumns(None, None, "%", "%"))
    types = {(each["TABLE_NAME"], each["COLUMN_NAME"]): each["TYPE_NAME"] for each in told}
    assert types["kamu/halves", "half"] == "FLOAT"
    assert ("kamu/city", "city") in types


SCHEMA_NAMES = [field.name for field in SCHEMA.fields]


def test_a_prepared_statement_runs_as_often_as_it_is_asked(anonymous):
    statement = anonymous.prepareStatement(CITIES)
    for _ in range(3):
        assert len(rows(statement.executeQuery())) == 3
    assert statement.getMetaData().getColumnCount() == 1
    statement.close()


@pytest.mark.parametrize(
    ("query", "reason"),
    [
        ("selec 1", "INVALID_ARGUMENT"),
        ('drop table "kamu/city"', "INVALID_ARGUMENT"),
        ('select city from "kamu/city" where offset > ?', "no parameters"),
    ],
)
def test_what_is_no_query_is_refused_with_a_reason(anonymous, query, reason):
    assert reason in refusal(anonymous, query)
    assert len(asked(anonymous, CITIES)) == 3
