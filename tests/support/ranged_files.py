"""A plain static file server that knows ranges: what ours is measured against."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread


class _Ranged(SimpleHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *args) -> None: ...

    def do_HEAD(self) -> None:
        self._answer(with_body=False)

    def do_GET(self) -> None:
        self._answer(with_body=True)

    def _answer(self, *, with_body: bool) -> None:
        path = Path(self.translate_path(self.path))
        if not path.is_file():
            self.send_error(404)
            return
        content = path.read_bytes()
        first, last, status = 0, len(content) - 1, 200
        asked = self.headers.get("Range", "")
        if with_body and asked.startswith("bytes="):
            start, _, end = asked[6:].partition("-")
            status = 206
            if start:
                first, last = int(start), min(int(end), last) if end else last
            else:
                first = max(0, len(content) - int(end))
        self.send_response(status)
        self.send_header("Accept-Ranges", "bytes")
        self.send_header("Content-Length", str(last - first + 1))
        if status == 206:
            self.send_header("Content-Range", f"bytes {first}-{last}/{len(content)}")
        self.end_headers()
        if with_body:
            self.wfile.write(content[first : last + 1])


@contextmanager
def ranged_files(folder: Path) -> Iterator[str]:
    """Serve a folder; gives the URL without a slash at the end."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(_Ranged, directory=str(folder)))
    server.daemon_threads = True
    thread = Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
