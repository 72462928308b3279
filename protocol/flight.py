"""Messages of Arrow Flight, as far as a server of Flight SQL reads and writes them. Pure.

Source: Arrow Flight RPC, package `arrow.flight.protocol`.
"""

from __future__ import annotations

from .errors import BadInput
from .protobuf import bytes_field, fields, varint_field

SERVICE = "arrow.flight.protocol.FlightService"
UNKNOWN_COUNT = -1
"""Rows and bytes of an answer that nobody has computed."""
_COMMAND = 2
"""Of a descriptor: its kind that is no path, and the field that has the command."""


class NotACommand(BadInput):
    """A descriptor that names a path."""


def command_of(descriptor: bytes) -> bytes:
    """What a `FlightDescriptor` asks for. Raises `NotACommand`, `MalformedProtobuf`."""
    found = _fields(descriptor)
    if found.get(1) != _COMMAND:
        raise NotACommand("data is asked for by commands of Flight SQL, not by paths")
    return _bytes(found, _COMMAND)


def ticket_of(ticket: bytes) -> bytes:
    """What a `Ticket` holds. Raises `MalformedProtobuf`."""
    return _bytes(_fields(ticket), 1)


def action_of(action: bytes) -> tuple[str, bytes]:
    """Type and body of an `Action`. Raises `MalformedProtobuf`."""
    found = _fields(action)
    return _bytes(found, 1).decode("utf-8", "replace"), _bytes(found, 2)


def flight_info(schema: bytes, descriptor: bytes, ticket: bytes) -> bytes:
    """`FlightInfo`: one endpoint, which is the server that answers."""
    endpoint = bytes_field(1, bytes_field(1, ticket))  # a Ticket is a message of its own
    counts = varint_field(4, UNKNOWN_COUNT) + varint_field(5, UNKNOWN_COUNT)
    return bytes_field(1, schema) + bytes_field(2, descriptor) + bytes_field(3, endpoint) + counts


def schema_result(schema: bytes) -> bytes:
    """`SchemaResult`."""
    return bytes_field(1, schema)


def action_type(name: str, description: str) -> bytes:
    """`ActionType`."""
    return bytes_field(1, name.encode()) + bytes_field(2, description.encode())


def result(body: bytes) -> bytes:
    """`Result` of an action."""
    return bytes_field(1, body)


def flight_data(header: bytes, body: bytes) -> bytes:
    """`FlightData`: the two parts of a message of an Arrow stream."""
    return bytes_field(2, header) + bytes_field(1000, body)


def _fields(message: bytes) -> dict[int, int | bytes]:
    return dict(fields(message))


def _bytes(found: dict[int, int | bytes], number: int) -> bytes:
    value = found.get(number, b"")
    return value if isinstance(value, bytes) else b""
