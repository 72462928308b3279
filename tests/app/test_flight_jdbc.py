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

from odf_protocol.metadata.events import AddPushSource, SetDataSchema
from odf_protocol.metadata.sources import MergeStrategyLedger, ReadStepNdJson
from odf_storage.stores.ports.values import Visibility

pytestmark = pytest.mark.skipif(
    not jdbc.DRIVERS, reason="no JDBC driver in .venv/jdbc: `make dev` fetches it where Maven is"
)
KEYED = AddPushSource(
    source_name="default",
    read=ReadStepNdJson(),
    merge=MergeStrategyLedger(primary_key=("city", "population")),
)
TYPES: dict[str, tuple[pa.DataType, str]] = {
    "u8": (pa.uint8(), "SMALLINT"),
    "u16": (pa.uint16(), "INTEGER"),
    "u32": (pa.uint32(), "BIGINT"),
    "u64": (pa.uint64(), "DECIMAL"),
    "half": (pa.float16(), "FLOAT"),
    "wide": (pa.decimal256(60, 2), "DECIMAL"),
    "millis": (pa.time32("ms"), "VARCHAR"),
    "micros": (pa.time64("us"), "VARCHAR"),
    "day": (pa.date32(), "DATE"),
    "seen": (pa.timestamp("us", "UTC"), "TIMESTAMP_WITH_TIMEZONE"),
    "list": (pa.list_(pa.uint8()), "ARRAY"),
    "struct": (pa.struct([("a", pa.float16())]), "JAVA_OBJECT"),
}
"""Columns, and the names of their types in JDBC."""
LARGEST = {
    "arrow_cast(255, 'UInt8')": "255",
    "arrow_cast(65535, 'UInt16')": "65535",
    "arrow_cast(4294967295, 'UInt32')": "4294967295",
    "arrow_cast(18446744073709551615, 'UInt64')": "18446744073709551615",
    "arrow_cast(1.5, 'Float16')": "1.5",
    "arrow_cast('1.5', 'Decimal256(60, 2)')": "1.50",
    "make_array(named_struct('a', arrow_cast(255, 'UInt8')))": '[{"a":255}]',
    "map(['k'], [arrow_cast(255, 'UInt8')])": '{"k":255}',
    "arrow_cast('12:30:00.123456', 'Time64(Microsecond)')": "12:30:00.123456",
    "arrow_cast('23:59:59', 'Time32(Second)')": "23:59:59",
    "make_array(arrow_cast('12:30:00', 'Time32(Second)'))": '["12:30:00"]',
    "make_array(date '0001-01-01', date '9999-12-31')": '["0001-01-01","9999-12-31"]',
    "named_struct('t', arrow_cast('2026-07-01T00:00:00Z', 'Timestamp(Second, Some(\"UTC\"))'))": (
        '{"t":"2026-07-01 00:00:00Z"}'
    ),
    "arrow_cast('2026-10-25T00:30:00Z', 'Timestamp(Millisecond, Some(\"Europe/Berlin\"))')": (
        "2026-10-25 00:30:00.0"
    ),
}
"""Values of which the driver itself makes others, and their texts."""
NOT_IN_THE_DRIVER = {
    "deletesAreDetected",
    "insertsAreDetected",
    "updatesAreDetected",
    "supportsResultSetHoldability",
    *(f"{who}{what}AreVisible" for who in ("own", "others")
      for what in ("Deletes", "Inserts", "Updates")),
}  # fmt: skip
"""Methods that driver 18.3.0 has not, whatever a server says."""
CITIES = 'select city from "kamu/city" order by city'


@pytest.fixture(scope="module")
def service(tmp_path_factory: Any) -> Iterator[Service]:
    folder = tmp_path_factory.mktemp("jdbc") / "node"
    with serving(folder, flight_port=0, tenancy="multi", turn_wait_s=60) as service:
        for name, seen in (("city", Visibility.PUBLIC), ("secret", Visibility.PRIVATE)):
            chain = seeded().add(described(), SetDataSchema(schema=SCHEMA)).add_rows(3)
            service.keep(chain, f"kamu/{name}", seen)
        schema = pa.schema([(name, kind) for name, (kind, _) in TYPES.items()])
        TableMade(service.node.stores, "kamu/types", schema, visibility=Visibility.PUBLIC)
        keyed = seeded().add(described(), KEYED, SetDataSchema(schema=SCHEMA)).add_rows(1)
        service.keep(keyed, "kamu/keyed", Visibility.PUBLIC)
        yield service


@pytest.fixture(scope="module")
def gateway() -> Iterator[JavaGateway]:
    with jdbc.java() as gateway:
        yield gateway


@pytest.fixture(scope="module", params=["America/New_York", "Asia/Tokyo"])
def elsewhere(request: pytest.FixtureRequest) -> Iterator[JavaGateway]:
    """A Java in another zone."""
    with jdbc.java(f"-Duser.timezone={request.param}") as gateway:
        assert gateway.jvm.java.time.ZoneId.systemDefault().getId() == request.param
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


