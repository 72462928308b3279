"""Messages of Flight SQL: commands, tickets and actions, each in a protobuf `Any`.

Source: Arrow Flight SQL, package `arrow.flight.protocol.sql`.
"""

from __future__ import annotations

from dataclasses import dataclass

from .errors import BadInput
from .protobuf import bytes_field, fields, varint

TYPE_URL = "type.googleapis.com/arrow.flight.protocol.sql."
MAX_MESSAGE_BYTES = 4 << 20
"""Limit in bytes of a message that is read; queries have a separate limit."""
_HANDLE = 1
"""Field of the handle in tickets, and in commands for prepared statements."""


class MalformedCommand(BadInput):
    """The bytes are not a message of Flight SQL."""


@dataclass(frozen=True, slots=True)
class Command:
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
            raise MalformedCommand(f"field {number} of {self.name} is no text") from None

    def flag(self, number: int) -> bool:
        return bool(self.fields.get(number, [0])[-1])

    def numbers(self, number: int) -> list[int]:
        """Return repeated numbers, packed or separate. Raises `MalformedProtobuf`."""
        found: list[int] = []
        for value in self.fields.get(number, []):
            if isinstance(value, int):
                found.append(value)
                continue
            at = 0
            while at < len(value):
                one, at = varint(value, at)
                found.append(one)
        return found

    def handle(self) -> bytes:
        """Return the handle of a statement. Raises `MalformedCommand`."""
        found = self._bytes(_HANDLE)
        if not found:
            raise MalformedCommand(f"{self.name} has no handle")
        return found[-1]

    def _bytes(self, number: int) -> list[bytes]:
        found = self.fields.get(number, [])
        if any(isinstance(value, int) for value in found):
            raise MalformedCommand(f"field {number} of {self.name} is a number")
        return [value for value in found if isinstance(value, bytes)]


def read_command(raw: bytes) -> Command:
    """Return the message in an `Any`.

    Raises:
        MalformedCommand: too long, or of another package. MalformedProtobuf.
    """
    if len(raw) > MAX_MESSAGE_BYTES:
        raise MalformedCommand(f"a message has {MAX_MESSAGE_BYTES} bytes at most")
    url, value = b"", b""
    for number, content in fields(raw):
        if number == 1 and isinstance(content, bytes):
            url = content
        elif number == 2 and isinstance(content, bytes):
            value = content
    prefix, name = TYPE_URL.encode(), url.removeprefix(TYPE_URL.encode())
    if not url.startswith(prefix) or not name.isalnum():
        raise MalformedCommand("this is no message of Flight SQL")
    found: dict[int, list[int | bytes]] = {}
    for number, content in fields(value):
        found.setdefault(number, []).append(content)
    return Command(name.decode("ascii"), found)


def written(name: str, *contents: tuple[int, bytes]) -> bytes:
    """Return a message in an `Any`, with fields given by number and content."""
    value = b"".join(bytes_field(number, content) for number, content in contents)
    return bytes_field(1, (TYPE_URL + name).encode()) + bytes_field(2, value)
