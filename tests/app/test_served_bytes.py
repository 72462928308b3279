"""Wrong bytes never leave as the whole of an object, whatever way an answer takes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx
import pytest
from service import Service, seeded, serving, ten_rows

from odf_protocol.multihash import Multihash
from odf_storage.stores.ports.values import ObjectKey, ObjectKind, Visibility

LARGE = 5 * 1024 * 1024 + 17
SIZES = {"tiny": 300, "small": 20_000, "middling": 300_000, "large": LARGE}


@pytest.fixture
def service(tmp_path: Path) -> Any:
    with serving(tmp_path / "node") as service:
        yield service


def flip(path: Path, at: int) -> None:
    content = bytearray(path.read_bytes())
    content[at] ^= 1
    path.chmod(0o644)
    path.write_bytes(content)


def stored(service: Service, size: int) -> tuple[ObjectKey, bytes, Path]:
    """A file of some size beside the slices of a public dataset."""
    entry = service.keep(ten_rows(), "kamu/foo", Visibility.PUBLIC)
    content = bytes(range(256)) * (size // 256 + 1)
    content = content[:size]
    key = ObjectKey(entry.id, ObjectKind.DATA, Multihash.of(content))
    service.node.stores.objects.put(key, [content])
    return key, content, service.node.stores.objects.path(key)  # type: ignore[attr-defined]


@pytest.mark.parametrize("warm", [False, True], ids=["first", "again"])
@pytest.mark.parametrize("place", ["begin", "end"])
@pytest.mark.parametrize("size", SIZES)
def test_a_flipped_bit_never_leaves_in_a_whole_answer(
    service: Service, size: str, place: str, warm: bool
) -> None:
    key, content, path = stored(service, SIZES[size])
    url = f"/foo/data/{key.hash}"
    with service.http() as client:
        if warm:  # the quickest way there is
            for _ in range(3):
                assert client.get(url).content == content
        flip(path, 0 if place == "begin" else len(content) - 1)
        if size == "large":  # fewer bytes come than were announced
            with pytest.raises(httpx.RemoteProtocolError):
                client.get(url)
        else:
            answer = client.get(url)
            assert (answer.status_code, answer.json()["hash"]) == (500, str(key.hash))
        assert client.get(url).status_code == 404  # put aside
        assert service.node.stores.damages.count() == 1
        service.node.stores.objects.put(key, [content])
        assert client.get(url).content == content


@pytest.mark.parametrize("size", SIZES)
def test_parts_of_a_damaged_object_are_refused(service: Service, size: str) -> None:
    key, content, path = stored(service, SIZES[size])
    flip(path, len(content) - 1)
    with service.http() as client:
        part = client.get(f"/foo/data/{key.hash}", headers={"range": "bytes=0-9"})
    assert (part.status_code, part.json()["hash"]) == (500, str(key.hash))


@pytest.mark.parametrize("size", SIZES)
def test_parts_of_a_whole_object_are_served(service: Service, size: str) -> None:
    key, content, _ = stored(service, SIZES[size])
    with service.http() as client:
        for _ in range(2):
            part = client.get(f"/foo/data/{key.hash}", headers={"range": "bytes=100-199"})
            assert (part.status_code, part.content) == (206, content[100:200])


@pytest.mark.parametrize("harm", ["flip", "cut", "empty", "lose"])
@pytest.mark.parametrize("warm", [False, True], ids=["first", "again"])
def test_a_block_is_healed_from_the_index_while_it_is_asked_for(
    service: Service, harm: str, warm: bool
) -> None:
    chain = seeded()
    entry = service.keep(chain, "kamu/foo", Visibility.PUBLIC)
    key = ObjectKey(entry.id, ObjectKind.BLOCK, chain.head)
    path = service.node.stores.objects.path(key)  # type: ignore[attr-defined]
    with service.http() as client:
        for _ in range(3 if warm else 0):
            assert client.get(f"/foo/blocks/{chain.head}").status_code == 200
        content = path.read_bytes()
        path.chmod(0o644)
        if harm == "flip":
            flip(path, 40)
        elif harm == "lose":
            path.unlink()
        else:
            path.write_bytes(content[:20] if harm == "cut" else b"")
        answer = client.get(f"/foo/blocks/{chain.head}")
    assert (answer.status_code, answer.content) == (200, content)
    assert path.read_bytes() == content
    assert service.node.stores.damages.count() == 0
