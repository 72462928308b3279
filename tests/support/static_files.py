"""Plain HTTP servers for the client's tests: honest static files, and ones that misbehave.

The honest one is `http.server` of the standard library over a dataset folder: a third
party's server, not ours. The others answer by a function of path and headers.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from http.server import BaseHTTPRequestHandler, SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path


@dataclass
class Served:
    """A running server: its URL, and what was asked of it (method, path, headers)."""

    url: str
    requests: list[tuple[str, str, dict[str, str]]] = field(default_factory=list)

    def paths(self, prefix: str = "") -> list[str]:
        return [path for _, path, _ in self.requests if path.startswith(prefix)]


class _Quiet(SimpleHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def __init__(self, *args, seen: list, **more) -> None:
        self.seen = seen
        super().__init__(*args, **more)

    def log_message(self, *args) -> None: ...

    def send_head(self):
        self.seen.append((self.command, self.path, dict(self.headers.items())))
        return super().send_head()


@contextmanager
def static_files(folder: Path) -> Iterator[Served]:
    """Serve a folder."""
    served = Served("")
    handler = partial(_Quiet, directory=str(folder), seen=served.requests)
    with _running(ThreadingHTTPServer(("127.0.0.1", 0), handler)) as url:
        served.url = url
        yield served


Answer = Callable[[BaseHTTPRequestHandler], None]


@contextmanager
def answering(answer: Answer, host: str = "127.0.0.1") -> Iterator[Served]:
    """Serve whatever `answer(handler)` writes for each request; with host "" at all addresses."""
    served = Served("")

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *args) -> None: ...

        def do_GET(self) -> None:
            served.requests.append((self.command, self.path, dict(self.headers.items())))
            try:
                answer(self)
            except (BrokenPipeError, ConnectionResetError):
                self.close_connection = True

        do_PUT = do_POST = do_GET

    with _running(ThreadingHTTPServer((host, 0), Handler)) as url:
        served.url = url
        yield served


def send(handler: BaseHTTPRequestHandler, status: int, body: bytes = b"", **headers: str) -> None:
    """A whole answer."""
    handler.send_response(status)
    for name, value in {"Content-Length": str(len(body)), **headers}.items():
        handler.send_header(name.replace("_", "-"), value)
    handler.end_headers()
    handler.wfile.write(body)


@contextmanager
def _running(server: ThreadingHTTPServer) -> Iterator[str]:
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
