"""Keyed stores: one contract on folders and buckets, and what only one of them can do."""

from __future__ import annotations

import io
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from backends import fresh_place
from buckets import log_in
from refusals import refusing
from tests.conformance.keyed_store import KeyedStoreContract

from odf_storage.stores.keyed.folder import Below, FolderKeyedStore, open_keyed_store
from odf_storage.stores.ports import KeyedStore
from odf_storage.stores.ports.errors import KeyNotFound, KeyRefused
from odf_storage.stores.ports.keyed import BucketPlace, LinkSource


class TestFolder(KeyedStoreContract):
    @pytest.fixture
    def store(self, tmp_path: Path) -> KeyedStore:
        return FolderKeyedStore(tmp_path / "store", durable=False)


class TestDurableFolder(KeyedStoreContract):
    @pytest.fixture
    def store(self, tmp_path: Path) -> KeyedStore:
        return open_keyed_store((tmp_path / "a store").as_uri())


class TestBelow(KeyedStoreContract):
    @pytest.fixture
    def store(self, tmp_path: Path) -> KeyedStore:
        return Below(FolderKeyedStore(tmp_path, durable=False), "part/of it")


class TestBucket(KeyedStoreContract):
    @pytest.fixture
    def store(
        self, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
    ) -> Iterator[KeyedStore]:
        log_in(monkeypatch, request.getfixturevalue("s3"))
        return open_keyed_store(fresh_place(request))

    def test_a_server_copies_what_it_keeps(self, store: KeyedStore) -> None:
        store.put("a%3Ab", [b"bytes"])
        its = store._bucket.location  # type: ignore[attr-defined]

        def unread() -> io.BytesIO:
            raise AssertionError

        place = BucketPlace(its.endpoint, its.bucket, f"{its.prefix}a%3Ab")
        store.link("u/c%20d", LinkSource(open=unread, place=place))
        found = store.read("u/c%20d", most=5)
        assert found is not None
        assert found.raw == b"bytes"


def test_no_key_leads_out_of_a_part_of_a_store(tmp_path: Path) -> None:
    whole = FolderKeyedStore(tmp_path, durable=False)
    whole.put("secret", [b"x"])
    part = Below(whole, "part")
    for key in ("../secret", "/secret", "a/../../secret"):
        with pytest.raises(KeyRefused):
            part.read(key, most=10)


@pytest.fixture
def folder(tmp_path: Path) -> FolderKeyedStore:
    return FolderKeyedStore(tmp_path / "store", durable=False)


def test_a_file_of_the_machine_gets_a_second_name(folder, tmp_path):
    source = tmp_path / "slice"
    source.write_bytes(b"bytes")
    for _ in range(2):
        folder.link("u/table/b.parquet", LinkSource(open=lambda: source.open("rb"), path=source))
    assert (folder.root / "u/table/b.parquet").stat().st_ino == source.stat().st_ino
    assert [info.key for info in folder.list("u")] == ["u/table/b.parquet"]
    assert len(list((folder.root / "u/table").iterdir())) == 1


def test_a_link_of_others_does_not_lead_out_of_the_folder(folder, tmp_path):
    (tmp_path / "secret").write_text("secret")
    folder.put("u/a", [b"x"])
    (folder.root / "u/out").symlink_to(tmp_path)
    for use in (lambda key: folder.read(key, most=9), folder.open):
        with pytest.raises(KeyRefused, match="leads out"):
            use("u/out/secret")


@pytest.mark.parametrize("key", ["../a", "/etc/passwd", "u/./a", "a\0b", "x" * 300])
def test_keys_that_no_folder_has_are_refused(folder, key):
    folder.put("u", [b"x"])
    for use in (lambda: folder.open(key), lambda: folder.put(key, [b""])):
        with pytest.raises(KeyRefused):
            use()


def test_a_folder_or_a_pipe_is_no_file(folder):
    folder.put("u/a", [b"x"])
    os.mkfifo(folder.root / "u" / "pipe")
    for key in ("u", "u/pipe", "u/a/b"):
        with pytest.raises(KeyNotFound):
            folder.open(key)


@pytest.mark.parametrize("url", ["file://host/a", "file:a", "/a", "http://a/b", "file:///a?b"])
def test_other_urls_name_no_store(url):
    with refusing("MalformedKeyedStoreUrl"):
        open_keyed_store(url)
