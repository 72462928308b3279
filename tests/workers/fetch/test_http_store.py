"""Files behind a web server keep what a keyed store promises to those that read."""

from __future__ import annotations

import gzip
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from refusals import refusing
from static_files import static_files
from tests.conformance.keyed_store import KeyedReadsContract
from tests.workers.fetch.conftest import NOW
from web_server import Answer, web_server

from odf_storage.stores.keyed.folder import FolderKeyedStore
from odf_storage.stores.ports import KeyedStore
from odf_storage.stores.ports.errors import KeyedFileTooLarge, KeyRefused
from odf_workers.fetch.http import client_of
from odf_workers.fetch.kartothek import HttpKeyedStore
from odf_workers.fetch.values import Deadline, FetchRequest


@pytest.fixture
def folder(tmp_path: Path) -> KeyedStore:
    return FolderKeyedStore(tmp_path / "web" / "a b", durable=False)


@pytest.fixture
def store(
    tmp_path: Path, asked: Callable[..., FetchRequest], folder: KeyedStore
) -> Iterator[HttpKeyedStore]:
    request = asked(max_bytes=1 << 20)
    folder.put("there", [b""])
    with static_files(tmp_path / "web") as served, client_of(request.rules) as client:
        yield HttpKeyedStore(
            client,
            f"{served.url}a%20b",
            {},
            request.rules,
            deadline=Deadline(request.rules),
            folder=request.folder,
            now=NOW,
        )
        assert list(request.folder.iterdir()) == []


class TestWeb(KeyedReadsContract):
    lists = False

    @pytest.fixture
    def filled(self, folder: KeyedStore) -> KeyedStore:
        return folder


@pytest.mark.parametrize("key", ["../a", "/etc/passwd", "u/./a", "u//a", ""])
def test_keys_that_lead_elsewhere_are_not_asked_for(store, key):
    for use in (store.open, lambda key: store.read(key, most=9)):
        with pytest.raises(KeyRefused):
            use(key)


def test_no_file_is_larger_than_a_fetch_may_be(store, folder):
    folder.put("large", [bytes((1 << 20) + 1)])
    with refusing("FetchedTooLarge"):
        store.open("large")


def test_a_short_answer_does_not_become_a_large_file(asked):
    request = asked(max_bytes=1 << 20)
    packed = Answer(200, {"Content-Encoding": "gzip"}, gzip.compress(bytes(64 << 20)))
    with web_server(lambda _: packed) as server, client_of(request.rules) as client:
        store = HttpKeyedStore(
            client,
            f"http://srv.test:{server.port}",
            {},
            request.rules,
            deadline=Deadline(request.rules),
            folder=request.folder,
            now=NOW,
        )
        tracemalloc.start()
        try:
            with pytest.raises(KeyedFileTooLarge):
                store.read("key", most=1 << 20)
            with refusing("FetchedTooLarge"):
                store.open("key")
            assert tracemalloc.get_traced_memory()[1] < 8 << 20
        finally:
            tracemalloc.stop()
