"""Limits of bytes and frames that a peer may send before its message is complete.

The library limits the bytes of a message, but it keeps each fragment as a separate object and
answers any number of pings. We check the limits where the library parses frames, so that the
first frame above a limit ends the connection before the library keeps it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from websockets.exceptions import ProtocolError
from websockets.frames import CloseCode, Frame, Opcode
from websockets.server import ServerProtocol

CONTROL_WINDOW_S = 60.0
_DATA = frozenset({Opcode.TEXT, Opcode.BINARY, Opcode.CONT})


class FrameLimit(ProtocolError):
    """The peer sent more frames than a well-behaved peer sends."""


class BoundedProtocol(ServerProtocol):
    """The library's protocol of one connection, with additional limits.

    The first message of every peer is a request of some hundred bytes (limit `first`). The limit of
    later messages (`later`) depends on the address; it takes effect after the first message.
    """

    def __init__(
        self, *, first: int, later: int, max_frames: int, now: Callable[[], float]
    ) -> None:
        super().__init__(max_size=min(first, later), logger=logging.getLogger("uvicorn.error"))
        self.later = later
        self._max_frames, self._now = max_frames, now
        self._fragments = self._controls = 0
        self._window_ends = 0.0

    def recv_frame(self, frame: Frame) -> None:
        """Count a parsed frame. Raises `FrameLimit`, which ends the connection."""
        if frame.opcode in _DATA:
            self._fragments += 1
            if self._fragments > self._max_frames:
                raise FrameLimit(f"a message has {self._max_frames} frames at most")
            if frame.fin:
                self._fragments, self.max_message_size = 0, self.later
        else:
            self._count_control()
        super().recv_frame(frame)

    def fail(self, code: int, reason: str = "") -> None:
        """Fail as the library does, but report too many frames as a policy violation."""
        is_ours = code == CloseCode.PROTOCOL_ERROR and self._is_too_many()
        super().fail(CloseCode.POLICY_VIOLATION if is_ours else code, reason)

    def _is_too_many(self) -> bool:
        return self._fragments > self._max_frames or self._controls > self._max_frames

    def _count_control(self) -> None:
        if self._now() >= self._window_ends:
            self._controls, self._window_ends = 0, self._now() + CONTROL_WINDOW_S
        self._controls += 1
        if self._controls > self._max_frames:
            raise FrameLimit(f"a peer sends {self._max_frames} pings in a minute at most")
