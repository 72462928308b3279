"""One smart exchange on a WebSocket: text messages, refusals, close reasons, time limits.

The client sends no Ping and compresses nothing: the reference peer treats either as a protocol
error. It sends a message above `FRAME_CHARS` in fragments, so that no frame is longer than peers
accept. It raises a refused handshake, and a Close with an error, as typed errors.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urljoin

from odf_protocol.errors import BadInput, Conflict, NodeError
from odf_protocol.transfer.messages import (
    BATCH_ENCODING,
    CLOSE_INTERNAL,
    CLOSE_NORMAL,
    COMPACT_ENCODING,
    IN_URLS,
    OBJECTS_HEADER,
    PAYLOAD_HEADER,
    PROTOCOL_VERSION,
    VERSION_HEADER,
    MalformedMessage,
    Message,
    decode,
    encode,
)
from odf_protocol.transfer.phases import PullState, PushState, State, advance

from ..nodes.http import (
    USER_AGENT,
    TransferFailed,
    Unauthenticated,
    Unauthorized,
    Unreachable,
    bearer,
    dataset_missing,
    origin,
    reach,
    refuse_challenged,
    refuse_overloaded,
    with_retries,
)
from ..nodes.later import websockets
from ..nodes.limits import LIMITS, ClientLimits, one_line
from ..nodes.remotes import Location
from .receive import Diverged, seed_overwrite

if TYPE_CHECKING:
    from websockets.http11 import Response
    from websockets.sync.client import ClientConnection

FRAME_CHARS = 8 * 1024 * 1024
"""Limit of characters in a frame: peers accept 16 MiB, and a character may need two bytes here."""
CLOSE_SECONDS = 5
PULL = "pull"
STARTS: dict[str, State] = {PULL: PullState.START, "push": PushState.START}

M = TypeVar("M", bound=Message)


class Disconnected(Unreachable):
    """The connection ended in the middle of the exchange."""


class NodeFailed(TransferFailed):
    """The node reports an internal error."""


@contextmanager
def conversation(
    location: Location,
    action: str,
    token: str | None,
    *,
    limits: ClientLimits = LIMITS,
) -> Iterator[ClientConversation]:
    """Open `pull` or `push` of a dataset. After an error it closes the socket with a short wait.

    Raises:
        Unauthenticated, Unauthorized, DatasetMissing, HandshakeRefused, HostRefused,
        TransferFailed
    """
    socket = _opened(location, action, token, limits)
    try:
        yield ClientConversation(socket, STARTS[action], limits)
    except BaseException:
        socket.close_timeout = 0.2
        socket.close(CLOSE_NORMAL)
        raise
    socket.close(CLOSE_NORMAL)


def _opened(
    location: Location, action: str, token: str | None, limits: ClientLimits
) -> ClientConnection:
    """Open the socket; a pull without a token that the node does not know."""

    def once(with_token: str | None) -> ClientConnection:
        return with_retries(
            lambda: _connected(location, action, with_token, limits), limits=limits, broken=False
        )

    try:
        return once(token)
    except Unauthenticated as refused:
        if action != PULL or token is None:
            raise
        try:
            socket = once(None)
        except NodeError:
            raise refused from None
        reach.warn(origin(location.base))
        return socket


def _connected(
    location: Location, action: str, token: str | None, limits: ClientLimits
) -> ClientConnection:
    """Open the socket. Raises the errors of `conversation`, and `Overloaded`."""
    from websockets.sync.client import connect

    url = location.websocket_base + action
    guarded = None
    try:
        if limits.networks is not None:
            guarded = reach.connected(url, limits.networks, limits.connect_s)
        return connect(
            url,
            additional_headers={
                VERSION_HEADER: str(PROTOCOL_VERSION),
                PAYLOAD_HEADER: COMPACT_ENCODING,
                OBJECTS_HEADER: IN_URLS,
                **bearer(token),
            },
            user_agent_header=USER_AGENT,
            compression=None,
            ping_interval=None,
            open_timeout=limits.connect_s,
            close_timeout=CLOSE_SECONDS,
            max_size=limits.message_bytes,
            legacy=True,
            sock=guarded,
        )
    except websockets.InvalidStatus as refused:
        raise refusal(refused.response, location, action) from refused
    except websockets.InvalidURI as moved:  # what a redirect names
        raise _has_moved(location, action, moved.uri) from moved
    except (
        websockets.InvalidHandshake,
        websockets.WebSocketException,
        OSError,
        EOFError,
        ValueError,
    ) as error:
        raise Unreachable(
            f"no smart transfer at {location}: {one_line(str(error)) or type(error).__name__}",
            url=str(location),
        ) from error


def refusal(response: Response, location: Location, action: str) -> NodeError:
    """Convert an HTTP refusal of the handshake into an error, as the reference's client does.

    Raises `Overloaded`: the node asks for a later request.
    """
    status = response.status_code
    refuse_overloaded(response.headers, status, location.base, action)
    text = _text_of(bytes(response.body or b""))
    if 300 <= status < 400:
        return _has_moved(location, action, response.headers.get("location", ""))
    match status:
        case 401:
            return Unauthenticated(
                f"the node asks for a valid token{': ' if text else ''}{text}", status=401
            )
        case 403:
            return Unauthorized("the node does not allow this for this account", status=403)
        case 404:
            refuse_challenged(response.headers, 404)
            return dataset_missing(str(location), _document(bytes(response.body or b"")))
        case 400 | 426:
            return BadInput(
                "HandshakeRefused", text or "the node does not take this request", status=status
            )
    return TransferFailed(f"the node answered {status} {text}".rstrip(), status=status)


def _has_moved(location: Location, action: str, to: str) -> TransferFailed:
    place = urljoin(location.base, one_line(to)).removesuffix(action)
    return TransferFailed(
        f"{location} has moved, and an upgrade follows no redirect: use the address odf+{place}",
        url=str(location),
        location=place,
    )


def _text_of(body: bytes) -> str:
    """Return the message of a JSON error, else the text itself, safe to show."""
    text = body[:4096].decode("utf-8", "replace")
    return one_line(str(_document(body).get("message", text)))


def _document(body: bytes) -> dict[str, Any]:
    """Return the JSON object of a body; empty if it is none."""
    try:
        document = json.loads(body[:4096].decode("utf-8", "replace"))
    except ValueError:
        return {}
    return document if isinstance(document, dict) else {}


class ClientConversation:
    """An open exchange, which enforces the order of phases. It is not thread-safe."""

    def __init__(self, socket: ClientConnection, state: State, limits: ClientLimits) -> None:
        self._socket, self._state, self._limits = socket, state, limits
        agreed = socket.response.headers.get(PAYLOAD_HEADER) if socket.response else None
        self.encoding = COMPACT_ENCODING if agreed == COMPACT_ENCODING else BATCH_ENCODING
        """Encoding of batches."""

    def send(self, message: Message) -> None:
        """Send one message. Raises the error of the node's Close, if there was one."""
        self._state = advance(self._state, message)
        text = encode(message)
        try:
            if len(text) <= FRAME_CHARS:
                self._socket.send(text)
            else:
                self._socket.send(
                    text[at : at + FRAME_CHARS] for at in range(0, len(text), FRAME_CHARS)
                )
        except websockets.ConnectionClosed as closed:
            raise closing_error(closed) from closed

    def receive(self, kind: type[M]) -> M:
        """Return the next message, which must be of this kind.

        Raises:
            NodeBusy: no message within the time limit. UnintelligibleAnswer. The error of the
                node's Close.
        """
        wait = self._limits.message_s
        text = self.poll(wait)
        if text is None:
            raise TransferFailed("NodeBusy", f"the node stayed silent for {wait:g} s", seconds=wait)
        try:
            message = decode(text, kind)
        except MalformedMessage as error:
            raise TransferFailed("UnintelligibleAnswer", one_line(error.message)) from error
        self._state = advance(self._state, message)
        return message

    def poll(self, wait_s: float) -> str | None:
        """Return the next text undecoded, or None if there is none within `wait_s` seconds."""
        try:
            message = self._socket.recv(timeout=wait_s)
        except TimeoutError:
            return None
        except websockets.ConnectionClosed as closed:
            raise closing_error(closed) from closed
        if not isinstance(message, str):
            raise TransferFailed(
                "UnintelligibleAnswer", "the node sent a binary message; the protocol has only text"
            )
        return message

    def close(self, reason: str) -> None:
        """Close the socket normally."""
        self._socket.close(CLOSE_NORMAL, reason)


