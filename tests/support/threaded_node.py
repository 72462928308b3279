"""The real service on a real socket, in a thread of the test's own process, without workers."""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from constants import apart, constants
from servers import wait_until
from service import app_of

from odf_node.service.accounts.accounts import create_token, ensure_account
from odf_node.service.processes.server import NodeServer, server_config
from odf_node.service.settings import load_settings
from odf_node.service.wiring import Node, open_node
from odf_protocol.instant import Instant
from odf_storage.stores.ports.values import Scope


@dataclass(frozen=True)
class ThreadedNode:
    """A service that answers at `url` (without a trailing slash)."""

    url: str
    node: Node
    data: Path

    @property
    def smart(self) -> str:
        return "odf+" + self.url

    def token(self, account: str = "kamu", *, expires_at: Instant | None = None) -> str:
        owner = ensure_account(self.node.stores.accounts, account, os.urandom)
        made = create_token(
            self.node.stores.accounts,
            owner,
            os.urandom,
            Instant(time.time_ns()),
            scopes=Scope,
            expires_at=expires_at,
            label="test",
        )
        return str(made)


@contextmanager
def threaded_node(data: Path, **given: Any) -> Iterator[ThreadedNode]:
    """Serve `data` until the block ends, with these settings and constants."""
    settings, others = apart(given)
    with constants(**others):
        yield from _threaded_node(data, settings, as_ever=not others)


def _threaded_node(
    data: Path, settings: dict[str, Any], *, as_ever: bool
) -> Iterator[ThreadedNode]:
    given = load_settings(data=data, port=0, workers=0, **settings)
    node = open_node(given)
    server = NodeServer(server_config(app_of(node, as_ever=as_ever), given))
    ports: list[int] = []
    server.on_listening = ports.append
    server.install_signal_handlers = lambda: None
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    try:
        wait_until(lambda: bool(ports) or not thread.is_alive(), "the service")
        yield ThreadedNode(f"http://127.0.0.1:{ports[0]}", node, data)
    finally:
        server.should_exit = True
        thread.join(timeout=90)
        node.stores.close()


@contextmanager
def linked(node: ThreadedNode) -> Iterator[socket.socket]:
    """Yield a connection to the node, for bytes that no client would send."""
    host, _, port = node.url.removeprefix("http://").partition(":")
    with socket.create_connection((host, int(port)), timeout=30) as link:
        yield link


def all_that_comes(link: socket.socket) -> bytes:
    """Return what the node sends until it closes the connection."""
    received = b""
    with suppress(ConnectionResetError):  # what nobody read is told by a reset
        while piece := link.recv(65_536):
            received += piece
    return received
