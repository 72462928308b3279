"""What a keyed store promises. Subclasses give `store`."""

from __future__ import annotations

import io
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from refusals import refusing

from odf_storage.stores.ports import KeyedReads, KeyedStore
from odf_storage.stores.ports.errors import KeyedFileTooLarge, KeyNotFound, SwapLost
from odf_storage.stores.ports.keyed import LinkSource

ODD = "u/indices/a%20b/2026-11-21T02%3A45%3A11%2B00%3A00.by index,~(1)'.parquet"


def keys(store: KeyedReads, folder: str) -> list[str]:
    return sorted(info.key for info in store.list(folder))


class KeyedReadsContract:
    """Subclasses of stores that are only read give `filled`, which writes what is read."""

    lists = True

    @pytest.fixture
    def filled(self, store: KeyedStore) -> KeyedStore:
        return store

    def test_percent_signs_are_part_of_a_key(self, store: KeyedReads, filled: KeyedStore) -> None:
        filled.put(ODD, [b"one", b"two"])
        found = store.read(ODD, most=6)
        assert found is not None
        assert found.raw == b"onetwo"
        assert store.read(ODD.replace("%20", " "), most=6) is None

    def test_a_listing_begins_at_a_slash(self, store: KeyedReads, filled: KeyedStore) -> None:
        for key in (ODD, "u/a", "u/b/c", "uv/d", "u.json"):
            filled.put(key, [b"x"])
        if not self.lists:
            with refusing("KeysNotListed"):
                keys(store, "u")
            return
        assert keys(store, "u") == sorted([ODD, "u/a", "u/b/c"])
        assert keys(store, "absent") == []

    def test_what_is_absent_is_none_or_not_found(self, store: KeyedReads) -> None:
        assert store.read("absent", most=1) is None
        with pytest.raises(KeyNotFound):
            store.open("absent/too")

    def test_no_more_is_read_than_is_asked_for(self, store: KeyedReads, filled: KeyedStore) -> None:
        filled.put("k", [b"123"])
        with pytest.raises(KeyedFileTooLarge):
            store.read("k", most=2)

    def test_a_file_is_read_from_any_place(self, store: KeyedReads, filled: KeyedStore) -> None:
        filled.put(ODD, [bytes(range(256))])
        with store.open(ODD) as stream:
            assert stream.seek(-6, io.SEEK_END) == 250
            assert stream.read(3) == bytes([250, 251, 252])
            stream.seek(7)
            assert stream.read(1) == b"\7"

    def test_the_tag_changes_with_the_content(self, store: KeyedReads, filled: KeyedStore) -> None:
        tags = []
        for content in (b"old", b"new"):
            filled.put("k", [content])
            found = store.read("k", most=3)
            assert found is not None
            tags.append(found.tag)
        assert tags[0] != tags[1]


class KeyedStoreContract(KeyedReadsContract):
    def test_what_is_absent_may_be_deleted(self, store: KeyedStore) -> None:
        store.delete(["absent"])

    def test_a_put_replaces_and_changes_the_tag(self, store: KeyedStore) -> None:
        store.put("k", [b"old"])
        before = store.read("k", most=10)
        store.put("k", [b"new"])
        after = store.read("k", most=10)
        assert before is not None
        assert after is not None
        assert (before.raw, after.raw) == (b"old", b"new")
        assert before.tag != after.tag

    def test_a_put_that_breaks_off_leaves_what_was_there(self, store: KeyedStore) -> None:
        def broken() -> Iterator[bytes]:
            yield b"half"
            raise RuntimeError

        store.put("u/k", [b"old"])
        with pytest.raises(RuntimeError):
            store.put("u/k", broken())
        found = store.read("u/k", most=10)
        assert found is not None
        assert found.raw == b"old"
        assert keys(store, "u") == ["u/k"]

    def test_a_swap_replaces_only_what_was_expected(self, store: KeyedStore) -> None:
        first = store.swap("u.json", b"1", expected=None)
        for expected in (None, "other"):
            with pytest.raises(SwapLost):
                store.swap("u.json", b"x", expected=expected)
        second = store.swap("u.json", b"2", expected=first)
        found = store.read("u.json", most=1)
        assert found is not None
        assert (found.raw, found.tag) == (b"2", second)
        store.delete(["u.json"])
        with pytest.raises(SwapLost):
            store.swap("u.json", b"3", expected=second)

    def test_one_of_many_swaps_wins(self, store: KeyedStore) -> None:
        tag = store.swap("u.json", b"0", expected=None)

        def swap(number: int) -> bool:
            try:
                store.swap("u.json", str(number).encode(), expected=tag)
            except SwapLost:
                return False
            return True

        with ThreadPoolExecutor(8) as pool:
            assert sum(pool.map(swap, range(1, 9))) == 1

    def test_bytes_are_linked_from_a_stream(self, store: KeyedStore) -> None:
        store.link("u/linked", LinkSource(open=lambda: io.BytesIO(b"bytes")))
        found = store.read("u/linked", most=5)
        assert found is not None
        assert found.raw == b"bytes"

    def test_what_is_deleted_is_gone_from_listings(self, store: KeyedStore) -> None:
        for key in ("u/a", "u/b/c", "u/b/d"):
            store.put(key, [b"x"])
        store.delete(["u/a", "u/b/c", "u/absent"])
        assert keys(store, "u") == ["u/b/d"]
