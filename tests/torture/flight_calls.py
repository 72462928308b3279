"""Hostile calls of Flight SQL: a table of them, each a function of a client and of randomness."""

from __future__ import annotations

import base64
import json
import random
import threading
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.flight as fl
from requests_made import QUERIES, SHAPES

from odf_protocol.flight_sql import written

TIMEOUT_S = 60.0
FAULTS = (fl.FlightInternalError, fl.FlightTimedOutError)
"""What says that the node crashed or was silent, unless it names a setting."""
SETTING = "ODF_NODE_"
Call = Callable[[fl.FlightClient, Any, random.Random], object]


def _text(rng: random.Random) -> bytes:
    length = rng.choice((50, 190, 5_000, 100_000))
    return SHAPES[rng.choice(list(SHAPES))](rng, length).encode()


def _info(name: str, *numbers: int) -> Call:
    """A call for a plan, of a command with a spoilt text in each of these fields."""

    def call(client: fl.FlightClient, options: Any, rng: random.Random) -> object:
        command = written(name, *((number, _text(rng)) for number in numbers))
        return client.get_flight_info(fl.FlightDescriptor.for_command(command), options)

    return call


def _query(client: fl.FlightClient, options: Any, rng: random.Random) -> object:
    query = rng.choice(QUERIES)("alice/rows")
    command = written("CommandStatementQuery", (1, query.encode()))
    info = client.get_flight_info(fl.FlightDescriptor.for_command(command), options)
    return client.do_get(info.endpoints[0].ticket, options).read_chunk()


def _tables(client: fl.FlightClient, options: Any, rng: random.Random) -> object:
    pattern = b"%" * rng.choice((10, 199, 5_000)) + b"!"
    command = written("CommandGetTables", (rng.choice((2, 3)), pattern))
    info = client.get_flight_info(fl.FlightDescriptor.for_command(command), options)
    return client.do_get(info.endpoints[0].ticket, options).read_all()


def _put(client: fl.FlightClient, options: Any, rng: random.Random) -> None:
    descriptor = fl.FlightDescriptor.for_command(_text(rng))
    writer, _ = client.do_put(descriptor, pa.schema([("a", pa.int64())]), options)
    with writer:
        writer.write_batch(pa.record_batch({"a": list(range(10_000))}))


def _bind(client: fl.FlightClient, options: Any, rng: random.Random) -> object:
    """Values of some types for a statement with parameters, or bytes instead of a handle."""
    handle = b'["select ?, $1",[],""]' if rng.random() < 0.8 else _text(rng)
    command = written("CommandPreparedStatementQuery", (1, handle))
    descriptor = fl.FlightDescriptor.for_command(command)
    column = rng.choice((pa.array([None]), pa.array([[[1]]]), pa.array([_text(rng)] * 3)))
    batch = pa.record_batch({f"c{n}": column for n in range(rng.choice((1, 2, 1_000)))})
    writer, answers = client.do_put(descriptor, batch.schema, options)
    with writer:
        writer.write_batch(batch)
        writer.done_writing()
        bound = answers.read()
    if bound is None:
        return None
    handle = bytes(bound)[bytes(bound).index(b"[") :]
    ticket = fl.Ticket(written("TicketStatementQuery", (1, handle)))
    return client.do_get(ticket, options).read_all()


def _handle(rng: random.Random) -> bytes:
    """A handle that this node did not make: of another dataset or block, deep, odd, long."""
    query = rng.choice(QUERIES)("alice/rows")
    pin = {"id": "did:odf:f" + "0" * 64, "alias": "a", "blockHash": "f1620" + "0" * 64}
    made: list[Any] = [
        [query, [pin]],
        [query, [pin] * 5_000],
        [query, [{**pin, "id": "a" * 50_000}]],
        [query, [], "A" * 100_000],
        [query, [], base64.b64encode(pa.schema([]).serialize().to_pybytes()).decode()],
        [query, [], None, *[1] * 10_000],
        ["\ud800", []],
        [rng.choice(["select 1", 1, None]), [rng.choice([{}, 1, []])]],
    ]
    deep = b'["select 1", [{"id": "a", "alias": "b", "x": ' + b"[" * 100_000
    return rng.choice([deep, *(json.dumps(each).encode() for each in made)])


def _forged(client: fl.FlightClient, options: Any, rng: random.Random) -> object:
    """A forged handle in each message that holds one."""
    name = rng.choice(("TicketStatementQuery", "CommandPreparedStatementQuery"))
    message = written(name, (1, _handle(rng)))
    if rng.random() < 0.5:
        return client.do_get(fl.Ticket(message), options).read_chunk()
    info = client.get_flight_info(fl.FlightDescriptor.for_command(message), options)
    return client.do_get(info.endpoints[0].ticket, options).read_chunk()


