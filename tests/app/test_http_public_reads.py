"""Public reads go one way, which is observed like all others."""

from __future__ import annotations

import logging

import pytest
from service import serving, ten_rows

from odf_protocol.multihash import Multihash
from odf_storage.stores.ports.values import ObjectKey, ObjectKind, Visibility

BIG = b"b" * 200_000
CONDITION = {"If-None-Match": '"other"'}
"""It always holds."""


def said(answer):
    kept = {k: v for k, v in answer.headers.items() if k not in ("date", "x-trace-id")}
    return answer.status_code, kept, answer.content


@pytest.mark.parametrize("tenancy", ["single", "multi"])
def test_a_read_is_answered_the_same_before_and_after_the_dataset_is_remembered(tmp_path, tenancy):
    chain = ten_rows()
    prefix = "/foo" if tenancy == "single" else "/kamu/foo"
    with serving(tmp_path, tenancy=tenancy) as service, service.http() as client:
        service.keep(chain)
        big = Multihash.of(BIG)
        service.node.stores.objects.put(ObjectKey(chain.id, ObjectKind.DATA, big), [BIG])
        paths = [f"{prefix}/refs/head", *(f"{prefix}/blocks/{b.hash}" for b in chain.blocks)]
        for path in (*paths, f"{prefix}/data/{big}"):
            first = said(client.get(path))
            assert first[0] == 200
            assert said(client.get(path)) == said(client.get(path, headers=CONDITION)) == first
            assert said(client.head(path)) == (200, first[1], b"")


def test_a_read_continues_its_trace_and_is_timed(tmp_path):
    chain, trace = ten_rows(), "a" * 32
    with serving(tmp_path, tenancy="single") as service, service.http() as client:
        service.keep(chain)
        for _ in range(3):
            given = {"traceparent": f"00-{trace}-{'b' * 16}-01"}
            answer = client.get("/foo/refs/head", headers=given)
            assert answer.headers["x-trace-id"] == trace
        client.get("/system/health")  # what follows the answer to an earlier request is done now
        counters = service.node.counters
        assert sum(counters.durations["GET", "/{dataset}/refs/{name}"].counts) == 3
        assert counters.answers["GET", "/{dataset}/refs/{name}", 200].count == 3


def test_a_read_is_logged_where_all_requests_are(tmp_path, caplog):
    caplog.set_level(logging.INFO, "odf.node")
    with (
        serving(tmp_path, tenancy="single", access_log=True) as service,
        service.http() as client,
    ):
        service.keep(ten_rows())
        for _ in range(3):
            client.get("/foo/refs/head")
        client.get("/system/health")
    assert caplog.text.count("/foo/refs/head") == 3


def test_a_page_of_another_site_may_read(tmp_path):
    with serving(tmp_path, tenancy="single") as service, service.http() as client:
        service.keep(ten_rows())
        for path in ("/foo/refs/head", "/foo", "/foo/refs/none", "/x%2fy"):
            for _ in range(2):
                answer = client.get(path, headers={"Origin": "https://example.com"})
                assert answer.headers["access-control-allow-origin"] == "*"
                assert "Origin" in answer.headers["vary"]
                assert "access-control-allow-origin" not in client.get(path).headers


def test_private_datasets_stay_hidden(tmp_path):
    with serving(tmp_path, tenancy="multi") as service, service.http() as client:
        service.keep(ten_rows(), visibility=Visibility.PRIVATE)
        mine = {"Authorization": f"Bearer {service.token('kamu')}"}
        for _ in range(3):
            assert client.get("/kamu/foo/refs/head", headers=mine).status_code == 200
            assert client.get("/kamu/foo/refs/head").status_code == 404


def test_a_closed_node_answers_nobody(tmp_path):
    with (
        serving(tmp_path, tenancy="single", allow_anonymous=False) as service,
        service.http() as client,
    ):
        service.keep(ten_rows())
        for _ in range(3):
            assert client.get("/foo/refs/head").status_code == 401
