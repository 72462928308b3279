"""Transfers with peers that are busy or have moved: repeated when they ask for it, then told."""

from __future__ import annotations

import dataclasses
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from chains import make_dataset
from refusals import refusing
from service import serving

from odf_node.client.nodes.http import DatasetMissing, Overloaded, TransferFailed, with_retries
from odf_node.client.nodes.limits import LIMITS
from odf_node.client.nodes.remotes import Location
from odf_node.client.transfer import sync
from odf_node.client.transfer.socket import conversation
from odf_storage.stores.ports.values import Visibility

NOTHING = b""


@contextmanager
def files(folder: Path, *, busy: int, status: int = 429) -> Iterator[tuple[str, Counter[str]]]:
    """A file server that refuses each file as often, with `Retry-After`; it takes PUT as well."""
    seen: Counter[str] = Counter()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_: object) -> None:
            pass

        def _answer(self, code: int, body: bytes = NOTHING, **headers: str) -> None:
            self.send_response(code)
            for name, value in {**headers, "Content-Length": str(len(body))}.items():
                self.send_header(name.replace("_", "-"), value)
            self.end_headers()
            self.wfile.write(body)

        def do_GET(self) -> None:
            seen[self.path] += 1
            path = folder / self.path.lstrip("/")
            if seen[self.path] <= busy:
                self._answer(status, Retry_After="0")
            elif "upgrade" in self.headers:
                self._answer(404)
            elif path.is_file():
                self._answer(200, path.read_bytes())
            else:
                self._answer(404)

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/", seen
    finally:
        server.shutdown()
        server.server_close()


@pytest.mark.parametrize("status", [429, 503])
def test_heads_blocks_and_data_are_asked_for_again_as_often_as_the_server_wants(tmp_path, status):
    ours = make_dataset(tmp_path / "ours", rows=[3])
    with files(ours.folder, busy=4, status=status) as (url, seen):
        done = sync.pull(Location.parse(url), Location.parse(str(tmp_path / "copy")))
    assert done.new_head == ours.head
    assert {path for path, times in seen.items() if times > 4} >= {"/refs/head"}
    assert min(seen.values()) == 5


def test_an_upgrade_is_asked_for_again_when_the_node_is_busy(tmp_path):
    with (
        files(tmp_path, busy=4, status=503) as (url, seen),
        pytest.raises(DatasetMissing),
        conversation(Location.parse(f"odf+{url}"), "pull", None),
    ):
        pass
    assert seen["/pull"] == 5


def test_a_peer_that_stays_busy_is_left_at_the_deadline(tmp_path):
    limits = dataclasses.replace(LIMITS, repeat_s=1.0)
    began = time.monotonic()
    with files(tmp_path, busy=10_000) as (url, _), pytest.raises(Overloaded, match="429"):
        sync.pull(Location.parse(url), Location.parse(str(tmp_path / "copy")), limits=limits)
    assert time.monotonic() - began < 100  # of 300, unless asked otherwise


def test_a_time_beyond_the_deadline_is_not_waited_for() -> None:
    def busy() -> None:
        raise Overloaded("busy", status=429, retry_after_s=3600)

    with pytest.raises(Overloaded):
        with_retries(busy, limits=LIMITS)


def test_a_redirected_upgrade_names_the_address_to_use(tmp_path: Path) -> None:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_: object) -> None:
            pass

        def do_GET(self) -> None:
            self.send_response(301)
            self.send_header("Content-Length", "0")
            self.send_header("Location", f"https://other.example{self.path}")
            self.end_headers()

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    location = Location.parse(f"odf+http://127.0.0.1:{server.server_port}/kamu/foo/")
    try:
        with pytest.raises(TransferFailed) as told, conversation(location, "pull", None):
            pass
    finally:
        server.shutdown()
        server.server_close()
    assert "odf+https://other.example/kamu/foo/" in told.value.message


def test_a_push_to_the_place_of_another_dataset_says_so_at_once(tmp_path: Path) -> None:
    ours = make_dataset(tmp_path / "ours", rows=[3], key=21)
    other = make_dataset(tmp_path / "other", rows=[2], key=22)
    with serving(tmp_path / "node") as service:
        where: Any = Location.parse(f"odf+{service.url}/foo")
        given = {"token": service.token(), "visibility": Visibility.PUBLIC}
        sync.push(Location.parse(str(other.folder)), where, **given)
        for force in (False, True):
            with refusing("SeedOverwrite") as told:
                sync.push(Location.parse(str(ours.folder)), where, force=force, **given)
            assert "another dataset" in told.value.message
            assert "--force" not in told.value.message
