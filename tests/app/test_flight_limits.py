"""Flight SQL under load: long answers, slow and leaving clients, too many calls, the end."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.flight as fl
import pytest
from processes import with_work
from servers import wait_until
from service import SCHEMA, Chain, Service, described, seeded, serving

from odf_protocol.flight_sql import written
from odf_protocol.identity import DatasetRef
from odf_protocol.metadata.events import SetDataSchema
from odf_protocol.metadata.schema import DataField, DataSchema, DataTypeInt32
from odf_storage.stores.ports.values import ObjectKey

ENDLESS = "select count(*) from generate_series(1, 1000000000000)"
LONG = "select value, repeat('x', 1000) as x from generate_series(1, 20000)"
HELD = "select value, repeat('x', 8000) as x from generate_series(1, 30000)"
"""More than what lies between a client that takes nothing and the node, on a busy machine as well,
where gRPC makes its windows larger."""
ANONYMOUS = fl.FlightCallOptions(headers=[(b"authorization", b"Basic YW5vbnltb3VzOg")])


@pytest.fixture(scope="module")
def city() -> Chain:
    return seeded().add(described(), SetDataSchema(schema=SCHEMA)).add_rows(3)


@pytest.fixture(scope="module")
def service(tmp_path_factory: Any, city: Chain) -> Iterator[Service]:
    limits = {
        "flight_port": 0,
        "flight_batch_bytes": 1 << 20,
        "flight_calls": 8,
        "share": 0.25,
        "client_idle_s": 5.0,
        "query_time_s": 600,  # so it is not what ends a query below
        "query_max_rows": 30_000,
        "query_max_bytes": 1 << 28,
    }
    with serving(tmp_path_factory.mktemp("flight") / "node", **limits) as service:
        service.keep(city, "kamu/city")
        yield service


@pytest.fixture
def client(service: Service) -> Iterator[fl.FlightClient]:
    with fl.connect(f"grpc://127.0.0.1:{service.node.flight.port}") as client:
        yield client


def ticket(client: fl.FlightClient, query: str) -> fl.Ticket:
    command = written("CommandStatementQuery", (1, query.encode()))
    info = client.get_flight_info(fl.FlightDescriptor.for_command(command), ANONYMOUS)
    return info.endpoints[0].ticket


def children(service: Service) -> list[int]:
    return with_work(service.node.queries.nursery.pid)


def wait_for_no_child(service: Service) -> None:
    wait_until(lambda: not children(service) and not scratch(service), "the end of the query")


def scratch(service: Service) -> list[Path]:
    return list((service.node.settings.data / "queries").glob("*/*"))


def test_long_answers_come_in_batches_that_fit_a_message(client):
    sizes = [chunk.data.nbytes for chunk in client.do_get(ticket(client, LONG), ANONYMOUS)]
    assert len(sizes) > 10
    assert max(sizes) <= 1 << 20


def test_a_row_that_fits_no_message_ends_the_answer_with_the_reason(client, service):
    query = "select repeat('x', 2000000) as x"
    with pytest.raises(pa.ArrowInvalid, match="1048576"):
        client.do_get(ticket(client, query), ANONYMOUS).read_all()
    wait_for_no_child(service)


def test_an_answer_with_too_many_rows_is_never_shortened_silently(client):
    query = "select value from generate_series(1, {})"
    whole = client.do_get(ticket(client, query.format(30_000)), ANONYMOUS).read_all()
    assert whole.num_rows == 30_000
    with pytest.raises(pa.ArrowInvalid, match="ODF_NODE_QUERY_MAX_ROWS"):
        client.do_get(ticket(client, query.format(30_001)), ANONYMOUS).read_all()


def test_a_client_that_cancels_before_the_first_row_ends_the_process(client, service):
    asked = ticket(client, ENDLESS)
    basic = (b"authorization", b"Basic YW5vbnltb3VzOg")
    hasty = fl.FlightCallOptions(headers=[basic], timeout=1.5)
    wait_for_no_child(service)
    with pytest.raises(fl.FlightTimedOutError):
        client.do_get(asked, hasty).read_all()
    wait_for_no_child(service)


def test_a_client_that_cancels_between_rows_ends_the_process(client, service):
    reader = client.do_get(ticket(client, HELD), ANONYMOUS)
    reader.read_chunk()
    assert children(service)
    reader.cancel()
    wait_for_no_child(service)


def test_the_process_of_a_client_that_takes_no_rows_is_ended(client, service):
    reader = client.do_get(ticket(client, HELD), ANONYMOUS)
    reader.read_chunk()
    assert children(service)
    wait_for_no_child(service)
    with pytest.raises(pa.ArrowInvalid, match="ODF_NODE_CLIENT_IDLE_S"):
        reader.read_all()


def test_a_caller_has_a_share_of_calls(client):
    some = [client.do_get(ticket(client, HELD), ANONYMOUS) for _ in range(2)]
    with pytest.raises(fl.FlightUnavailableError, match="ODF_NODE_SHARE"):
        ticket(client, "select 1")
    for reader in some:
        reader.cancel()
    wait_until(lambda: is_answered(client), "the share")


def test_clients_that_take_no_list_of_tables_give_back_their_share(tmp_path):
    more = [DataField(name=f"{'long' * 50}{n}", type=DataTypeInt32()) for n in range(2_000)]
    wide = SetDataSchema(schema=DataSchema(fields=(*SCHEMA.fields, *more)))
    limits = {"flight_port": 0, "flight_calls": 8, "share": 0.25, "client_idle_s": 5.0}
    with serving(tmp_path / "node", **limits) as service:
        for number in range(20):  # more than the buffers between the two hold
            service.keep(seeded().add(described(), wide), f"kamu/wide-{number}")
        with fl.connect(f"grpc://127.0.0.1:{service.node.flight.port}") as client:
            command = any_of("CommandGetTables", b"\x28\x01")  # include_schema
            lists = [client.do_get(fl.Ticket(command), ANONYMOUS) for _ in range(2)]
            with pytest.raises(fl.FlightUnavailableError, match="ODF_NODE_SHARE"):
                ticket(client, "select 1")
            wait_until(lambda: is_answered(client), "the share")
            for each in lists:
                each.cancel()


def test_a_client_that_binds_values_without_an_end_gives_back_its_share(client):
    bind = fl.FlightDescriptor.for_command(
        any_of("CommandPreparedStatementQuery", b'\n\x09["q?",[]]')
    )
    writers: list[Any] = []

    def take_the_share() -> bool:
        """On a busy machine the calls may be over before the node is asked: then two more."""
        columns = pa.schema([("a", pa.int64())])
        writers.extend(client.do_put(bind, columns, ANONYMOUS) for _ in range(2))
        return not is_answered(client)

    wait_until(take_the_share, "two calls that take all of the share")
    wait_until(lambda: is_answered(client), "the share")
    for writer, _ in writers:
        with pytest.raises((pa.ArrowException, fl.FlightError)):
            writer.close()


def any_of(name: str, value: bytes) -> bytes:
    url = f"type.googleapis.com/arrow.flight.protocol.sql.{name}".encode()
    return bytes([0x0A, len(url)]) + url + bytes([0x12, len(value)]) + value


def is_answered(client: fl.FlightClient) -> bool:
    try:
        return bool(ticket(client, "select 1"))
    except fl.FlightUnavailableError:
        return False


def test_a_planned_statement_gives_the_rows_of_its_plan_also_after_new_ones(client, service, city):
    wait_for_no_child(service)
    planned = ticket(client, 'select count(*) as n from "kamu/city"')
    before = city.head
    city.add_rows(4)
    for (kind, name), content in city.objects.items():
        service.node.stores.objects.put(ObjectKey(city.id, kind, name), [content])
    dataset = service.node.stores.dataset(DatasetRef(id=city.id))
    dataset.commit([city.blocks[-1]], expected=before)
    assert client.do_get(planned, ANONYMOUS).read_all()["n"].to_pylist() == [3]
    newer = ticket(client, 'select count(*) as n from "kamu/city"')
    assert client.do_get(newer, ANONYMOUS).read_all()["n"].to_pylist() == [7]


def test_calls_that_are_under_way_end_with_the_service(tmp_path):
    failed: list[Exception] = []

    def ask(port: int) -> None:
        with fl.connect(f"grpc://127.0.0.1:{port}") as client:
            try:
                client.do_get(ticket(client, ENDLESS), ANONYMOUS).read_all()
            except fl.FlightError as error:
                failed.append(error)

    with serving(tmp_path / "node", flight_port=0, query_time_s=600) as service:
        thread = threading.Thread(target=ask, args=(service.node.flight.port,))
        thread.start()
        wait_until(lambda: children(service), "the query")
        began = time.monotonic()
    thread.join(100)
    assert time.monotonic() - began < 100
    assert isinstance(failed[0], fl.FlightUnavailableError)
