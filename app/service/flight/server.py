"""The gRPC server: which command is answered by what. Each call runs in a thread of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NoReturn

import pyarrow as pa
import pyarrow.flight as fl

from odf_node.protocol.errors import BadInput
from odf_node.protocol.flight_sql import Command, read_command, written
from odf_node.storage.runtime.version import app_version

from ..limits.shares import Slots
from . import sql_info, tables
from .bridge import Bridge
from .callers import CallerFactory, NoHandshake
from .calls import CALLER, Call, call_of
from .errors import told
from .fetching import Fetching
from .statements import Statement, read_handle

CREATE, CLOSE, CLOSE_SESSION = "CreatePreparedStatement", "ClosePreparedStatement", "CloseSession"
_NO_PARAMETERS = "statements take no parameters here; write the values into the query"


class NotServedByFlight(BadInput):
    """A part of Flight SQL that this node has not."""


@dataclass(frozen=True)
class Serves:
    """What the calls are answered by."""

    fetching: Fetching
    tables: tables.Tables
    bridge: Bridge
    slots: Slots


class FlightServer(fl.FlightServerBase):  # type: ignore[misc]
    """Serves from the moment it is made until `shutdown`."""

    def __init__(self, address: str, callers: CallerFactory, serves: Serves) -> None:
        super().__init__(address, auth_handler=NoHandshake(), middleware={CALLER: callers})
        self._serves = serves

    @told
    def get_flight_info(
        self, context: fl.ServerCallContext, descriptor: fl.FlightDescriptor
    ) -> fl.FlightInfo:
        call, raw = self._call(context), _command_of(descriptor)
        command = read_command(raw)
        with call.counted():
            schema, ticket = self._described(call, command, raw)
        endpoint = fl.FlightEndpoint(fl.Ticket(ticket), [])
        return fl.FlightInfo(schema, descriptor, [endpoint], -1, -1)

    @told
    def get_schema(
        self, context: fl.ServerCallContext, descriptor: fl.FlightDescriptor
    ) -> fl.SchemaResult:
        call, raw = self._call(context), _command_of(descriptor)
        with call.counted():
            schema, _ = self._described(call, read_command(raw), raw)
        return fl.SchemaResult(schema)

    @told
    def do_get(self, context: fl.ServerCallContext, ticket: fl.Ticket) -> fl.FlightDataStream:
        call, command = self._call(context), read_command(ticket.ticket)
        if command.name == "TicketStatementQuery":
            schema, rows = self._serves.fetching.rows(call, read_handle(command.handle()))
        else:
            schema, rows = self._listed(call, command)
        return fl.GeneratorStream(schema, rows)

    @told
    def do_action(self, context: fl.ServerCallContext, action: fl.Action) -> list[fl.Result]:
        call, body = self._call(context), action.body.to_pybytes()
        if action.type == CREATE:
            with call.counted():
                return [fl.Result(self._created(call, read_command(body)))]
        if action.type in (CLOSE, CLOSE_SESSION):  # nothing is kept
            return []
        raise NotServedByFlight(f"the action {action.type[:50]!r} is none that this node has")

    @told
    def list_actions(self, _: fl.ServerCallContext) -> list[tuple[str, str]]:
        return [
            (CREATE, "Plan a query; its handle holds all there is of it."),
            (CLOSE, "Nothing: no statement is kept."),
            (CLOSE_SESSION, "Nothing: no session is kept."),
        ]

    @told
    def list_flights(self, *_: Any) -> NoReturn:
        raise NotServedByFlight("this node lists its tables by commands of Flight SQL alone")

    @told
    def do_put(self, *_: Any) -> NoReturn:
        raise NotServedByFlight(f"nothing is written by Flight SQL, and {_NO_PARAMETERS}")

    @told
    def do_exchange(self, *_: Any) -> NoReturn:
        raise NotServedByFlight("nothing is written by Flight SQL")

    def _call(self, context: fl.ServerCallContext) -> Call:
        return call_of(context, self._serves.bridge, self._serves.slots)

    def _created(self, call: Call, command: Command) -> bytes:
        statement, schema = self._planned(call, command)
        return written(
            "ActionCreatePreparedStatementResult",
            (1, statement.handle),
            (2, schema.serialize().to_pybytes()),
        )

    def _planned(self, call: Call, command: Command) -> tuple[Statement, pa.Schema]:
        if command.text(2) is not None:
            raise NotServedByFlight("this node has no transactions")
        return self._serves.fetching.planned(call, command.text(1) or "")

    def _described(self, call: Call, command: Command, raw: bytes) -> tuple[pa.Schema, bytes]:
        """Columns of the answer, and the ticket that brings it."""
        if command.name == "CommandStatementQuery":
            statement, schema = self._planned(call, command)
            return schema, _ticket(statement.handle)
        if command.name == "CommandPreparedStatementQuery":
            # Its columns were told when it was made; they are told again with its rows.
            return None, _ticket(read_handle(command.handle()).handle)
        return _schema_of(command), raw

    def _listed(self, call: Call, command: Command) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
        schema = _schema_of(command)
        if command.name in tables.KEYS:
            return schema, iter(())
        if command.name == "CommandGetTables":
            return schema, self._serves.fetching.counted(
                call, lambda: self._serves.tables.batches(call.actor, command)
            )
        return schema, iter([_LISTS[command.name](command)])


_LISTS: dict[str, Callable[[Command], pa.RecordBatch]] = {
    "CommandGetCatalogs": lambda _: tables.catalogs(),
    "CommandGetDbSchemas": tables.schemas,
    "CommandGetTableTypes": lambda _: tables.table_types(),
    "CommandGetSqlInfo": lambda command: sql_info.sql_info(command.numbers(1), app_version()),
}
_SCHEMAS: dict[str, pa.Schema] = {
    "CommandGetCatalogs": tables.CATALOGS,
    "CommandGetDbSchemas": tables.SCHEMAS,
    "CommandGetTableTypes": tables.TYPES,
    "CommandGetSqlInfo": sql_info.SCHEMA,
    "CommandGetTables": tables.TABLES,
    **tables.KEYS,
}


def _schema_of(command: Command) -> pa.Schema:
    """Columns of what is listed. Raises `NotServedByFlight`."""
    if command.name not in _SCHEMAS:
        raise NotServedByFlight(f"{command.name[:50]} is no command that this node has")
    if command.name == "CommandGetTables" and command.flag(5):
        return tables.TABLES_WITH_SCHEMA
    return _SCHEMAS[command.name]


def _ticket(handle: bytes) -> bytes:
    return written("TicketStatementQuery", (1, handle))


def _command_of(descriptor: fl.FlightDescriptor) -> bytes:
    if descriptor.descriptor_type != fl.DescriptorType.CMD:
        raise NotServedByFlight("data is asked for by commands of Flight SQL, not by paths")
    return bytes(descriptor.command)
