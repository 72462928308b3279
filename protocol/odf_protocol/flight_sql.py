"""Messages of Flight SQL: commands, tickets and actions, each in a protobuf `Any`.

Source: Arrow Flight SQL, package `arrow.flight.protocol.sql`.

Protobuf encoding for small messages: reads and writes fields, without schemas.

Source: protocol buffers encoding, "Message structure".

Messages of Arrow Flight that a server of Flight SQL reads and writes. No input or output.

Source: Arrow Flight RPC, package `arrow.flight.protocol`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from .errors import BadInput

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
"""Kinds of fields that are read; groups are not supported."""
_FIXED = {FIXED64: 8, FIXED32: 4}
_MAX_VARINT = 10


class MalformedProtobuf(BadInput):
    """The bytes are not a protobuf message."""


def fields(message: bytes, *, most: int | None = None) -> Iterator[tuple[int, int | bytes]]:
    """Yield number and value of each field, in order: an int for a varint, else its bytes.

    Raises:
        MalformedProtobuf: an unknown kind, a field that does not end, or more than `most` fields.
    """
    at = 0
    left = len(message) if most is None else most
    while at < len(message):
        left -= 1
        if left < 0:
            raise MalformedProtobuf(f"a message has more than {most} fields", limit=most)
        tag, at = varint(message, at)
        number, kind = tag >> 3, tag & 7
        if kind == VARINT:
            value, at = varint(message, at)
            yield number, value
            continue
        if kind == BYTES:
            size, at = varint(message, at)
        elif kind in _FIXED:
            size = _FIXED[kind]
        else:
            raise MalformedProtobuf(f"a field of the unknown kind {kind}")
        if at + size > len(message):
            raise MalformedProtobuf("a field is longer than its message")
        yield number, message[at : at + size]
        at += size


def varint(message: bytes, at: int) -> tuple[int, int]:
    """Return a number and its end position. Raises `MalformedProtobuf`."""
    value = 0
    for shift in range(_MAX_VARINT):
        if at >= len(message):
            break
        byte = message[at]
        at += 1
        value |= (byte & 0x7F) << (7 * shift)
        if not byte & 0x80:
            return value, at
    raise MalformedProtobuf("a number has no end")


def bytes_field(number: int, content: bytes) -> bytes:
    """Return one field that contains bytes, text or a message."""
    return b"".join((_written(number << 3 | BYTES), _written(len(content)), content))


def varint_field(number: int, value: int) -> bytes:
    """Return one field that contains a 64-bit number; negative ones as two's complement."""
    return _written(number << 3 | VARINT) + _written(value & (1 << 64) - 1)