def test_an_instant_is_the_same_in_a_jvm_of_any_zone(service, elsewhere):
    query = (
        "select system_time, to_timestamp('2025-01-01T00:00:00') as local, "
        "arrow_cast(system_time, 'Timestamp(Microsecond, Some(\"Europe/Berlin\"))') as zoned "
        'from "kamu/city" limit 1'
    )
    port = service.node.flight.port
    with jdbc.connected(elsewhere, port, user="anonymous", password="") as connection:
        statement = connection.createStatement()
        results = statement.executeQuery(query)
        assert results.next()
        instant, local = (java_class(elsewhere, name) for name in ("Instant", "LocalDateTime"))
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
        ("kamu/keyed", "TABLE"),
        ("kamu/types", "TABLE"),
    ]
    columns = rows(told.getColumns(None, None, "kamu/city", "%"))
    assert [each["COLUMN_NAME"] for each in columns] == SCHEMA_NAMES
    assert rows(told.getPrimaryKeys(None, None, "kamu/city")) == []
    assert rows(told.getImportedKeys(None, None, "kamu/city")) == []


def test_columns_of_all_types_are_listed_in_types_of_jdbc(anonymous):
    told = rows(anonymous.getMetaData().getColumns(None, None, "%", "%"))
    types = {(each["TABLE_NAME"], each["COLUMN_NAME"]): each["TYPE_NAME"] for each in told}
    assert {name: types["kamu/types", name] for name in TYPES} == {
        name: shown for name, (_, shown) in TYPES.items()
    }
    assert ("kamu/city", "city") in types


def test_a_key_is_told_of_a_dataset_that_merges_by_one(anonymous):
    found = rows(anonymous.getMetaData().getPrimaryKeys("kamu", "kamu", "kamu/keyed"))
    assert [(each["COLUMN_NAME"], each["KEY_SEQ"]) for each in found] == [
        ("city", "1"),
        ("population", "2"),
    ]
    for absent in ("kamu/secret", "kamu/absent", "%"):
        assert rows(anonymous.getMetaData().getPrimaryKeys(None, None, absent)) == []


def test_every_question_about_the_database_is_answered(gateway, anonymous):
    told = anonymous.getMetaData()
    metadata = gateway.jvm.java.lang.Class.forName("java.sql.DatabaseMetaData")
    given = {"int": 1003, "boolean": True, "java.lang.String": "kamu"}
    failed = set()
    for method in metadata.getDeclaredMethods():
        types = [each.getName() for each in method.getParameterTypes()]
        arguments = gateway.new_array(gateway.jvm.java.lang.Object, len(types))
        for at, each in enumerate(types):
            is_level = method.getName() == "supportsTransactionIsolationLevel"
            arguments[at] = 0 if is_level else given.get(each)
        try:
            found = method.invoke(told, arguments)
        except Py4JJavaError:
            failed.add(method.getName())
        else:
            if method.getReturnType().getName() == "java.sql.ResultSet":
                rows(found)
    assert failed == NOT_IN_THE_DRIVER
    assert told.supportsFullOuterJoins()
    assert told.supportsUnionAll()
    assert not told.supportsTransactions()
    assert not told.supportsStoredProcedures()
    assert told.getMaxColumnsInSelect() == 0


@pytest.mark.parametrize("kind", ["Numeric", "String", "System", "TimeDate"])
def test_functions_that_are_told_are_those_of_queries(anonymous, kind):
    names = getattr(anonymous.getMetaData(), f"get{kind}Functions")().split(", ")
    assert len(names) > 1
    for name in names:
        if name != "PI":  # it takes nothing
            assert "Invalid function" not in refusal(anonymous, f"select {name}()")


def test_values_that_the_driver_does_not_know_come_in_other_types(anonymous):
    query = "select " + ", ".join(f"{sql} as x{at}" for at, sql in enumerate(LARGEST))
    assert list(asked(anonymous, query)[0].values()) == list(LARGEST.values())


def test_dbeaver_connects_looks_around_and_shows_rows(service, elsewhere):
    """The calls of its generic driver, and the statements that it makes."""
    port = service.node.flight.port
    with jdbc.connected(elsewhere, port, user="anonymous", password="") as connection:
        assert connection.isValid(5)
        connection.setAutoCommit(True)
        connection.setCatalog("kamu")
        connection.setSchema("kamu")
        told = connection.getMetaData()
        assert not told.supportsBatchUpdates()
        assert told.getIdentifierQuoteString() == '"'
        assert told.getSQLKeywords()
        assert [each["TABLE_TYPE"] for each in rows(told.getTableTypes())] == ["TABLE"]
        assert [each["TABLE_NAME"] for each in rows(told.getTables("kamu", "kamu", "%", None))]
        names = [
            each["COLUMN_NAME"] for each in rows(told.getColumns("kamu", "kamu", "kamu/city", "%"))
        ]
        assert names == SCHEMA_NAMES
        assert rows(told.getIndexInfo("kamu", "kamu", "kamu/city", False, True)) == []
        table = 'kamu.kamu."kamu/city"'
        statement = connection.createStatement()
        statement.setMaxRows(2)
        statement.setFetchSize(200)
        statement.setQueryTimeout(20)
        shown = rows(statement.executeQuery(f"SELECT x.* FROM {table} x"))
        assert [each["city"] for each in shown] == ["c0", "c1"]
        assert {each["system_time"] for each in shown} == {"2050-01-01 12:00:00.0"}
        statement.close()
        assert asked(connection, f"SELECT count(*) AS n FROM {table}") == [{"n": "3"}]
        newest = f'SELECT * FROM "kamu".{table[5:]} ORDER BY "offset" DESC LIMIT 1'
        assert [each["city"] for each in asked(connection, newest)] == ["c2"]


