"""The gRPC server, which runs each call in a thread and passes it to `FlightSql`."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus
from typing import Any

import grpc

from odf_protocol.flight import SERVICE

from ..auth.actors import Actor
from ..limits.shares import Slots
from .bridge import Bridge
from .callers import HEADER, CallersOfFlight
from .calls import Call, call_of, headers_of
from .errors import told
from .observed import Ended, Observed
from .server import FlightSql

SPARE_THREADS = 8
"""Number of threads beyond the limit of calls. They refuse the calls above that limit."""
STOP_S = 2.0
_READS: dict[str, Callable[[FlightSql], Callable[[Call, Any], Any]]] = {
    "GetFlightInfo": lambda sql: sql.get_flight_info,
    "GetSchema": lambda sql: sql.get_schema,
    "DoGet": lambda sql: sql.do_get,
    "DoAction": lambda sql: sql.do_action,
    "ListActions": lambda sql: sql.list_actions,
    "ListFlights": lambda sql: sql.list_flights,
    "DoPut": lambda sql: sql.do_put,
    "DoExchange": lambda sql: sql.do_exchange,
}
_ONE_ANSWER = frozenset({"GetFlightInfo", "GetSchema"})
_MANY_REQUESTS = frozenset({"DoPut", "DoExchange"})


@dataclass(frozen=True, slots=True, kw_only=True)
class PortOptions:
    """The address and options of the server. `calls` is the limit of concurrent calls,
    `message_bytes` that of a received message; `tls` is private key and certificates in PEM."""

    address: str
    calls: int
    message_bytes: int
    tls: tuple[bytes, bytes] | None = None


class FlightPort:
    """The server. It listens from its creation until `stop`."""

    def __init__(
        self,
        options: PortOptions,
        callers: CallersOfFlight,
        sql: FlightSql,
        bridge: Bridge,
        slots: Slots,
        observed: Observed,
    ) -> None:
        """Raises `OSError` if the address is in use, or the certificates are invalid."""
        self._callers, self._sql = callers, sql
        self._bridge, self._slots, self._observed = bridge, slots, observed
        threads = options.calls + SPARE_THREADS
        self._server = grpc.server(
            ThreadPoolExecutor(threads, "flight"),
            options=[
                ("grpc.max_receive_message_length", options.message_bytes),
                ("grpc.max_send_message_length", -1),  # another setting limits the size of batches
                ("grpc.so_reuseport", 0),
            ],
            maximum_concurrent_rpcs=2 * threads,
        )
        handlers = {name: self._handler(name) for name in _READS}
        handlers["Handshake"] = grpc.stream_stream_rpc_method_handler(self._handshake)
        self._server.add_generic_rpc_handlers(
            (grpc.method_handlers_generic_handler(SERVICE, handlers),)
        )
        self.port = self._listening(options)
        self._server.start()

    def stop(self) -> None:
        self._server.stop(STOP_S).wait()

    def _listening(self, options: PortOptions) -> int:
        try:
            if options.tls is None:
                return int(self._server.add_insecure_port(options.address))
            secured = grpc.ssl_server_credentials([options.tls])
            return int(self._server.add_secure_port(options.address, secured))
        except RuntimeError as error:  # gRPC raises this for every cause
            raise OSError(str(error)) from None

    def _handler(self, name: str) -> grpc.RpcMethodHandler:
        if name in _ONE_ANSWER:
            return grpc.unary_unary_rpc_method_handler(partial(self._once, name))
        if name in _MANY_REQUESTS:
            return grpc.stream_stream_rpc_method_handler(partial(self._stream, name))
        return grpc.unary_stream_rpc_method_handler(partial(self._stream, name))

    def _handshake(
        self, _requests: Iterator[bytes], context: grpc.ServicerContext
    ) -> Iterator[bytes]:
        def shaken(actor: Actor) -> Iterator[bytes]:
            context.send_initial_metadata(((HEADER, self._callers.answer_to(actor)),))
            yield from ()

        yield from self._guarded("Handshake", context, shaken)

    def _once(self, name: str, request: bytes, context: grpc.ServicerContext) -> bytes:
        [answer] = self._stream(name, request, context)
        return answer

    def _stream(self, name: str, request: Any, context: grpc.ServicerContext) -> Iterator[bytes]:
        def answers(actor: Actor) -> Iterator[bytes]:
            call = call_of(context, actor, self._bridge, self._slots)
            found = _READS[name](self._sql)(call, request)
            if name in _ONE_ANSWER:
                yield found
            else:
                yield from found

        yield from self._guarded(name, context, answers)

    def _guarded(
        self,
        name: str,
        context: grpc.ServicerContext,
        answers: Callable[[Actor], Iterator[bytes]],
    ) -> Iterator[bytes]:
        """Yield the responses. Any error ends the call with its status. Every call is recorded."""
        began, sent, refused = time.perf_counter(), 0, None
        actor: Actor | None = None
        status = HTTPStatus.OK
        try:
            actor = self._callers.of(headers_of(context))
            for answer in answers(actor):
                sent += len(answer)
                yield answer
        except Exception as error:
            status, *refused = told(error)
        finally:
            seconds = time.perf_counter() - began
            self._observed.ended(Ended(name, context.peer(), actor, status, sent, seconds))
        if refused:
            context.abort(*refused)
