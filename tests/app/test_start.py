"""A service answers as soon as it has started, however much it has to look after."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import httpx
from servers import wait_until
from service import serving, ten_rows

from odf_storage.datasets.node import stores as module
from odf_storage.datasets.node.stores import Stores
from odf_storage.stores.objects.layout import HEAD


def test_heads_that_a_crash_left_stale_are_published_beside_the_first_answers(
    tmp_path: Path, monkeypatch: Any
):
    chain = ten_rows()
    with serving(tmp_path) as service:
        entry = service.keep(chain)
        service.node.stores.objects.write_ref(entry.id, HEAD, chain.blocks[0].hash)
    let, republish = threading.Event(), Stores.republish

    def late(self: Stores, *given: Any) -> bool:
        assert let.wait(60)
        return republish(self, *given)

    monkeypatch.setattr(Stores, "republish", late)
    with serving(tmp_path) as service:
        objects = service.node.stores.objects
        assert httpx.get(f"{service.url}/foo/refs/head").text == str(chain.head)
        assert objects.read_ref(entry.id, HEAD) == chain.blocks[0].hash
        let.set()
        wait_until(lambda: objects.read_ref(entry.id, HEAD) == chain.head, "the head")


def test_a_stop_waits_for_one_step_of_what_is_published_again(tmp_path: Path, monkeypatch: Any):
    begun, seen = threading.Event(), []
    monkeypatch.setattr(module, "REPAIR_PAGE", 1)
    with serving(tmp_path) as service:
        for number in range(4):
            service.keep(ten_rows(), f"kamu/foo-{number}")

    def slow(self: Stores, entry: Any) -> bool:
        seen.append(entry)
        begun.set()
        threading.Event().wait(0.5)
        return False

    monkeypatch.setattr(Stores, "republish", slow)
    with serving(tmp_path):
        assert begun.wait(90)
    assert len(seen) < 4