def closing_error(closed: websockets.ConnectionClosed) -> NodeError:
    """Convert a Close into an error: code 1011 has an error message, other codes are a hang-up."""
    frame = closed.rcvd
    if frame is not None and frame.code == CLOSE_INTERNAL:
        try:
            document = json.loads(frame.reason)
        except ValueError:
            return NodeFailed(f"the node gave up: {one_line(frame.reason) or 'no reason given'}")
        return error_in(document) or NodeFailed("the node gave up without saying why")
    if closed.sent is not None and closed.rcvd_then_sent is False and closed.sent.code == 1009:
        return TransferFailed("the node sent a message longer than this client takes")
    code = frame.code if frame is not None else None
    return Disconnected(f"the node hung up in the middle of the exchange (code {code})", code=code)


def error_in(document: Any) -> NodeError | None:
    """Convert `{"Err": {"Variant": {…}}}` into a typed error; None if the document is no error."""
    error = document.get("Err") if isinstance(document, dict) else None
    if not isinstance(error, dict) or len(error) != 1:
        return None
    variant, facts = next(iter(error.items()))
    return error_of(variant, facts)


def error_of(variant: str, facts: Any) -> NodeError:
    """Convert an error variant of the protocol into one of our errors."""
    make = ERRORS.get(variant)
    if make is None or not isinstance(facts, dict):
        return NodeFailed(f"the node reports {one_line(variant)}")
    return make({key: _shown(value) for key, value in facts.items()})


