"""A smart transfer as the reference client runs it: JSON texts in a fixed order."""

from __future__ import annotations

import json
from typing import Any

from . import shapes
from .http import Headers
from .outcomes import UNREADABLE, GaveUp, Why, error_in, hung_up, refused, unreadable
from .shapes import Notes, Shape, parsed
from .websocket import Closed, HandshakeRefused, WebSocket
from .wire import Disconnected, Scissors

RUNNING = {"details": {"Running": {"uploaded_objects_count": 0}}}
COMPLETE = {"details": "Complete"}


class Exchange:
    """A smart transfer in progress. A Close has a meaning that depends on its position."""

    def __init__(
        self, url: str, headers: Headers, notes: Notes, scissors: Scissors | None, timeout: float
    ) -> None:
        self._notes = notes
        try:
            self.socket = WebSocket.open(url, headers, scissors=scissors, timeout=timeout)
        except HandshakeRefused as refusal:
            raise refused(refusal) from None
        except Disconnected as gone:
            raise hung_up(gone) from None
        except UNREADABLE as broken:
            raise unreadable(broken) from None

    def say(self, message: Any, step: str = "", *, fragment: int | None = None) -> None:
        """Send one message, with JSON formatted as by the reference."""
        text = json.dumps(message, separators=(",", ":"))
        try:
            self.socket.send(text, step, fragment=fragment)
        except Disconnected as gone:
            raise hung_up(gone) from None

    def hear(self, shape: Shape, step: str = "") -> Any:
        """Return the next message, or the reason of a Close with 1011, parsed as `shape`."""
        try:
            return parsed(self.socket.receive(step), shape, self._notes)
        except Closed as closed:
            if closed.code != 1011:
                raise hung_up(closed) from None
            return {"closed": True, **self._reason(closed, shape)}
        except Disconnected as gone:
            raise hung_up(gone) from None
        except UNREADABLE as broken:
            raise unreadable(broken) from None

    def ask(self, message: Any, shape: Shape, step: str = "") -> Any:
        """Send a message and return the reply. Raise `GaveUp` for an `Err`."""
        self.say(message, step)
        reply = self.hear(shape, step)
        if failure := error_in(reply):
            self.socket.drop()
            raise failure
        return reply

    def close(self, reason: str) -> None:
        """End the transfer normally."""
        try:
            self.socket.close(1000, reason)
        except Disconnected:
            self.socket.drop()

    def __enter__(self) -> Exchange:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.drop()

    def _reason(self, closed: Closed, shape: Shape) -> dict[str, Any]:
        try:
            reply: dict[str, Any] = parsed(closed.reason, shape, [])
        except shapes.BadShape as broken:
            raise GaveUp(Why.INTERNAL, f"closed with {closed.reason!r}: {broken}") from None
        return reply
