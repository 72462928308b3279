"""Dispatch of the commands of Flight SQL, in the threads of calls.

The facts of the node for CommandGetSqlInfo. Drivers require exactly this type of the union.

The JDBC driver answers most of its `DatabaseMetaData` from them, and fails where one is missing, so
all of them are here. Source: Arrow Flight SQL, `SqlInfo`.

The gRPC server, which runs each call in a thread and passes it to `FlightSql`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus
from itertools import chain
from typing import Any

import grpc
import pyarrow as pa
from msgspec.structs import replace

from odf_protocol import flight_sql as wire
from odf_protocol.errors import NodeFault
from odf_protocol.flight_sql import SERVICE, FlightCommand, read_command, written
from odf_storage.runtime.extras import app_version

from ..auth.actors import Actor
from ..limits.shares import Slots
from ..limits.texts import TextLimit
from . import tables
from .bridge import HEADER, Bridge, CallersOfFlight, Ended, ObservedCall, told
from .calls import Call, call_of, headers_of
from .fetching import Fetching, Plan, Statement, read_handle

_KINDS: list[tuple[str, pa.DataType]] = [
    ("string_value", pa.utf8()),
    ("bool_value", pa.bool_()),
    ("bigint_value", pa.int64()),
    ("int32_bitmask", pa.int32()),
    ("string_list", pa.list_(pa.field("string_data", pa.utf8()))),
    ("int32_to_int32_list_map", pa.map_(pa.int32(), pa.list_(pa.field("$data$", pa.int32())))),
]
_TEXT, _FLAG, _NUMBER, _BITS, _TEXTS, _MAP = range(6)
SCHEMA = pa.schema(
    [
        pa.field("info_name", pa.uint32(), nullable=False),
        pa.field("value", pa.dense_union([pa.field(name, kind) for name, kind in _KINDS])),
    ]
)
_AS_WRITTEN = 1
_NULLS_LAST_ASCENDING = 0
NUMERIC = """abs acos asin atan atan2 ceil cos cot degrees exp floor ln log10 log2 pi power radians
round signum sin sqrt tan trunc"""
TEXTS = """ascii btrim char_length chr concat left length lower lpad ltrim octet_length repeat
replace reverse right rpad rtrim split_part strpos substr trim upper"""
TIMES = "date_part date_trunc to_timestamp"
SYSTEM = "coalesce nullif"
KEYWORDS = "ilike limit qualify unnest"
"""Words of the dialect that are none of the SQL standard of 2003."""
_FACTS: dict[int, tuple[int, Any]] = {
    0: (_TEXT, "ODF Node"),
    2: (_TEXT, "1.3"),
    3: (_FLAG, True),  # read-only
    4: (_FLAG, True),  # SQL
    5: (_FLAG, False),  # Substrait
    6: (_TEXT, ""),
    7: (_TEXT, ""),
    8: (_BITS, 0),  # transactions: none
    9: (_FLAG, False),  # cancellation by a call of its own
    10: (_FLAG, False),  # ingestion
    11: (_FLAG, False),
    100: (_NUMBER, 0),  # time limit of statements that a client may change: none
    101: (_NUMBER, 0),
    500: (_FLAG, False),  # CREATE CATALOG, SCHEMA, TABLE
    501: (_FLAG, False),
    502: (_FLAG, False),
    503: (_NUMBER, _AS_WRITTEN),  # names without quotes
    504: (_TEXT, '"'),
    505: (_NUMBER, _AS_WRITTEN),  # names in quotes
    506: (_FLAG, True),  # all tables that are listed can be read
    507: (_NUMBER, _NULLS_LAST_ASCENDING),
    508: (_TEXTS, KEYWORDS.upper().split()),
    509: (_TEXTS, NUMERIC.upper().split()),
    510: (_TEXTS, TEXTS.upper().split()),
    511: (_TEXTS, SYSTEM.upper().split()),
    512: (_TEXTS, TIMES.upper().split()),
    513: (_TEXT, "\\"),  # escape in patterns
    514: (_TEXT, ""),  # more characters in names without quotes
    515: (_FLAG, True),  # aliases of columns
    516: (_FLAG, True),  # null + 1 is null
    517: (_MAP, []),  # the function CONVERT of JDBC: none, CAST is to be written
    518: (_FLAG, True),  # aliases of tables, of any name
    519: (_FLAG, False),
    520: (_FLAG, True),  # ORDER BY an expression, or what is not selected
    521: (_FLAG, True),
    522: (_BITS, 0b11),  # GROUP BY what is not selected, and more than that
    523: (_FLAG, True),  # LIKE … ESCAPE
    524: (_FLAG, True),  # columns without nulls
    525: (_BITS, 0b111),  # grammar of ODBC: minimum, core, extended
    526: (_BITS, 0b1),  # SQL 92: entry
    527: (_FLAG, False),  # constraints
    528: (_BITS, 0b110),  # outer joins: limited, full
    529: (_TEXT, "schema"),
    530: (_TEXT, "procedure"),
    531: (_TEXT, "catalog"),
    532: (_FLAG, True),  # the catalogue begins a name
    533: (_BITS, 0),  # schemas in calls, definitions of indexes and rights
    534: (_BITS, 0),
    535: (_BITS, 0),  # DELETE and UPDATE at a cursor
    536: (_FLAG, False),  # SELECT FOR UPDATE
    537: (_FLAG, False),  # stored procedures
    538: (_BITS, 0b0111),  # subqueries: compared, EXISTS, IN; but no ANY and ALL
    539: (_FLAG, True),  # correlated ones
    540: (_BITS, 0b11),  # UNION, UNION ALL
    **dict.fromkeys(range(541, 556), (_NUMBER, 0)),  # lengths and counts: no limit known
    556: (_FLAG, True),  # a row is as long as all of its values
    **dict.fromkeys(range(557, 562), (_NUMBER, 0)),
    562: (_NUMBER, 0),  # isolation of transactions: none
    563: (_FLAG, False),
    564: (_BITS, 0b1),
    565: (_FLAG, False),
    566: (_FLAG, False),
    567: (_BITS, 0b10),  # results are read forwards
    568: (_BITS, 0),
    569: (_BITS, 0b10),  # and not changed
    570: (_BITS, 0),
    571: (_BITS, 0),
    572: (_FLAG, False),  # batches of updates
    573: (_FLAG, False),  # savepoints
    574: (_FLAG, False),  # parameters by name
    575: (_FLAG, False),
    576: (_FLAG, False),  # stored functions
}
"""Kind and value of a fact by its number; that of the version of the node is missing."""


def sql_info(asked: Sequence[int], version: str) -> pa.RecordBatch:
    """Return the requested facts that the node knows, or all facts if `asked` is empty."""
    facts = {**_FACTS, 1: (_TEXT, version)}
    wanted = frozenset(asked)
    names = [name for name in sorted(facts) if not wanted or name in wanted]
    children = [
        pa.array([facts[name][1] for name in names if facts[name][0] == kind], of)
        for kind, (_, of) in enumerate(_KINDS)
    ]
    kinds = [facts[name][0] for name in names]
    offsets = [kinds[:at].count(kind) for at, kind in enumerate(kinds)]
    values = pa.UnionArray.from_dense(
        pa.array(kinds, pa.int8()),
        pa.array(offsets, pa.int32()),
        children,
        [name for name, _ in _KINDS],
    )
    numbers = pa.array(names, pa.uint32())
    return pa.RecordBatch.from_arrays([numbers, values], schema=SCHEMA)


CREATE, CLOSE, CLOSE_SESSION = "CreatePreparedStatement", "ClosePreparedStatement", "CloseSession"
BIND = "CommandPreparedStatementQuery"


@dataclass(frozen=True)
class FlightSql:
    """Serves calls. Requests and responses are in their encoded form."""

    fetching: Fetching
    tables: tables.FlightTables
    values_limit: TextLimit
    """The limit of the values of a prepared statement, as they are sent."""

    def get_flight_info(self, call: Call, descriptor: bytes) -> bytes:
        schema, ticket = self._asked(call, descriptor)
        return wire.flight_info(schema, descriptor, ticket)

    def get_schema(self, call: Call, descriptor: bytes) -> bytes:
        schema, _ = self._asked(call, descriptor)
        return wire.schema_result(schema)

    def do_get(self, call: Call, ticket: bytes) -> Iterator[bytes]:
        command = read_command(wire.ticket_of(ticket))
        if command.name == "TicketStatementQuery":
            schema, rows = self.fetching.rows(call, read_handle(command.handle()))
        else:
            schema, rows = self._listed(call, command)
        yield _data(schema.serialize())
        for batch in rows:
            yield _data(batch.serialize())

    def do_action(self, call: Call, action: bytes) -> Iterator[bytes]:
        kind, body = wire.action_of(action)
        if kind == CREATE:
            with call.counted():
                yield wire.result(self._created(call, read_command(body)))
        elif kind not in (CLOSE, CLOSE_SESSION):  # these need no work, since nothing is stored
            raise NodeFault(
                "NotServedByFlight", f"the action {kind[:50]!r} is none that this node has"
            )

    def list_actions(self, _call: Call, _empty: bytes) -> Iterator[bytes]:
        yield wire.action_type(CREATE, "Plan a query; its handle holds all there is of it.")
        yield wire.action_type(CLOSE, "Nothing: no statement is kept.")
        yield wire.action_type(CLOSE_SESSION, "Nothing: no session is kept.")

    def list_flights(self, _call: Call, _criteria: bytes) -> Iterator[bytes]:
        raise NodeFault(
            "NotServedByFlight", "this node lists its tables by commands of Flight SQL alone"
        )

    def do_put(self, call: Call, sent: Iterator[bytes]) -> Iterator[bytes]:
        """Bind values to a prepared statement, and answer with a handle that has them."""
        first = next(sent, b"")
        command = read_command(wire.command_of(wire.descriptor_of(first)))
        if command.name != BIND:
            raise NodeFault("NotServedByFlight", "nothing is written by Flight SQL")
        statement = read_handle(command.handle())
        with call.counted(), self.fetching.in_time(call):
            values = self._values(first, sent)
        yield wire.put_result(wire.bound_result(replace(statement, values=values).handle))

    def _values(self, first: bytes, sent: Iterator[bytes]) -> bytes:
        """Return the messages of a client as an Arrow stream; the process of the query reads it.
        Raises `TextTooLong`."""
        stream = bytearray()
        for message in chain([first], sent):
            stream += wire.stream_part(message)
            self.values_limit.check_size(len(stream))
        return bytes(stream) + wire.STREAM_END

    def do_exchange(self, _call: Call, _first: Iterator[bytes]) -> Iterator[bytes]:
        raise NodeFault("NotServedByFlight", "nothing is written by Flight SQL")

    def _asked(self, call: Call, descriptor: bytes) -> tuple[bytes, bytes]:
        raw = wire.command_of(descriptor)
        command = read_command(raw)
        with call.counted():
            schema, ticket = self._described(call, command, raw)
        return b"" if schema is None else schema.serialize().to_pybytes(), ticket

    def _created(self, call: Call, command: FlightCommand) -> bytes:
        plan = self._planned(call, command, b"")
        parts = [(1, plan.statement.handle), (2, plan.columns.serialize().to_pybytes())]
        if plan.parameters is not None:
            parts.append((3, plan.parameters.serialize().to_pybytes()))
        return written("ActionCreatePreparedStatementResult", *parts)

    def _planned(self, call: Call, command: FlightCommand, values: bytes | None) -> Plan:
        if command.text(2) is not None:
            raise NodeFault("NotServedByFlight", "this node has no transactions")
        return self.fetching.planned(call, Statement(command.text(1) or "", [], values))

    def _described(
        self, call: Call, command: FlightCommand, raw: bytes
    ) -> tuple[pa.Schema | None, bytes]:
        """Return the columns of the result, and the ticket for it."""
        if command.name == "CommandStatementQuery":
            plan = self._planned(call, command, None)
            return plan.columns, _ticket(plan.statement.handle)
        if command.name == BIND:
            # The client got the columns when it created the statement, and gets them with the rows.
            return None, _ticket(read_handle(command.handle()).handle)
        return _schema_of(command), raw

    def _listed(
        self, call: Call, command: FlightCommand
    ) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
        schema = _schema_of(command)
        if command.name in tables.KEYS:
            return schema, iter(())
        if command.name == "CommandGetTables":
            return schema, self.fetching.counted(
                call, lambda: self.tables.batches(call.actor, command, call.types)
            )
        if command.name == "CommandGetPrimaryKeys":
            return schema, self.fetching.counted(
                call, lambda: self.tables.primary_keys(call.actor, command)
            )
        return schema, iter([_LISTS[command.name](command)])


_LISTS: dict[str, Callable[[FlightCommand], pa.RecordBatch]] = {
    "CommandGetCatalogs": lambda _: tables.catalogs(),
    "CommandGetDbSchemas": tables.schemas,
    "CommandGetTableTypes": lambda _: tables.table_types(),
    "CommandGetSqlInfo": lambda command: sql_info(command.numbers(1), app_version()),
}
_SCHEMAS: dict[str, pa.Schema] = {
    "CommandGetCatalogs": tables.CATALOGS,
    "CommandGetDbSchemas": tables.SCHEMAS,
    "CommandGetTableTypes": tables.TYPES,
    "CommandGetSqlInfo": SCHEMA,
    "CommandGetTables": tables.TABLES,
    "CommandGetPrimaryKeys": tables.PRIMARY_KEYS,
    **tables.KEYS,
}


def _schema_of(command: FlightCommand) -> pa.Schema:
    """Return the columns of the list that a command requests. Raises `NotServedByFlight`."""
    if command.name not in _SCHEMAS:
        raise NodeFault(
            "NotServedByFlight", f"{command.name[:50]} is no command that this node has"
        )
    if command.name == "CommandGetTables" and command.flag(5):
        return tables.TABLES_WITH_SCHEMA
    return _SCHEMAS[command.name]


def _ticket(handle: bytes) -> bytes:
    return written("TicketStatementQuery", (1, handle))


def _data(encapsulated: pa.Buffer) -> bytes:
    message = pa.ipc.read_message(encapsulated)
    body = b"" if message.body is None else message.body.to_pybytes()
    return wire.flight_data(message.metadata.to_pybytes(), body)


SPARE_THREADS = 8
"""Number of threads beyond the limit of calls. They refuse the calls above that limit."""
STOP_S = 5.0
_READS: dict[str, Callable[[FlightSql], Callable[[Call, Any], Any]]] = {
    "GetFlightInfo": lambda sql: sql.get_flight_info,
    "GetSchema": lambda sql: sql.get_schema,
    "DoGet": lambda sql: sql.do_get,
    "DoAction": lambda sql: sql.do_action,
    "ListActions": lambda sql: sql.list_actions,
    "ListFlights": lambda sql: sql.list_flights,
    "DoPut": lambda sql: sql.do_put,
    "DoExchange": lambda sql: sql.do_exchange,
}
_ONE_ANSWER = frozenset({"GetFlightInfo", "GetSchema"})
_MANY_REQUESTS = frozenset({"DoPut", "DoExchange"})


@dataclass(frozen=True, slots=True, kw_only=True)
class PortOptions:
    """The address and options of the server. `calls` is the limit of concurrent calls,
    `message_bytes` that of a received message; `tls` is private key and certificates in PEM."""

    address: str
    calls: int
    message_bytes: int
    tls: tuple[bytes, bytes] | None = None


class FlightPort:
    """The server. It listens from its creation until `stop`."""

    def __init__(
        self,
        options: PortOptions,
        callers: CallersOfFlight,
        sql: FlightSql,
        bridge: Bridge,
        slots: Slots,
        observed: ObservedCall,
    ) -> None:
        """Raises `OSError` if the address is in use, or the certificates are invalid."""
        self._callers, self._sql = callers, sql
        self._bridge, self._slots, self._observed = bridge, slots, observed
        threads = options.calls + SPARE_THREADS
        self._server = grpc.server(
            ThreadPoolExecutor(threads, "flight"),
            options=[
                ("grpc.max_receive_message_length", options.message_bytes),
                ("grpc.max_send_message_length", -1),  # another setting limits the size of batches
                ("grpc.so_reuseport", 0),
            ],
            maximum_concurrent_rpcs=2 * threads,
        )
        handlers = {name: self._handler(name) for name in _READS}
        handlers["Handshake"] = grpc.stream_stream_rpc_method_handler(self._handshake)
        self._server.add_generic_rpc_handlers(
            (grpc.method_handlers_generic_handler(SERVICE, handlers),)
        )
        self.port = self._listening(options)
        self._server.start()

    def stop(self) -> None:
        self._server.stop(STOP_S).wait()

    def _listening(self, options: PortOptions) -> int:
        try:
            if options.tls is None:
                return int(self._server.add_insecure_port(options.address))
            secured = grpc.ssl_server_credentials([options.tls])
            return int(self._server.add_secure_port(options.address, secured))
        except RuntimeError as error:  # gRPC raises this for every cause
            raise OSError(str(error)) from None

    def _handler(self, name: str) -> grpc.RpcMethodHandler:
        if name in _ONE_ANSWER:
            return grpc.unary_unary_rpc_method_handler(partial(self._once, name))
        if name in _MANY_REQUESTS:
            return grpc.stream_stream_rpc_method_handler(partial(self._stream, name))
        return grpc.unary_stream_rpc_method_handler(partial(self._stream, name))

    def _handshake(
        self, _requests: Iterator[bytes], context: grpc.ServicerContext
    ) -> Iterator[bytes]:
        def shaken(actor: Actor) -> Iterator[bytes]:
            context.send_initial_metadata(((HEADER, self._callers.answer_to(actor)),))
            yield from ()

        yield from self._guarded("Handshake", context, shaken)

    def _once(self, name: str, request: bytes, context: grpc.ServicerContext) -> bytes:
        [answer] = self._stream(name, request, context)
        return answer

    def _stream(self, name: str, request: Any, context: grpc.ServicerContext) -> Iterator[bytes]:
        def answers(actor: Actor) -> Iterator[bytes]:
            call = call_of(context, actor, self._bridge, self._slots)
            found = _READS[name](self._sql)(call, request)
            if name in _ONE_ANSWER:
                yield found
            else:
                yield from found

        yield from self._guarded(name, context, answers)

    def _guarded(
        self,
        name: str,
        context: grpc.ServicerContext,
        answers: Callable[[Actor], Iterator[bytes]],
    ) -> Iterator[bytes]:
        """Yield the responses. Any error ends the call with its status. Every call is recorded."""
        began, sent, refused = time.perf_counter(), 0, None
        actor: Actor | None = None
        status = HTTPStatus.OK
        try:
            actor = self._callers.of(headers_of(context))
            for answer in answers(actor):
                sent += len(answer)
                yield answer
        except Exception as error:
            status, *refused = told(error)
        finally:
            seconds = time.perf_counter() - began
            self._observed.ended(Ended(name, context.peer(), actor, status, sent, seconds))
        if refused:
            context.abort(*refused)