def _shown(value: Any) -> str:
    """Return a fact as safe text; a phase becomes `Push CompleteRequest`."""
    if isinstance(value, dict):
        value = " ".join(f"{key} {part}" for key, part in value.items())
    return one_line(str(value))


def _internal(facts: dict[str, str]) -> NodeError:
    phase = facts.get("phase", "")
    return NodeFailed(
        f"the node reports: {facts.get('error_message', 'Internal error')}"
        f"{' at ' if phase else ''}{phase}",
        phase=phase or None,
    )


ERRORS: dict[str, Callable[[dict[str, str]], NodeError]] = {
    "Internal": _internal,
    "InvalidInterval": lambda _: Diverged(),
    "InvalidHead": lambda facts: Conflict(
        "HeadMoved",
        "the head on the node was moved by somebody else in the meantime; push again",
        # the protocol's two names mean the opposite of what they say
        claimed_head=facts.get("actual_head"),
        node_head=facts.get("expected_head"),
    ),
    "SeedBlockOverwriteRestricted": lambda _: seed_overwrite(),
    "RefCollision": lambda facts: Conflict(
        "RefCollision",
        f"the node has dataset {facts.get('dataset_id', '')} already, under another name",
        dataset_id=facts.get("dataset_id"),
    ),
    "NameCollision": lambda facts: Conflict(
        "NameCollision",
        f"the node has another dataset called {facts.get('dataset_alias', '')}",
        dataset_alias=facts.get("dataset_alias"),
    ),
}
"""Makers of errors by variant of the protocol's errors, in a message or in a Close."""


def error_in_text(text: str) -> NodeError | None:
    """Return the error in a message, or an error about the message if it is no JSON object."""
    try:
        document = json.loads(text)
    except ValueError:
        document = None
    if not isinstance(document, dict):
        return TransferFailed(
            "UnintelligibleAnswer", "the node confirms the push with something that is no message"
        )
    return error_in(document)
