"""The port of Flight SQL of one service: opened, if the settings name one, and closed."""

from __future__ import annotations

import asyncio

import pyarrow as pa
import pyarrow.flight as fl

from odf_node.protocol.errors import NodeFault
from odf_node.storage.runtime.randomness import Random

from ..auth.callers import Callers
from ..limits.shares import Slots
from ..query.inputs import Inputs
from ..query.query import Queries
from ..settings import Settings
from .bridge import Bridge
from .callers import CallerFactory
from .fetching import Fetching
from .server import FlightServer, Serves
from .statements import Statements
from .tables import Tables


class FlightAddressInUse(NodeFault):
    """The port of Flight SQL could not be listened on."""


class FlightDoor:
    """Closed until `start`."""

    def __init__(
        self, settings: Settings, callers: Callers, queries: Queries, inputs: Inputs, random: Random
    ) -> None:
        self._settings, self._queries, self._inputs = settings, queries, inputs
        self._callers = CallerFactory(callers, random, allow_anonymous=settings.allow_anonymous)
        self._bridge: Bridge | None = None
        self._server: FlightServer | None = None

    @property
    def port(self) -> int | None:
        """The port listened on, also when the settings left the choice to the system."""
        return None if self._server is None else int(self._server.port)

    def start(self) -> None:
        """Listen, if a port is set. By the thread of the event loop, which has to be running.

        Raises:
            FlightAddressInUse.
        """
        settings = self._settings
        if settings.flight_port is None:
            return
        self._bridge = Bridge(asyncio.get_running_loop())
        host = f"[{settings.host}]" if ":" in settings.host else settings.host
        address = f"grpc://{host}:{settings.flight_port}"
        try:
            self._server = FlightServer(address, self._callers, self._serves(self._bridge))
        except (pa.ArrowException, fl.FlightError, OSError):
            raise FlightAddressInUse(
                f"cannot listen on {settings.host}:{settings.flight_port} for Flight SQL; choose "
                "another port",
                setting="ODF_NODE_FLIGHT_PORT",
            ) from None

    def stop(self) -> None:
        """Give up what is under way, and listen no longer. Blocks, while the loop still runs."""
        if self._bridge is not None and self._server is not None:
            self._bridge.stop()
            self._server.shutdown()
            self._server = None

    def _serves(self, bridge: Bridge) -> Serves:
        settings = self._settings
        return Serves(
            fetching=Fetching(
                Statements(self._queries, settings.query_max_rows),
                batch_bytes=settings.flight_batch_bytes,
                idle_s=settings.flight_idle_s,
            ),
            tables=Tables(self._inputs.access, self._inputs),
            bridge=bridge,
            slots=Slots(
                "Flight calls",
                most=settings.flight_calls,
                each=settings.flight_calls_caller,
                settings=("ODF_NODE_FLIGHT_CALLS", "ODF_NODE_FLIGHT_CALLS_CALLER"),
            ),
        )
