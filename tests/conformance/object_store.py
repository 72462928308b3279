"""What every `ObjectStore` promises. Subclasses give a fixture `store`."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from datetime import timedelta

import pytest
from chain_maker import some_id
from refusals import refusing

from odf_protocol.identity import DatasetAlias
from odf_protocol.instant import Instant
from odf_protocol.multihash import ARROW0_SHA3_256, HashMismatch, Multihash
from odf_storage.stores.ports import ObjectStore
from odf_storage.stores.ports.errors import ObjectNotFound
from odf_storage.stores.ports.values import ObjectInfo, ObjectKey, ObjectKind

CONTENT = b"hello"
DATASET, OTHER = some_id("one"), some_id("other")
HASH = Multihash.of(CONTENT)
KEY = ObjectKey(DATASET, ObjectKind.DATA, HASH)
LATE = Instant.parse("2200-01-01T00:00:00Z")


def later(when: Instant) -> Instant:
    return Instant(when.ns + 1)


def content_of(store: ObjectStore, key: ObjectKey) -> bytes:
    with store.open(key) as stream:
        return stream.read()


class ObjectStoreContract:
    @pytest.mark.parametrize("kind", list(ObjectKind))
    def test_what_was_put_can_be_opened(self, store: ObjectStore, kind: ObjectKind) -> None:
        key = ObjectKey(DATASET, kind, HASH)
        assert store.put(key, [b"he", b"", b"llo"]) == ObjectInfo(key, 5)
        assert store.stat(key) == ObjectInfo(key, 5)
        with store.open(key) as stream:
            assert stream.read() == CONTENT

    def test_an_empty_object_is_an_object(self, store: ObjectStore) -> None:
        key = ObjectKey(DATASET, ObjectKind.CHECKPOINT, Multihash.of(b""))
        store.put(key, [])
        assert store.stat(key) == ObjectInfo(key, 0)

    def test_content_that_does_not_hash_to_its_key_is_never_visible(
        self, store: ObjectStore
    ) -> None:
        with pytest.raises(HashMismatch):
            store.put(KEY, [b"jello"])
        assert store.stat(KEY) is None
        with pytest.raises(ObjectNotFound):
            store.open(KEY)
        assert list(store.list(DATASET)) == []

    def test_many_blocks_are_put_like_each_by_itself(self, store: ObjectStore) -> None:
        contents = [f"block {number}".encode() for number in range(40)]
        named = [(Multihash.of(content), content) for content in contents]
        store.put_blocks(DATASET, named[:20])
        store.put_blocks(DATASET, iter(named))
        store.put_blocks(DATASET, [])
        keys = [ObjectKey(DATASET, ObjectKind.BLOCK, name) for name, _ in named]
        assert [content_of(store, key) for key in keys] == contents
        assert {info.key for info in store.list(DATASET)} == set(keys)

    def test_among_many_blocks_a_wrong_one_is_never_visible(self, store: ObjectStore) -> None:
        wrong = Multihash.of(b"announced")
        named = [(HASH, CONTENT), (wrong, b"something else")]
        with pytest.raises(HashMismatch):
            store.put_blocks(DATASET, named)
        assert store.stat(ObjectKey(DATASET, ObjectKind.BLOCK, wrong)) is None

    @pytest.mark.parametrize("datasets", [1, 12], ids=["few", "many"])
    def test_objects_of_several_datasets_are_put_like_each_by_itself(
        self, store: ObjectStore, datasets: int
    ) -> None:
        owners = [some_id(f"owner {number}") for number in range(datasets)]
        wanted = [
            (ObjectKey(owner, kind, Multihash.of(content)), content)
            for kind in (ObjectKind.DATA, ObjectKind.BLOCK)
            for owner in owners
            for content in (f"{kind} of {owner}".encode(), CONTENT)
        ]
        store.put_all(wanted[:1])
        store.put_all(wanted)
        store.put_all(())
        assert [content_of(store, key) for key, _ in wanted] == [each for _, each in wanted]
        for owner in owners:
            known = {info.key for info in store.list(owner)}
            assert known == {key for key, _ in wanted if key.dataset == owner}

    @pytest.mark.parametrize("others", [0, 1, 40])
    def test_among_objects_of_several_datasets_a_wrong_one_is_never_visible(
        self, store: ObjectStore, others: int
    ) -> None:
        good = [(ObjectKey(some_id(str(n)), ObjectKind.DATA, HASH), CONTENT) for n in range(others)]
        with pytest.raises(HashMismatch):
            store.put_all([*good, (KEY, b"jello")])
        assert store.stat(KEY) is None
        assert list(store.list(DATASET)) == []

    @pytest.mark.parametrize("datasets", [1, 12], ids=["few", "many"])
    def test_references_of_several_datasets_are_written_like_each_by_itself(
        self, store: ObjectStore, datasets: int
    ) -> None:
        owners = [some_id(f"owner {number}") for number in range(datasets)]
        for text in (b"first", b"second"):
            heads = {each: Multihash.of(text + each.key) for each in owners}
            store.write_refs("head", heads)
            assert {each: store.read_ref(each, "head") for each in owners} == heads
        store.write_refs("head", {})
        assert all(list(store.list(each)) == [] for each in owners)

    def test_a_hash_of_another_algorithm_names_no_object(self, store: ObjectStore) -> None:
        key = ObjectKey(DATASET, ObjectKind.DATA, Multihash(ARROW0_SHA3_256, HASH.digest))
        with pytest.raises(HashMismatch):
            store.put(key, [CONTENT])
        assert store.stat(key) is None

    def test_a_put_that_breaks_off_leaves_nothing(self, store: ObjectStore) -> None:
        def chunks() -> Iterator[bytes]:
            yield b"he"
            raise ConnectionResetError

        with pytest.raises(ConnectionResetError):
            store.put(KEY, chunks())
        assert store.stat(KEY) is None
        assert store.put(KEY, [CONTENT]).size == 5

    def test_content_is_not_visible_before_it_is_whole(self, store: ObjectStore) -> None:
        seen: list[ObjectInfo | None] = []

        def chunks() -> Iterator[bytes]:
            yield b"he"
            seen.append(store.stat(KEY))
            yield b"llo"
            seen.append(store.stat(KEY))

        store.put(KEY, chunks())
        assert seen == [None, None]

    def test_putting_the_same_object_again_is_harmless(self, store: ObjectStore) -> None:
        store.put(KEY, [CONTENT])
        assert store.put(KEY, [CONTENT]) == ObjectInfo(KEY, 5)
        assert [info.key for info in store.list(DATASET)] == [KEY]

    def test_knowing_the_hash_of_an_object_is_not_having_its_content(
        self, store: ObjectStore
    ) -> None:
        store.put(KEY, [CONTENT])
        with pytest.raises(HashMismatch):
            store.put(KEY, [b"jello"])
        assert content_of(store, KEY) == CONTENT

    def test_many_writers_of_one_object_all_succeed(self, store: ObjectStore) -> None:
        failures: list[BaseException] = []

        def put() -> None:
            try:
                store.put(KEY, [b"he", b"llo"])
            except BaseException as failure:
                failures.append(failure)

        writers = [threading.Thread(target=put) for _ in range(8)]
        for writer in writers:
            writer.start()
        for writer in writers:
            writer.join()
        assert failures == []
        assert content_of(store, KEY) == CONTENT

    def test_absent_objects_have_no_size_and_cannot_be_opened(self, store: ObjectStore) -> None:
        assert store.stat(KEY) is None
        with pytest.raises(ObjectNotFound) as refused:
            store.open(KEY)
        assert refused.value.facts == {"kind": "data", "hash": str(HASH)}

    def test_a_deleted_object_is_gone_and_can_be_deleted_again(self, store: ObjectStore) -> None:
        store.put(KEY, [CONTENT])
        store.delete(KEY)
        assert store.stat(KEY) is None
        store.delete(KEY)

    @pytest.mark.parametrize(("offset", "rest"), [(0, b"hello"), (3, b"lo"), (5, b""), (99, b"")])
    def test_reading_starts_at_the_offset_and_past_the_end_is_empty(
        self, store: ObjectStore, offset: int, rest: bytes
    ) -> None:
        store.put(KEY, [CONTENT])
        with store.open(KEY, offset=offset) as stream:
            assert stream.read() == rest

    def test_content_is_not_shared_between_datasets_or_kinds(self, store: ObjectStore) -> None:
        store.put(KEY, [CONTENT])
        assert store.stat(ObjectKey(OTHER, ObjectKind.DATA, HASH)) is None
        assert store.stat(ObjectKey(DATASET, ObjectKind.CHECKPOINT, HASH)) is None

    def test_listing_names_every_object_of_one_dataset(self, store: ObjectStore) -> None:
        keys = {ObjectKey(DATASET, kind, HASH) for kind in ObjectKind}
        for key in keys:
            store.put(key, [CONTENT])
        store.put(ObjectKey(OTHER, ObjectKind.DATA, HASH), [CONTENT])
        assert set(store.list(DATASET)) == {ObjectInfo(key, 5) for key in keys}

    def test_copies_of_an_upload_are_objects_of_their_own(self, store: ObjectStore) -> None:
        copies = [ObjectKey(DATASET, ObjectKind.UPLOAD, HASH, f"{n:016x}") for n in (1, 2)]
        for key in copies:
            store.put(key, [CONTENT])
        assert set(store.list(DATASET)) == {ObjectInfo(key, len(CONTENT)) for key in copies}
        store.delete(copies[0])
        assert store.stat(copies[0]) is None
        with store.open(copies[1]) as stream:
            assert stream.read() == CONTENT
        with pytest.raises(HashMismatch):
            store.put(copies[0], [b"other bytes"])

    def test_a_store_publishes_references_by_name(self, store: ObjectStore) -> None:
        assert store.read_ref(DATASET, "head") is None
        store.write_ref(DATASET, "head", HASH)
        store.write_ref(DATASET, "head", Multihash.of(b"newer"))
        assert store.read_ref(DATASET, "head") == Multihash.of(b"newer")
        assert store.read_ref(OTHER, "head") is None

    def test_a_removed_dataset_leaves_nothing_and_others_stay(self, store: ObjectStore) -> None:
        for kind in ObjectKind:
            store.put(ObjectKey(DATASET, kind, HASH), [CONTENT])
        kept = ObjectKey(OTHER, ObjectKind.DATA, HASH)
        store.put(kept, [CONTENT])
        store.write_ref(DATASET, "head", HASH)
        store.write_alias(DATASET, DatasetAlias.parse("kamu/foo"))
        store.remove(DATASET)
        store.remove(DATASET)
        assert list(store.list(DATASET)) == []
        assert store.read_ref(DATASET, "head") is None
        assert store.stat(kept) is not None

    def test_every_dataset_of_which_anything_is_kept_is_listed_once(
        self, store: ObjectStore
    ) -> None:
        assert list(store.datasets()) == []
        for kind in ObjectKind:
            store.put(ObjectKey(DATASET, kind, HASH), [CONTENT])
        store.write_ref(DATASET, "head", HASH)
        store.put(ObjectKey(OTHER, ObjectKind.UPLOAD, HASH), [CONTENT])
        assert sorted(store.datasets()) == sorted([DATASET, OTHER])
        store.remove(DATASET)
        assert OTHER in list(store.datasets())

    def test_alias_and_notes_are_kept_beside_the_objects(self, store: ObjectStore) -> None:
        assert store.read_alias(DATASET) is None
        assert store.read_info(DATASET, "node") is None
        alias = DatasetAlias.parse("kamu/Foo")
        store.write_alias(DATASET, alias)
        store.write_info(DATASET, "node", "first")
        store.write_info(DATASET, "node", "second")
        assert str(store.read_alias(DATASET)) == "kamu/Foo"
        assert store.read_info(DATASET, "node") == "second"
        assert store.read_info(OTHER, "node") is None
        assert list(store.list(DATASET)) == []

    def test_a_reference_that_was_removed_is_absent_and_can_be_written_again(
        self, store: ObjectStore
    ) -> None:
        store.remove_ref(DATASET, "head")
        store.write_ref(DATASET, "head", HASH)
        store.write_ref(OTHER, "head", HASH)
        store.remove_ref(DATASET, "head")
        assert store.read_ref(DATASET, "head") is None
        assert store.read_ref(OTHER, "head") == HASH
        store.write_ref(DATASET, "head", HASH)
        assert store.read_ref(DATASET, "head") == HASH

    @pytest.mark.parametrize("name", ["", "../refs/head", "A", "a/b", ".hidden"])
    def test_a_note_has_a_plain_name(self, store: ObjectStore, name: str) -> None:
        with refusing("MalformedRef"):
            store.write_info(DATASET, name, "text")

    def test_old_objects_are_discarded_and_young_ones_are_not(self, store: ObjectStore) -> None:
        store.put(KEY, [CONTENT])
        found = store.stat(KEY)
        assert found is not None
        assert found.modified is not None
        assert [info.modified for info in store.list(DATASET)] == [found.modified]
        assert not store.discard(KEY, before=found.modified)
        assert content_of(store, KEY) == CONTENT
        assert store.discard(KEY, before=later(found.modified))
        assert store.stat(KEY) is None
        assert not store.discard(KEY, before=later(found.modified))
        assert store.put(KEY, [CONTENT]).size == 5

    def test_renewing_tells_what_is_there(self, store: ObjectStore) -> None:
        assert store.renew(KEY) is None
        store.put(KEY, [CONTENT])
        assert store.renew(KEY) == ObjectInfo(KEY, 5)

    def test_an_object_in_quarantine_is_absent_and_can_be_put_again(
        self, store: ObjectStore
    ) -> None:
        assert not store.quarantine(KEY)
        store.put(KEY, [CONTENT])
        assert store.quarantine(KEY)
        assert store.stat(KEY) is None
        assert list(store.list(DATASET)) == []
        assert store.put(KEY, [CONTENT]).size == 5
        assert store.quarantine(KEY)

    def test_nothing_is_abandoned_while_nobody_broke_off(self, store: ObjectStore) -> None:
        store.put(KEY, [CONTENT])
        assert store.remove_abandoned(before=LATE, dry_run=True) == 0
        assert store.remove_abandoned(before=LATE) == 0
        assert content_of(store, KEY) == CONTENT

    def test_what_was_put_through_the_node_is_settled(self, store: ObjectStore) -> None:
        assert store.settle(KEY) is None
        store.put(KEY, [CONTENT])
        assert store.settle(KEY) == ObjectInfo(KEY, 5)

    def test_a_transfer_url_is_for_one_object_or_means_through_the_node(
        self, store: ObjectStore
    ) -> None:
        store.put(KEY, [CONTENT])
        ttl = timedelta(minutes=1)
        for url in (store.download_url(KEY, ttl=ttl), store.upload_url(KEY, size=5, ttl=ttl)):
            assert url is None or str(HASH) in url.url