def _written(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


TYPE_URL = "type.googleapis.com/arrow.flight.protocol.sql."
MAX_MESSAGE_BYTES = 4 << 20
"""Limit in bytes of a message that is read; queries have a separate limit."""
MAX_FIELDS = 10_000
"""Limit of the fields of a message of a stranger, and of the numbers in one of them: each is a
step of Python."""
_HANDLE = 1
"""Field of the handle in tickets, and in commands for prepared statements."""


@dataclass(frozen=True, slots=True)
class FlightCommand:
    """A message with its name, such as `CommandGetTables`, and its fields by number."""

    name: str
    fields: dict[int, list[int | bytes]]

    def text(self, number: int) -> str | None:
        """Return the text of a field, or None if it is absent. Raises `MalformedCommand`."""
        found = self.texts(number)
        return found[-1] if found else None

    def texts(self, number: int) -> list[str]:
        """Return all texts of a field. Raises `MalformedCommand`."""
        try:
            return [raw.decode() for raw in self._bytes(number)]
        except UnicodeDecodeError:
            raise BadInput(
                "MalformedCommand", f"field {number} of {self.name} is no text"
            ) from None

    def flag(self, number: int) -> bool:
        return bool(self.fields.get(number, [0])[-1])

    def numbers(self, number: int) -> list[int]:
        """Return repeated numbers, packed or separate. Raises `MalformedProtobuf`, also for more
        than `MAX_FIELDS`."""
        found: list[int] = []
        for value in self.fields.get(number, []):
            if isinstance(value, int):
                found.append(value)
                continue
            at = 0
            while at < len(value):
                if len(found) == MAX_FIELDS:
                    raise MalformedProtobuf(
                        f"a field has more than {MAX_FIELDS} numbers", limit=MAX_FIELDS
                    )
                one, at = varint(value, at)
                found.append(one)
        return found

    def handle(self) -> bytes:
        """Return the handle of a statement. Raises `MalformedCommand`."""
        found = self._bytes(_HANDLE)
        if not found:
            raise BadInput("MalformedCommand", f"{self.name} has no handle")
        return found[-1]

    def _bytes(self, number: int) -> list[bytes]:
        found = self.fields.get(number, [])
        if any(isinstance(value, int) for value in found):
            raise BadInput("MalformedCommand", f"field {number} of {self.name} is a number")
        return [value for value in found if isinstance(value, bytes)]


def read_command(raw: bytes) -> FlightCommand:
    """Return the message in an `Any`.

    Raises:
        MalformedCommand: too long, or of another package. MalformedProtobuf, also for more than
            `MAX_FIELDS` fields.
    """
    if len(raw) > MAX_MESSAGE_BYTES:
        raise BadInput("MalformedCommand", f"a message has {MAX_MESSAGE_BYTES} bytes at most")
    url, value = b"", b""
    for number, content in fields(raw, most=MAX_FIELDS):
        if number == 1 and isinstance(content, bytes):
            url = content
        elif number == 2 and isinstance(content, bytes):
            value = content
    prefix, name = TYPE_URL.encode(), url.removeprefix(TYPE_URL.encode())
    if not url.startswith(prefix) or not name.isalnum():
        raise BadInput("MalformedCommand", "this is no message of Flight SQL")
    found: dict[int, list[int | bytes]] = {}
    for number, content in fields(value, most=MAX_FIELDS):
        found.setdefault(number, []).append(content)
    return FlightCommand(name.decode("ascii"), found)


def written(name: str, *contents: tuple[int, bytes]) -> bytes:
    """Return a message in an `Any`, with fields given by number and content."""
    value = b"".join(bytes_field(number, content) for number, content in contents)
    return bytes_field(1, (TYPE_URL + name).encode()) + bytes_field(2, value)


SERVICE = "arrow.flight.protocol.FlightService"
UNKNOWN_COUNT = -1
"""Number of rows or bytes of a response that is not computed yet."""
_COMMAND = 2
"""In a descriptor: the kind for a command instead of a path, and the field with the command."""


def command_of(descriptor: bytes) -> bytes:
    """Return the command in a `FlightDescriptor`. Raises `NotACommand`, `MalformedProtobuf`."""
    found = _fields(descriptor)
    if found.get(1) != _COMMAND:
        raise BadInput("NotACommand", "data is asked for by commands of Flight SQL, not by paths")
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


STREAM_END = b"\xff\xff\xff\xff\x00\x00\x00\x00"
"""The last bytes of an Arrow stream."""
_CONTINUED = STREAM_END[:4]
_HEADER, _BODY = 2, 1000


def descriptor_of(data: bytes) -> bytes:
    """Return the `FlightDescriptor` in the first `FlightData` of a client. Raises
    `MalformedProtobuf`."""
    return _bytes(_fields(data), 1)


def stream_part(data: bytes) -> bytes:
    """Return a `FlightData` as the message of an Arrow stream; nothing if it has none. Raises
    `MalformedProtobuf`."""
    found = _fields(data)
    header = _bytes(found, _HEADER)
    if not header:
        return b""
    header += bytes(-len(header) % 8)
    return b"".join((_CONTINUED, len(header).to_bytes(4, "little"), header, _bytes(found, _BODY)))


def put_result(metadata: bytes) -> bytes:
    """Return a `PutResult`."""
    return bytes_field(1, metadata)


def bound_result(handle: bytes) -> bytes:
    """Return a `DoPutPreparedStatementResult`, the handle of a statement that has its values."""
    return bytes_field(1, handle)


def _fields(message: bytes) -> dict[int, int | bytes]:
    return dict(fields(message, most=MAX_FIELDS))


def _bytes(found: dict[int, int | bytes], number: int) -> bytes:
    value = found.get(number, b"")
    return value if isinstance(value, bytes) else b""
