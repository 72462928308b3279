"""What a client is willing to take from a node it does not trust: counts, bytes, seconds."""

from __future__ import annotations

from dataclasses import dataclass

from odf_node.protocol.errors import LimitExceeded
from odf_node.protocol.transfer.messages import MAX_MESSAGE_BYTES

MIB = 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientLimits:
    """Every bound of a transfer; sizes in bytes, times in seconds."""

    ref_bytes: int = 512
    text_bytes: int = 1 * MIB
    """Longest JSON or text answer of the HTTP interface."""
    block_bytes: int = 16 * MIB
    metadata_bytes: int = 1024 * MIB
    """All blocks of one exchange together."""
    blocks: int = 1_000_000
    message_bytes: int = MAX_MESSAGE_BYTES
    """Longest WebSocket message; a batch costs 3.57 characters a byte."""
    object_bytes: int | None = None
    """Largest data slice or checkpoint; None takes what the blocks announce."""
    networks: tuple[str, ...] | None = None
    """Ranges that may be connected to beside the public network; None: wherever it leads."""
    connect_s: float = 20.0
    idle_s: float = 60.0
    """Longest silence inside of an HTTP body."""
    patience_s: float = 120.0
    """How long a body may take whatever its pace; after that it has to keep the pace below."""
    slowest_bytes_per_s: float = 256.0
    """A server that sends less is given up: it would keep us for ever."""
    message_s: float = 120.0
    """Longest wait for a message of the smart protocol."""
    confirm_s: float = 1800.0
    """Longest wait for the confirmation of a push: the node checks everything before."""
    parallel_simple: int = 10
    parallel_smart: int = 4
    objects_per_request: int = 1000
    resumable_bytes: int = 1 * MIB
    """Objects from this size on are uploaded so that they can go on after a break."""
    attempts: int = 3
    """Tries per object when the connection breaks or the server is overloaded."""


LIMITS = ClientLimits()


class TooMuch(LimitExceeded):
    """The other side sends, or announces, more than a client takes."""

    def __init__(self, what: str, limit: int) -> None:
        super().__init__(
            f"{what} is more than this client takes (limit {limit})", what=what, limit=limit
        )
