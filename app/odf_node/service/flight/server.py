"""Dispatch of the commands of Flight SQL, in the threads of calls."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pyarrow as pa

from odf_protocol import flight as wire
from odf_protocol.errors import NodeFault
from odf_protocol.flight_sql import Command, read_command, written
from odf_storage.runtime.version import app_version

from . import sql_info, tables
from .calls import Call
from .fetching import Fetching
from .statements import Statement, read_handle

CREATE, CLOSE, CLOSE_SESSION = "CreatePreparedStatement", "ClosePreparedStatement", "CloseSession"
_NO_PARAMETERS = "statements take no parameters here; write the values into the query"


class NotServedByFlight(NodeFault):
    """The node does not support this part of Flight SQL."""


@dataclass(frozen=True)
class FlightSql:
    """Serves calls. Requests and responses are in their encoded form."""

    fetching: Fetching
    tables: tables.Tables

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
            raise NotServedByFlight(f"the action {kind[:50]!r} is none that this node has")

    def list_actions(self, _call: Call, _empty: bytes) -> Iterator[bytes]:
        yield wire.action_type(CREATE, "Plan a query; its handle holds all there is of it.")
        yield wire.action_type(CLOSE, "Nothing: no statement is kept.")
        yield wire.action_type(CLOSE_SESSION, "Nothing: no session is kept.")

    def list_flights(self, _call: Call, _criteria: bytes) -> Iterator[bytes]:
        raise NotServedByFlight("this node lists its tables by commands of Flight SQL alone")

    def do_put(self, _call: Call, _first: Iterator[bytes]) -> Iterator[bytes]:
        raise NotServedByFlight(f"nothing is written by Flight SQL, and {_NO_PARAMETERS}")

    def do_exchange(self, _call: Call, _first: Iterator[bytes]) -> Iterator[bytes]:
        raise NotServedByFlight("nothing is written by Flight SQL")

    def _asked(self, call: Call, descriptor: bytes) -> tuple[bytes, bytes]:
        raw = wire.command_of(descriptor)
        command = read_command(raw)
        with call.counted():
            schema, ticket = self._described(call, command, raw)
        return b"" if schema is None else schema.serialize().to_pybytes(), ticket

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
        return self.fetching.planned(call, command.text(1) or "")

    def _described(
        self, call: Call, command: Command, raw: bytes
    ) -> tuple[pa.Schema | None, bytes]:
        """Return the columns of the result, and the ticket for it."""
        if command.name == "CommandStatementQuery":
            statement, schema = self._planned(call, command)
            return schema, _ticket(statement.handle)
        if command.name == "CommandPreparedStatementQuery":
            # The client got the columns when it created the statement, and gets them with the rows.
            return None, _ticket(read_handle(command.handle()).handle)
        return _schema_of(command), raw

    def _listed(self, call: Call, command: Command) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
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
    "CommandGetPrimaryKeys": tables.PRIMARY_KEYS,
    **tables.KEYS,
}


def _schema_of(command: Command) -> pa.Schema:
    """Return the columns of the list that a command requests. Raises `NotServedByFlight`."""
    if command.name not in _SCHEMAS:
        raise NotServedByFlight(f"{command.name[:50]} is no command that this node has")
    if command.name == "CommandGetTables" and command.flag(5):
        return tables.TABLES_WITH_SCHEMA
    return _SCHEMAS[command.name]


def _ticket(handle: bytes) -> bytes:
    return written("TicketStatementQuery", (1, handle))


def _data(encapsulated: pa.Buffer) -> bytes:
    message = pa.ipc.read_message(encapsulated)
    body = b"" if message.body is None else message.body.to_pybytes()
    return wire.flight_data(message.metadata.to_pybytes(), body)
