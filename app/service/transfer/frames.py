"""What a peer may send before its message is whole: so many bytes, so many frames.

The library bounds the bytes of a message; it keeps each fragment as an object of its own, and
answers pings without an end. Limits are checked where frames are parsed, so that the frame that
exceeds one ends the connection before it is kept.
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
    """More frames than a peer that means well sends."""


class BoundedProtocol(ServerProtocol):
    """The library's protocol of one connection, with limits of our own.

    The first message of every peer is a request of some hundred bytes; what a peer may send
    later is known only when the address is (`later`), and goes into effect once that is here.
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
        """Called by the parser with each frame. Raises `FrameLimit`, which ends the connection."""
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
        """As it is; too many frames are no fault of the protocol, but against our policy."""
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