def _prepared(client: fl.FlightClient, options: Any, rng: random.Random) -> object:
    text = rng.choice((_text(rng), rng.choice(QUERIES)("alice/rows").encode()))
    name = rng.choice(("CreatePreparedStatement", "ClosePreparedStatement", "CloseSession"))
    message = written(f"Action{name}Request", (1, rng.choice((text, _handle(rng)))))
    return list(client.do_action(fl.Action(name, message), options))


def _many_fields(client: fl.FlightClient, options: Any, rng: random.Random) -> object:
    """Megabytes of numbers, packed or one by one, or of fields that mean nothing."""
    name = rng.choice(("CommandGetSqlInfo", "CommandGetTables", "CommandStatementQuery"))
    inner = rng.choice(((1, b"\xff\x07" * 1_500_000), (4, b""), (1, b"\xff" * 3_000_000)))
    message = rng.choice(
        (written(name, *[inner] * (1 if inner[1] else 900_000)), b"\x08\x01" * 10**6)
    )
    descriptor = fl.FlightDescriptor.for_command(message)
    ask = rng.choice((client.get_flight_info, client.get_schema))
    if rng.random() < 0.5:
        return client.do_get(fl.Ticket(message), options).read_chunk()
    return ask(descriptor, options)


def _crumbs(client: fl.FlightClient, options: Any, rng: random.Random) -> object:
    """Headers of no use, beside a call that is right."""
    token = (b"authorization", b"Bearer " + b"a." * 2_000)
    headers = rng.choice(
        (
            [(b"cookie", b"a=1; " * 1_000)],
            [(f"x-{n}".encode(), b"1") for n in range(200)],
            [token, (b"authorization", b"Basic " + b"=" * 3_000)],
            [(b"times", b"text" * 1_000), (b"user-agent", b"grpc-java" * 300)],
            [(b"traceparent", b"00-" + b"f" * 5_000)],
        )
    )
    told = fl.FlightCallOptions(timeout=TIMEOUT_S, headers=headers)
    command = written(rng.choice(("CommandGetTables", "CommandGetSqlInfo", "CommandGetCatalogs")))
    return client.get_flight_info(fl.FlightDescriptor.for_command(command), told)


def _exchanged(client: fl.FlightClient, options: Any, rng: random.Random) -> object:
    writer, reader = client.do_exchange(fl.FlightDescriptor.for_command(_text(rng)), options)
    with writer:
        writer.begin(pa.schema([("a", pa.int64())]))
        writer.write_batch(pa.record_batch({"a": [1] * 10_000}))
        writer.done_writing()
        return reader.read_all()


CALLS: dict[str, Call] = {
    "handle": _forged,
    "prepared": _prepared,
    "many fields": _many_fields,
    "headers": _crumbs,
    "exchange": _exchanged,
    "bind": _bind,
    "query": _query,
    "tables": _tables,
    "plan of a statement": _info("CommandStatementQuery", 1),
    "plan of tables": _info("CommandGetTables", 1, 2, 3),
    "plan of keys": _info("CommandGetPrimaryKeys", 1, 2, 3),
    "path": lambda client, options, rng: client.get_flight_info(
        fl.FlightDescriptor.for_path(*[_text(rng)] * rng.choice((1, 1_000))), options
    ),
    "ticket": lambda client, options, rng: client.do_get(fl.Ticket(_text(rng)), options).read_all(),
    "action": lambda client, options, rng: list(
        client.do_action(fl.Action(_text(rng).decode()[:1000], _text(rng)), options)
    ),
    "put": _put,
    "list": lambda client, options, rng: list(client.list_flights(_text(rng), options)),
}


def call_all(port: int, tokens: list[str | None], count: int, seed: int, at_once: int) -> list[str]:
    """Make so many calls; return what went wrong."""
    wrong: list[str] = []
    draws = random.Random(seed)
    waiting = [
        (draws.choice(list(CALLS)), draws.choice(tokens), draws.random()) for _ in range(count)
    ]

    def work() -> None:
        with fl.connect(f"grpc://127.0.0.1:{port}") as client:
            while waiting:
                name, token, number = waiting.pop()
                headers = [(b"authorization", f"Bearer {token}".encode())] if token else []
                options = fl.FlightCallOptions(timeout=TIMEOUT_S, headers=headers)
                try:
                    CALLS[name](client, options, random.Random(number))
                except FAULTS as error:
                    if SETTING not in str(error):
                        wrong.append(f"{name}: {str(error)[:300]}")
                except (pa.ArrowException, StopIteration):  # it is refused
                    pass

    threads = [threading.Thread(target=work) for _ in range(at_once)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    return wrong
