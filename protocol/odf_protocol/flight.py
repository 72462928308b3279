"""Messages of Arrow Flight that a server of Flight SQL reads and writes. No input or output.

Source: Arrow Flight RPC, package `arrow.flight.protocol`.
"""

from __future__ import annotations

from .errors import BadInput
from .protobuf import bytes_field, fields, varint_field

SERVICE = "arrow.flight.protocol.FlightService"
UNKNOWN_COUNT = -1
"""Number of rows or bytes of a response that is not computed yet."""
_COMMAND = 2
"""In a descriptor: the kind for a command instead of a path, and the field with the command."""


class NotACommand(BadInput):
    """A descriptor contains a path instead of a command."""


def command_of(descriptor: bytes) -> bytes:
    """Return the command in a `FlightDescriptor`. Raises `NotACommand`, `MalformedProtobuf`."""
    found = _fields(descriptor)
    if found.get(1) != _COMMAND:
        raise NotACommand("data is asked for by commands of Flight SQL, not by paths")
    return _bytes(found, _COMMAND)


def ticket_of(ticket: bytes) -> bytes:
    """Return the content of a `Ticket`. Raises `MalformedProtobuf`."""
    return _bytes(_fields(ticket), 1)


def action_of(action: bytes) -> tuple[str, bytes]:
    """Return type and body of an `Action`. Raises `MalformedProtobuf`."""
    found = _fields(action)
    return _bytes(found, 1).decode("utf-8", "replace"), _bytes(found, 2)


def flight_info(schema: bytes, descriptor: bytes, ticket: bytes) -> bytes:
    """Return a `FlightInfo` with one endpoint, which is this server."""
    endpoint = bytes_field(1, bytes_field(1, ticket))  # the inner field makes the Ticket message
    counts = varint_field(4, UNKNOWN_COUNT) + varint_field(5, UNKNOWN_COUNT)
    return bytes_field(1, schema) + bytes_field(2, descriptor) + bytes_field(3, endpoint) + counts


def schema_result(schema: bytes) -> bytes:
    """Return a `SchemaResult`."""
    return bytes_field(1, schema)


def action_type(name: str, description: str) -> bytes:
    """Return an `ActionType`."""
    return bytes_field(1, name.encode()) + bytes_field(2, description.encode())


def result(body: bytes) -> bytes:
    """Return the `Result` of an action."""
    return bytes_field(1, body)


def flight_data(header: bytes, body: bytes) -> bytes:
    """Return a `FlightData` with the two parts of a message of an Arrow stream."""
    return bytes_field(2, header) + bytes_field(1000, body)


def _fields(message: bytes) -> dict[int, int | bytes]:
    return dict(fields(message))


def _bytes(found: dict[int, int | bytes], number: int) -> bytes:
    value = found.get(number, b"")
    return value if isinstance(value, bytes) else b""
