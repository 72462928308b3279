"""A node whose disk is full or read-only: 507, nothing is half written, reads go on."""

from __future__ import annotations

import gc
import os
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import pytest
from service import Service, serving, ten_rows
from small_disk import fill, remount, small_disk

from odf_protocol.multihash import Multihash
from odf_storage.datasets.upkeep.fsck import check_stores
from odf_storage.stores.objects.layout import PENDING_PREFIX

BIG = os.urandom(400_000)
MEGABYTES = 4
SNAPSHOT = {
    "kind": "DatasetSnapshot",
    "version": 1,
    "content": {"name": "more", "kind": "Root", "metadata": []},
}


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    with small_disk(tmp_path / "disk", megabytes=MEGABYTES) as folder:
        yield folder


@pytest.fixture
def service(disk: Path) -> Iterator[Service]:
    with serving(disk / "node", min_free_bytes=0) as running:
        yield running


def put_big(service: Service) -> Any:
    with service.http(service_token(service)) as http:
        return http.put(f"/foo/data/{Multihash.of(BIG)}", content=BIG)


TOKENS: dict[str, str] = {}


def service_token(service: Service) -> str:
    """Made while there is room for it."""
    if service.url not in TOKENS:
        TOKENS[service.url] = service.token()
    return TOKENS[service.url]


def check_reads(service: Service, head: Multihash, slice_: Multihash, content: bytes) -> None:
    with service.http() as http:
        assert http.get("/foo/refs/head").text == str(head)
        assert http.get(f"/foo/data/{slice_}").content == content
        assert http.get("/foo/metadata").status_code in (200, 404)


def check_refused(service: Service) -> None:
    answer = put_big(service)
    assert answer.status_code == 507, answer.text
    assert "nothing was stored" in answer.json()["message"]
    with service.http() as http:
        health = http.get("/system/health", params={"type": "readiness"})
        assert (health.status_code, health.json()["ok"]) == (200, True)
        assert health.json()["writable"] is False
        assert health.json()["reason"]


def test_a_full_disk_is_told_and_leaves_nothing_torn(service: Service, disk: Path) -> None:
    chain = ten_rows()
    service.keep(chain)
    service_token(service)
    (_, slice_), content = next(iter(chain.objects.items()))
    ballast = fill(disk)
    check_refused(service)
    check_reads(service, chain.head, slice_, content)
    with service.http(service_token(service)) as http:
        assert http.post("/datasets", json=SNAPSHOT).status_code == 507
    ballast.unlink()
    assert not [path for path in disk.rglob(f"{PENDING_PREFIX}*") if path.is_file()]
    assert put_big(service).status_code in (200, 201)
    with service.http(service_token(service)) as http:
        assert http.post("/datasets", json=SNAPSHOT).status_code == 201
        assert http.get("/system/health", params={"type": "readiness"}).json() == {"ok": True}
    assert check_stores(service.node.stores).ok


def test_a_read_only_store_serves_what_it_has(disk: Path, tmp_path: Path) -> None:
    chain = ten_rows()
    database = f"sqlite:///{tmp_path / 'elsewhere.db'}"  # it keeps its file open for writing
    with serving(disk / "node", database_url=database) as service:
        service.keep(chain)
        service_token(service)
        (_, slice_), content = next(iter(chain.objects.items()))
        remount(disk, read_only=True)
        try:
            check_refused(service)
            check_reads(service, chain.head, slice_, content)
        finally:
            remount(disk, read_only=False)
        assert put_big(service).status_code in (200, 201)
        assert check_stores(service.node.stores).ok


def test_a_disk_that_is_nearly_full_is_told_before_it_is_full(disk: Path) -> None:
    with serving(disk / "node") as service, service.http() as http:
        health = http.get("/system/health", params={"type": "readiness"})
        assert (health.status_code, health.json()["ok"]) == (200, True)
        assert (health.json()["degraded"], health.json()["writable"]) == (True, True)
        assert "bytes free" in health.json()["reason"]
        metrics = http.get("/system/metrics").text
    [told] = [line for line in metrics.splitlines() if line.startswith("odf_free_bytes ")]
    assert 0 < float(told.split()[1]) <= MEGABYTES * 1024 * 1024


def test_a_slow_upload_that_finds_the_disk_full_leaves_nothing_behind(
    service: Service, disk: Path, caplog: pytest.LogCaptureFixture
) -> None:
    service.keep(ten_rows(), "kamu/slow")
    token = service_token(service)
    fill(disk)

    def drops() -> Iterator[bytes]:
        for _ in range(40):
            yield os.urandom(50_000)
            time.sleep(0.01)

    with service.http(token) as http, suppress(httpx.WriteError, httpx.ReadError):
        name = f"f1620{'00' * 32}"
        answer = http.put(
            f"/slow/data/{name}", content=drops(), headers={"content-length": "2000000"}
        )
        assert answer.status_code == 507
    gc.collect()
    assert "Task was destroyed" not in caplog.text
