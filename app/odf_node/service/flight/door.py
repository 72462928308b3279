"""Start and stop of the Flight SQL server of a service, if the settings name a port for it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from importlib.util import find_spec
from typing import TYPE_CHECKING

from odf_protocol.errors import NodeFault
from odf_storage.runtime.clock import Random

from ..auth.dataset_access import Callers
from ..limits.shares import Slots
from ..limits.texts import query_values
from ..query.inputs import QueryInputs
from ..query.query import Queries
from ..settings import Settings

if TYPE_CHECKING:
    from .bridge import Bridge, CallMetrics
    from .server import FlightPort, PortOptions

FLIGHT_BATCH_BYTES = 14 << 20
"""Longest batch of rows of an answer by Flight SQL; common clients take messages of 16 MiB. A row
that is longer ends the answer."""

FLIGHT_MESSAGE_BYTES = 4 << 20
"""Longest message of a client of Flight SQL."""


class FlightDoor:
    """The Flight SQL server of a service, from `start` to `stop`. gRPC is imported by `start`
    only."""

    def __init__(
        self,
        settings: Settings,
        callers: Callers,
        queries: Queries,
        inputs: QueryInputs,
        *,
        watching: Callable[[], CallMetrics],
        random: Random,
    ) -> None:
        self._settings, self._callers = settings, callers
        self._queries, self._inputs = queries, inputs
        self._watching, self._random = watching, random
        self._bridge: Bridge | None = None
        self._port: FlightPort | None = None

    @property
    def port(self) -> int | None:
        """The port of the server, also if the system chose it; None if the server is not
        running."""
        return None if self._port is None else self._port.port

    def start(self) -> None:
        """Start the server, if a port is set. Call it in the running event loop.

        Raises:
            FlightNotInstalled, FlightAddressInUse, FlightCertificatesUnusable.
        """
        if self._settings.flight_port is None:
            return
        if find_spec("grpc") is None:
            raise NodeFault(
                "FlightNotInstalled",
                "Flight SQL takes the library grpcio; install odf-node[datafusion]",
                setting="ODF_NODE_FLIGHT_PORT",
            )
        from .bridge import Bridge

        self._bridge = Bridge(asyncio.get_running_loop())
        options = self._options()
        try:
            self._port = self._opened(options, self._bridge)
        except OSError:
            raise NodeFault(
                "FlightAddressInUse",
                f"cannot listen on {options.address} for Flight SQL; choose another port"
                + (", or other certificates" if options.tls else ""),
                setting="ODF_NODE_FLIGHT_PORT",
            ) from None

    def stop(self) -> None:
        """Cancel running work and stop the server. This blocks, and the event loop must run
        meanwhile, so call it in another thread."""
        if self._bridge is not None and self._port is not None:
            self._bridge.stop()
            self._port.stop()
            self._port = None

    def _options(self) -> PortOptions:
        from .server import PortOptions

        settings = self._settings
        host = f"[{settings.host}]" if ":" in settings.host else settings.host
        files = (settings.flight_tls_key, settings.flight_tls_certificates)
        tls = None
        if (files[0] is None) != (files[1] is None):
            raise NodeFault(
                "FlightCertificatesUnusable",
                "TLS takes both the key and the certificates of Flight SQL",
                setting="ODF_NODE_FLIGHT_TLS_KEY",
            )
        if files[0] is not None and files[1] is not None:
            try:
                tls = files[0].read_bytes(), files[1].read_bytes()
            except OSError as error:
                raise NodeFault(
                    "FlightCertificatesUnusable",
                    f"the key or the certificates of Flight SQL cannot be read: {error.strerror}",
                    setting="ODF_NODE_FLIGHT_TLS_KEY",
                ) from None
        return PortOptions(
            address=f"{host}:{settings.flight_port}",
            calls=settings.flight_calls,
            message_bytes=FLIGHT_MESSAGE_BYTES,
            tls=tls,
        )

    def _opened(self, options: PortOptions, bridge: Bridge) -> FlightPort:
        from .bridge import CallersOfFlight, ObservedCall
        from .fetching import Fetching, Statements
        from .server import FlightPort, FlightSql
        from .tables import FlightTables

        settings = self._settings
        fetching = Fetching(
            Statements(self._queries, settings.query_max_rows),
            batch_bytes=FLIGHT_BATCH_BYTES,
            idle_s=settings.client_idle_s,
        )
        slots = Slots(
            "Flight calls",
            most=settings.flight_calls,
            each=settings.share_of(settings.flight_calls),
            setting="ODF_NODE_FLIGHT_CALLS",
        )
        anonymous = settings.allow_anonymous
        return FlightPort(
            options,
            CallersOfFlight(self._callers, self._random, allow_anonymous=anonymous),
            FlightSql(
                fetching,
                FlightTables(self._inputs.access, self._inputs),
                query_values(settings.query_text_bytes),
            ),
            bridge,
            slots,
            ObservedCall(self._watching(), bridge),
        )
