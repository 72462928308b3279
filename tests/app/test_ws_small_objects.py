"""Small objects of a smart pull: in the node's answer, for clients that take them so."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pytest
from service import SCHEMA, Chain, Service, described, seeded
from websockets.sync.client import ClientConnection, connect

from odf_node.client.nodes.http import TransferFailed
from odf_node.client.nodes.remotes import Location
from odf_node.client.transfer import smart_pull, sync
from odf_node.service.auth.actors import AccessToken
from odf_node.service.transfer import pull as node_pull
from odf_protocol.metadata.events import SetDataSchema
from odf_protocol.multihash import Multihash
from odf_protocol.transfer.messages import INLINE
from odf_storage.datasets.verify.run import FolderSource, verify_chain
from odf_storage.stores.objects import files, pending_files
from odf_storage.stores.objects.pending_files import FolderObjects
from odf_storage.stores.ports.values import ObjectKey, ObjectKind, Visibility

SLICES = 60


@dataclass
class Kept:
    """A private dataset of small slices on a node."""

    chain: Chain
    name: str
    token: str
    slices: dict[Multihash, bytes]

    def files(self) -> list[dict[str, Any]]:
        return [
            {"object_type": "DataSlice", "physical_hash": str(name), "size": len(content)}
            for name, content in self.slices.items()
        ]


@pytest.fixture
def kept(single: Service) -> Kept:
    chain = seeded().add(described(), SetDataSchema(schema=SCHEMA))
    for _ in range(SLICES):
        chain.add_rows(1)
    name = f"small-{chain.id.key.hex()[:12]}"
    single.keep(chain, f"kamu/{name}", Visibility.PRIVATE)
    slices = {name: content for (_, name), content in chain.objects.items()}
    return Kept(chain, name, single.token(), slices)


@contextmanager
def asking(single: Service, kept: Kept, takes: str | None) -> Iterator[ClientConnection]:
    """A pull that has the blocks."""
    headers = {"x-odf-smtp-version": "1", "authorization": f"Bearer {kept.token}"}
    if takes is not None:
        headers["x-odf-node-objects"] = takes
    url = f"{single.url.replace('http', 'ws')}/{kept.name}/pull"
    with connect(url, additional_headers=headers, max_size=None) as socket:
        ask(socket, {"begin_after": None, "stop_at": None, "force_update_if_diverged": False})
        ask(socket, {})
        yield socket


def ask(socket: ClientConnection, message: dict[str, Any]) -> dict[str, Any]:
    socket.send(json.dumps(message))
    return json.loads(socket.recv(timeout=90))


def urls(socket: ClientConnection, kept: Kept) -> dict[Multihash, str]:
    answer = ask(socket, {"object_files": kept.files()})
    return {
        Multihash.parse(each["object_file"]["physical_hash"]): each["download_from"]["url"]
        for each in answer["object_transfer_strategies"]
    }


def is_inline(url: str) -> bool:
    return url.startswith(INLINE)


def test_who_takes_small_objects_in_urls_gets_them_whole(single, kept):
    with asking(single, kept, "inline") as socket:
        found = urls(socket, kept)
    assert {name: base64.b64decode(url[len(INLINE) :]) for name, url in found.items()} == (
        kept.slices
    )


@pytest.mark.parametrize("takes", [None, "INLINE", "inline, other"])
def test_who_does_not_ask_so_gets_addresses(single, kept, takes):
    with asking(single, kept, takes) as socket:
        found = urls(socket, kept)
    assert all(url.startswith(single.url) for url in found.values())
    assert len(found) == SLICES


def test_large_objects_and_those_beyond_the_limit_of_an_answer_get_addresses(
    single, kept, monkeypatch
):
    sizes = {name: len(content) for name, content in kept.slices.items()}
    largest = max(sizes.values())
    monkeypatch.setattr(node_pull, "INLINE_BYTES", largest - 1)
    with asking(single, kept, "inline") as socket:
        found = urls(socket, kept)
        assert {name for name, url in found.items() if is_inline(url)} == {
            name for name, size in sizes.items() if size < largest
        }
        monkeypatch.setattr(node_pull, "INLINE_BYTES", largest)
        monkeypatch.setattr(node_pull, "INLINE_TOTAL_BYTES", 5 * largest)
        sent = [sizes[name] for name, url in urls(socket, kept).items() if is_inline(url)]
    assert 4 * largest < sum(sent) <= 5 * largest


def test_who_lost_the_right_to_read_gets_no_object_by_an_open_socket(single, kept):
    with asking(single, kept, "inline") as socket:
        assert all(map(is_inline, urls(socket, kept).values()))
        single.node.stores.accounts.revoke_token(AccessToken.parse(kept.token).stored_id)
        found = urls(socket, kept)
    assert not any(map(is_inline, found.values()))
    with single.http(kept.token) as client:
        assert client.get(next(iter(found.values()))).status_code in (401, 404)


def test_a_damaged_object_is_left_to_its_address_which_tells_of_it(single, kept):
    name, content = next(iter(kept.slices.items()))
    key = ObjectKey(kept.chain.id, ObjectKind.DATA, name)
    single.node.stores.objects.local_paths.path(key).write_bytes(b"x" * len(content))
    with asking(single, kept, "inline") as socket:
        found = urls(socket, kept)
    assert [each for each, url in found.items() if not is_inline(url)] == [name]


def test_a_pull_of_many_small_slices_takes_no_request_for_them_and_few_syncs(
    single, kept, tmp_path, monkeypatch
):
    synced: list[object] = []
    monkeypatch.setattr(files, "sync_folder", lambda folder: synced.append(folder))
    monkeypatch.setattr(pending_files, "sync_file_system", lambda *told: synced.append(told))
    monkeypatch.setattr("os.fsync", synced.append)
    monkeypatch.setattr(pending_files, "FEW", 4)
    monkeypatch.delattr(smart_pull, "open_body")
    source = Location.parse(f"odf+{single.url}/{kept.name}")
    pulled = sync.pull(source, Location.parse(str(tmp_path / "copy")), token=kept.token)
    assert (pulled.objects, pulled.new_head) == (SLICES, kept.chain.head)
    assert len(synced) < SLICES // 2
    monkeypatch.undo()
    assert not verify_chain(FolderSource(FolderObjects(tmp_path / "copy"))).problems


@pytest.mark.parametrize("simple", [False, True])
def test_what_arrived_before_a_failure_is_kept_and_not_fetched_again(
    single, kept, tmp_path, simple
):
    *_, name = kept.slices
    path = single.node.stores.objects.local_paths.path(
        ObjectKey(kept.chain.id, ObjectKind.DATA, name)
    )
    path.unlink()
    source = Location.parse(f"{'' if simple else 'odf+'}{single.url}/{kept.name}")
    target = Location.parse(str(tmp_path / "copy"))
    with pytest.raises(Exception, match=str(name)):
        sync.pull(source, target, token=kept.token)
    there = {each.hash for each in FolderObjects(tmp_path / "copy").list()}
    assert there
    assert there <= set(kept.slices)
    single.node.stores.objects.put(
        ObjectKey(kept.chain.id, ObjectKind.DATA, name), [kept.slices[name]]
    )
    assert sync.pull(source, target, token=kept.token).objects == SLICES - len(there)


def test_an_object_that_is_no_base64_or_another_one_is_refused(single, kept, tmp_path, monkeypatch):
    source = Location.parse(f"odf+{single.url}/{kept.name}")
    target = Location.parse(str(tmp_path / "copy"))
    for text, error in (("no base64!", TransferFailed), ("AAAA", Exception)):
        monkeypatch.setattr(node_pull, "INLINE", INLINE + text)
        with pytest.raises(error):
            sync.pull(source, target, token=kept.token)
        assert not (tmp_path / "copy" / "refs" / "head").exists()
    assert smart_pull.content_of(INLINE + "AAAA") == b"\0\0\0"