def test_times_as_texts_are_the_same_in_every_way_to_read_them(service, elsewhere):
    port, who = service.node.flight.port, {"user": "anonymous", "password": ""}
    with jdbc.connected(elsewhere, port, **who, times="text") as connection:
        statement = connection.createStatement()
        local = "arrow_cast('2025-01-01T00:00:00.5', 'Timestamp(Microsecond, None)')"
        results = statement.executeQuery(f'select system_time, {local} from "kamu/city" limit 1')
        assert results.next()
        for read in (results.getString, results.getObject):
            assert read(1) == "2050-01-01 12:00:00.000Z"
            assert read(2) == "2025-01-01 00:00:00.500000"
        statement.close()
        told = rows(connection.getMetaData().getColumns(None, None, "kamu/city", "system_time"))
        assert [each["TYPE_NAME"] for each in told] == ["VARCHAR"]


def test_times_in_a_form_that_is_none_are_refused(gateway, service):
    port = service.node.flight.port
    with (
        pytest.raises(Py4JJavaError) as refused,
        jdbc.connected(gateway, port, user="anonymous", password="", times="txt") as connection,
    ):
        connection.getMetaData().getDatabaseProductName()
    assert "write times=text" in str(refused.value)


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
        ('select nope from "kamu/city" where city = ?', "No field named nope"),
    ],
)
def test_what_is_no_query_is_refused_with_a_reason(anonymous, query, reason):
    assert reason in refusal(anonymous, query)
    assert len(asked(anonymous, CITIES)) == 3


OF_CITY = 'select city from "kamu/city" where '


@pytest.fixture(scope="module")
def there(elsewhere: JavaGateway, service: Service) -> Iterator[Any]:
    """A connection of a Java in another zone."""
    port = service.node.flight.port
    with jdbc.connected(elsewhere, port, user="anonymous", password="") as connection:
        yield connection


def bound(connection: Any, query: str, *binds: tuple[str, Any]) -> list[Any]:
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
        (OF_CITY + '"offset" > ?', [("setInt", 0)], ["c1", "c2"]),
        (OF_CITY + '"offset" > ?', [("setLong", 1)], ["c2"]),
        (OF_CITY + "city = ?", [("setString", "c1")], ["c1"]),
        (OF_CITY + 'city = ? and "offset" < ?', [("setString", "c1"), ("setLong", 2)], ["c1"]),
        (OF_CITY + '"offset" > ?', [("setNull", 4)], []),
        (OF_CITY + "true order by 1 limit ?", [("setInt", 2)], ["c0", "c1"]),
        (OF_CITY + "event_time < ?", [("setString", "2050-01-01T12:00:00Z")], []),
        (OF_CITY + "event_time <= ?", [("setString", "2050-01-01T12:00:00Z")], ["c0", "c1", "c2"]),
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
def test_rows_of_bound_values_are_those_of_the_query_with_the_values_in_it(
    there, query, binds, found
):
    assert bound(there, query, *binds) == found


def test_a_day_and_a_decimal_are_bound_as_they_are_in_any_zone(elsewhere, there):
    java = elsewhere.jvm.java
    day = ("setDate", java.sql.Date.valueOf("2030-01-01"))
    assert bound(there, "select cast(cast(? as date) as varchar) as x", day) == ["2030-01-01"]
    price = ("setBigDecimal", java.math.BigDecimal("12.50"))
    assert bound(there, "select cast(? as decimal(20, 2)) as x", price) == ["12.50"]


@pytest.mark.parametrize("query", [OF_CITY + "event_time < ?", "select cast(? as timestamp) as x"])
def test_a_timestamp_that_the_driver_would_move_is_refused_by_it(elsewhere, there, query):
    moment = ("setTimestamp", elsewhere.jvm.java.sql.Timestamp(1893456000123))
    with pytest.raises(Py4JJavaError, match="not yet supported for expected Arrow type Utf8"):
        bound(there, query, moment)


def test_a_number_without_a_type_asks_for_a_cast(there):
    with pytest.raises(Py4JJavaError, match="not yet supported for expected Arrow type Utf8"):
        bound(there, "select ? as x", ("setInt", 5))
    assert bound(there, "select cast(? as bigint) as x", ("setInt", 5)) == ["5"]


def test_a_statement_runs_again_with_other_values_in_any_zone(there):
    statement = there.prepareStatement(OF_CITY + "city = ?")
    for city in ("c2", "c0", "none"):
        statement.setString(1, city)
        assert len(rows(statement.executeQuery())) == (city != "none")
    statement.close()
