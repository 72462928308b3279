"""Flight SQL as real clients speak it: the ADBC driver, and the client of the reference node."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import adbc_driver_flightsql.dbapi as adbc
import kamu
import pyarrow as pa
import pyarrow.flight as fl
import pytest
from adbc_driver_flightsql import DatabaseOptions
from adbc_driver_manager import AdbcStatusCode
from refusals import refusing
from servers import wait_until
from service import SCHEMA, Service, described, seeded, serving

from odf_node.service.flight.server import sql_info
from odf_node.service.settings import Settings
from odf_node.service.wiring import open_node
from odf_protocol.flight_sql import written
from odf_protocol.metadata.events import SetDataSchema
from odf_storage.stores.ports.accounts import AuditFilter
from odf_storage.stores.ports.values import Visibility

CITIES = 'select city from "kamu/city" order by city'


@pytest.fixture(scope="module")
def service(tmp_path_factory: Any) -> Iterator[Service]:
    folder = tmp_path_factory.mktemp("flight") / "node"
    with serving(folder, flight_port=0, tenancy="multi", turn_wait_s=60) as service:
        chain = seeded().add(described(), SetDataSchema(schema=SCHEMA)).add_rows(3)
        service.keep(chain, "kamu/city", Visibility.PUBLIC)
        secret = seeded().add(described(), SetDataSchema(schema=SCHEMA)).add_rows(2)
        service.keep(secret, "kamu/secret", Visibility.PRIVATE)
        yield service


def url(service: Service) -> str:
    return f"grpc://127.0.0.1:{service.node.flight.port}"


def connected(service: Service, token: str | None = None) -> Any:
    if token is None:
        more = {"username": "anonymous", "password": ""}
    else:
        more = {DatabaseOptions.AUTHORIZATION_HEADER.value: f"Bearer {token}"}
    return adbc.connect(url(service), more, autocommit=True)


def rows(service: Service, query: str, token: str | None = None) -> list[Any]:
    with connected(service, token) as connection, connection.cursor() as cursor:
        cursor.execute(query)
        return list(cursor.fetchall())


@pytest.mark.scenario("U03")
def test_a_caller_without_an_account_reads_what_is_public(service):
    assert rows(service, CITIES) == [("c0",), ("c1",), ("c2",)]


@pytest.mark.scenario("U04")
def test_a_bearer_reads_what_its_account_may_read(service):
    token = service.token()
    assert rows(service, 'select count(*) from "kamu/secret"', token) == [(2,)]


@pytest.mark.scenario("U06")
def test_the_client_of_the_reference_node_works_without_and_with_a_token(service):
    for more in ({}, {"token": service.token()}):
        with kamu.connect(url(service), **more) as connection:
            assert connection.query("select 1 as x")["x"].tolist() == [1]
            assert connection.query(CITIES)["city"].tolist() == ["c0", "c1", "c2"]


@pytest.mark.scenario("U02")
def test_an_unknown_token_is_unauthenticated(service):
    with pytest.raises(adbc.Error, match="Authentication token invalid") as refused:
        rows(service, CITIES, "ka_nonsense")
    assert refused.value.status_code is AdbcStatusCode.UNAUTHENTICATED


@pytest.mark.scenario("U01")
def test_names_and_passwords_of_accounts_are_no_credentials(service):
    credentials = {"username": "kamu", "password": "hunter2"}
    with pytest.raises(adbc.Error, match="Basic auth is only supported") as refused:
        adbc.connect(url(service), credentials, autocommit=True)
    assert refused.value.status_code is AdbcStatusCode.UNAUTHENTICATED


class Silent(fl.ClientAuthHandler):
    """A handshake of headers alone."""

    def authenticate(self, outgoing: Any, incoming: Any) -> None:
        pass

    def get_token(self) -> bytes:
        return b""


def shaken(service: Service, authorization: bytes | None) -> None:
    headers = [] if authorization is None else [(b"authorization", authorization)]
    with fl.connect(url(service)) as client:
        client.authenticate(Silent(), fl.FlightCallOptions(headers=headers))


@pytest.mark.scenario("U05")
@pytest.mark.parametrize(
    "credentials", [b"YW5vbnltb3VzOg", b"YW5vbnltb3VzOg==", b"YW5vbnltb3VzOmFub255bW91cw"]
)
def test_a_handshake_takes_base64_with_and_without_padding(service, credentials):
    shaken(service, b"Basic " + credentials)


def test_a_handshake_takes_a_token_as_the_jdbc_driver_sends_it(service):
    shaken(service, b"Bearer " + service.token().encode())


@pytest.mark.parametrize(
    "authorization",
    [None, b"Basic", b"Basic !", b"Basic YQ", b"Basic /w==", b"Bearer ka_1", b"Digest x"],
)
def test_a_handshake_without_credentials_is_refused(service, authorization):
    with pytest.raises((fl.FlightError, pa.ArrowInvalid)) as refused:
        shaken(service, authorization)
    assert "Traceback" not in str(refused.value)


def test_what_older_clients_send_gives_no_account(service):
    more = {"username": "kamu", "password": "kamu"}
    with (
        adbc.connect(url(service), more, autocommit=True) as connection,
        connection.cursor() as cursor,
        pytest.raises(adbc.Error, match="kamu/secret"),
    ):
        cursor.execute('select * from "kamu/secret"')


@pytest.mark.scenario("U07")
def test_facts_of_the_server_have_the_type_that_drivers_need(service):
    with connected(service) as connection:
        info = connection.adbc_get_info()
    assert info["vendor_name"] == "ODF Node"
    assert info["vendor_arrow_version"] == "1.3"
    batch = sql_info([8, 3, 99], "1")
    assert batch.schema.field("value").type == pa.dense_union(
        [
            pa.field("string_value", pa.utf8()),
            pa.field("bool_value", pa.bool_()),
            pa.field("bigint_value", pa.int64()),
            pa.field("int32_bitmask", pa.int32()),
            pa.field("string_list", pa.list_(pa.field("string_data", pa.utf8()))),
            pa.field(
                "int32_to_int32_list_map",
                pa.map_(pa.int32(), pa.list_(pa.field("$data$", pa.int32()))),
            ),
        ]
    )
    assert batch.to_pydict() == {"info_name": [3, 8], "value": [True, 0]}


def listed(service: Service, token: str | None = None) -> dict[str, list[str]]:
    """Columns by table."""
    with connected(service, token) as connection:
        objects = connection.adbc_get_objects(depth="all").read_all().to_pylist()
    (catalog,) = objects
    assert catalog["catalog_name"] == "kamu"
    (schema,) = catalog["catalog_db_schemas"]
    assert schema["db_schema_name"] == "kamu"
    return {
        table["table_name"]: [column["column_name"] for column in table["table_columns"]]
        for table in schema["db_schema_tables"]
    }


def test_a_private_dataset_is_a_table_for_those_alone_who_may_read_it(service):
    columns = [field.name for field in SCHEMA.fields]
    assert listed(service) == {"kamu/city": columns}
    assert listed(service, service.token("other")) == {"kamu/city": columns}
    assert listed(service, service.token()) == {"kamu/city": columns, "kamu/secret": columns}


def test_a_private_dataset_is_as_unknown_as_none(service):
    told = []
    for name in ("kamu/secret", "kamu/absent"):
        with pytest.raises(adbc.Error) as refused:
            rows(service, f'select * from "{name}"')
        told.append(str(refused.value).replace(name, "NAME"))
        assert refused.value.status_code is AdbcStatusCode.INVALID_ARGUMENT
    assert told[0] == told[1]


def test_types_and_schemas_of_tables_are_told(service):
    with connected(service) as connection:
        assert connection.adbc_get_table_types() == ["TABLE"]
        assert connection.adbc_get_table_schema("kamu/city").names == [
            field.name for field in SCHEMA.fields
        ]
        with pytest.raises(adbc.Error):
            connection.adbc_get_table_schema("kamu/secret")


@pytest.mark.parametrize(
    "query",
    [
        "select nope",
        "create table x (a int)",
        "select * from '/etc/passwd'",
        "selec 1",
        "select 1 / 0",
        "select * from read_csv('x')",
    ],
)
def test_a_query_that_is_refused_is_an_invalid_argument_with_the_words_of_http(service, query):
    with pytest.raises(adbc.Error) as refused:
        rows(service, query)
    assert refused.value.status_code is AdbcStatusCode.INVALID_ARGUMENT
    text = str(refused.value)
    with service.http() as client:
        assert client.post("/query", json={"query": query}).json()["detail"] in text
    assert "Traceback" not in text
    assert ".py" not in text
    assert str(service.node.settings.data) not in text


def test_updates_are_refused_and_the_connection_goes_on(service):
    with connected(service) as connection, connection.cursor() as cursor:
        with pytest.raises(adbc.Error, match="nothing is written") as refused:
            cursor.adbc_ingest("x", pa.table({"a": [1]}))
        assert refused.value.status_code is AdbcStatusCode.NOT_IMPLEMENTED
        cursor.execute("select 2")
        assert cursor.fetchall() == [(2,)]


@pytest.mark.parametrize("name", ["CommandGetXdbcTypeInfo", "CommandStatementUpdate", "X"])
def test_commands_that_are_not_served_are_refused_by_name(service, name):
    headers = [(b"authorization", b"Bearer " + service.token().encode())]
    command = fl.FlightDescriptor.for_command(written(name))
    with (
        fl.connect(url(service)) as client,
        pytest.raises(pa.ArrowNotImplementedError, match=name) as refused,
    ):
        client.get_flight_info(command, fl.FlightCallOptions(headers=headers))
    assert "Traceback" not in str(refused.value)


def test_a_call_without_a_header_is_unauthenticated(service):
    with fl.connect(url(service)) as client, pytest.raises(fl.FlightUnauthenticatedError):
        list(client.do_action(fl.Action("CloseSession", b"")))


def test_a_ticket_that_no_node_gave_is_refused(service):
    options = fl.FlightCallOptions(headers=[(b"authorization", b"Basic YW5vbnltb3VzOg")])
    with fl.connect(url(service)) as client:
        for raw in (b"", b"\xff", written("TicketStatementQuery", (1, b"[1]"))):
            with pytest.raises(pa.ArrowInvalid, match=r"no message|no end|no handle"):
                client.do_get(fl.Ticket(raw), options).read_all()


def test_types_of_columns_are_those_of_the_answer_over_http(service):
    query = "select *, 1.5 as d, date '2020-01-01' as day from \"kamu/city\""
    with connected(service) as connection, connection.cursor() as cursor:
        cursor.execute(query)
        found = cursor.fetch_arrow_table()
    with service.http() as client:
        answer = client.get("/query", params={"query": query, "format": "arrow"})
    expected = pa.ipc.open_stream(answer.content).read_all()
    assert found.equals(expected)
    assert found.schema.equals(expected.schema)


def test_a_caller_gets_times_as_texts_if_it_asks(service):
    header = f"{DatabaseOptions.RPC_CALL_HEADER_PREFIX.value}times"
    query = 'select system_time, "offset" from "kamu/city" limit 1'
    noon = datetime(2050, 1, 1, 12, tzinfo=UTC)
    for times, shown in (("text", "2050-01-01 12:00:00.000Z"), (None, noon)):
        more = {"username": "anonymous", "password": ""} | ({header: times} if times else {})
        with adbc.connect(url(service), more, autocommit=True) as db, db.cursor() as cursor:
            cursor.execute(query)
            assert cursor.fetchall() == [(shown, 0)]
    more = {"username": "anonymous", "password": "", header: "txt"}
    with adbc.connect(url(service), more, autocommit=True) as db, db.cursor() as cursor:
        with pytest.raises(adbc.Error, match="write times=text") as refused:
            cursor.execute(query)
        assert refused.value.status_code is AdbcStatusCode.INVALID_ARGUMENT


def test_calls_are_counted_and_asking_for_rows_is_a_deed(service):
    counters = service.node.counters
    before = counters.answered("FLIGHT", "DoGet", 200).count
    rows(service, CITIES, service.token("watched"))
    with pytest.raises(adbc.Error):
        rows(service, "select nope", service.token("watched"))
    assert counters.answered("FLIGHT", "DoGet", 200).count > before
    assert counters.answered("FLIGHT", "DoAction", 400).count
    assert ("FLIGHT", "DoGet") in counters.durations
    log, watched = service.node.stores.audit, AuditFilter(actor="watched")
    wait_until(lambda: bool(log.page(watched, limit=1)), "the deed")
    found = log.page(watched, limit=100)
    assert {each.action for each in found} == {"FLIGHT DoGet"}
    assert {(each.outcome, each.address) for each in found} == {("200", "127.0.0.1")}


def test_a_message_that_is_too_long_is_refused(service):
    long = "select '" + "x" * (5 << 20) + "'"
    with pytest.raises(adbc.Error) as refused:
        rows(service, long)
    assert "larger than max" in str(refused.value)
    assert rows(service, "select 1") == [(1,)]


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: Any) -> tuple[Path, Path]:
    """A key and a certificate of its own for 127.0.0.1."""
    folder = tmp_path_factory.mktemp("tls")
    key, certificate = folder / "key.pem", folder / "certificate.pem"
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"]
    command += ["-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1"]
    command += ["-keyout", str(key), "-out", str(certificate)]
    subprocess.run(command, check=True, capture_output=True)
    return key, certificate


def test_with_certificates_the_port_speaks_tls_alone(tmp_path, certificates):
    key, certificate = certificates
    given = {"flight_tls_key": key, "flight_tls_certificates": certificate}
    with serving(tmp_path / "node", flight_port=0, **given) as service:
        port = service.node.flight.port
        options = {
            "username": "anonymous",
            "password": "",
            DatabaseOptions.TLS_ROOT_CERTS.value: certificate.read_text(),
        }
        with (
            adbc.connect(f"grpc+tls://127.0.0.1:{port}", options, autocommit=True) as connection,
            connection.cursor() as cursor,
        ):
            cursor.execute("select 1")
            assert cursor.fetchall() == [(1,)]
        with pytest.raises(adbc.Error):
            rows(service, "select 1")


@pytest.mark.parametrize("missing", ["flight_tls_key", "flight_tls_certificates"])
def test_half_of_what_tls_takes_is_refused_at_the_start(tmp_path, certificates, missing):
    names = ("flight_tls_key", "flight_tls_certificates")
    given = {name: file for name, file in zip(names, certificates, strict=True) if name != missing}
    node = open_node(Settings(data=tmp_path, flight_port=0, **given))

    async def start() -> None:
        node.flight.start()

    with refusing("FlightCertificatesUnusable", match="both"):
        asyncio.run(start())
    node.stores.close()
