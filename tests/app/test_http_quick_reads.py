"""The shortest way gives the answers of the long one, and only to what anybody may read."""

from __future__ import annotations

import pytest
from service import serving, ten_rows

from odf_node.app.service.auth import entry_cache as entries
from odf_node.app.service.objects.quick_reads import QuickReads
from odf_node.protocol.multihash import Multihash
from odf_node.storage.stores.ports.values import ObjectKey, ObjectKind, Visibility

LONG_WAY = {"If-None-Match": '"other"'}
"""A condition that always holds: the answer is the same, the way to it is not."""
BIG = b"b" * 200_000


@pytest.fixture
def taken(monkeypatch):
    """Paths that were answered at once."""
    paths = []
    find = QuickReads._find

    def watched(self, scope):
        found = find(self, scope)
        if found is not None:
            paths.append(scope["path"])
        return found

    monkeypatch.setattr(QuickReads, "_find", watched)
    monkeypatch.setattr(entries, "KEPT_S", 60.0)
    return paths


def _told(answer):
    kept = {k: v for k, v in answer.headers.items() if k not in ("date", "x-trace-id")}
    return answer.status_code, kept, answer.content


@pytest.mark.parametrize("tenancy", ["single", "multi"])
def test_both_ways_give_the_same_answer(tmp_path, taken, tenancy):
    chain = ten_rows()
    prefix = "/foo" if tenancy == "single" else "/kamu/foo"
    with serving(tmp_path, tenancy=tenancy) as service, service.http() as client:
        service.keep(chain)
        for _ in range(2):  # the first one finds the dataset, the second one remembers it
            client.get(f"{prefix}/refs/head")
        taken.clear()
        paths = [f"{prefix}/refs/head", *(f"{prefix}/blocks/{b.hash}" for b in chain.blocks)]
        for path in paths:
            assert _told(client.get(path)) == _told(client.get(path, headers=LONG_WAY))
    assert taken == paths


def test_what_cannot_be_answered_at_once_takes_the_long_way(tmp_path, taken):
    chain = ten_rows()
    with serving(tmp_path, tenancy="single") as service, service.http() as client:
        service.keep(chain)
        big = Multihash.of(BIG)
        service.node.stores.objects.put(ObjectKey(chain.id, ObjectKind.DATA, big), [BIG])
        for _ in range(2):
            client.head("/foo/refs/head")
        absent = f"/foo/blocks/f1620{'0' * 64}"
        for path in (absent, "/foo/blocks/nonsense", "/foo/refs/other", "/other/refs/head", "/"):
            client.get(path)
        block = f"/foo/blocks/{chain.head}"
        client.head(block)
        for headers in (
            {"Range": "bytes=0-1"},
            {"Origin": "https://example.com"},
            {"Authorization": "Bearer nobody"},
        ):
            client.get(block, headers=headers)
        assert client.get(f"/foo/data/{big}").content == BIG
    assert taken == []


def test_private_datasets_stay_hidden(tmp_path, taken):
    chain = ten_rows()
    with serving(tmp_path, tenancy="multi") as service, service.http() as client:
        service.keep(chain, visibility=Visibility.PRIVATE)
        mine = {"Authorization": f"Bearer {service.token('kamu')}"}
        for _ in range(2):
            assert client.get("/kamu/foo/refs/head", headers=mine).status_code == 200
            assert client.get("/kamu/foo/refs/head").status_code == 404
    assert taken == []


def test_a_closed_node_answers_nobody_at_once(tmp_path, taken):
    chain = ten_rows()
    with (
        serving(tmp_path, tenancy="single", allow_anonymous=False) as service,
        service.http() as client,
    ):
        service.keep(chain)
        for _ in range(2):
            assert client.get("/foo/refs/head").status_code == 401
    assert taken == []
