"""Uploads that break off: the next push sends the rest, and nothing that arrived again.

On nodes that keep objects in files; a bucket takes each object in one go.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest
from backends import IN_BUCKETS, ON_FILES, backend_urls, credentials
from byte_counter import relaying
from chains import make_dataset
from service import serving, ten_rows
from threaded_node import threaded_node

from odf_node.client.nodes.limits import ClientLimits
from odf_node.client.nodes.remotes import Location
from odf_node.client.transfer import sync
from odf_protocol.multihash import Multihash
from odf_storage.stores.ports.values import ObjectKey, ObjectKind, Scope, Visibility

ODF_NODE = Path(sys.executable).with_name("odf-node")
KILLS = int(os.environ.get("ODF_TEST_KILLS", "3"))
"""How often a push is killed; set it to 30 to be sure."""
SIZE = 24 * 1024 * 1024
BIG = os.urandom(SIZE)
HASH = Multihash.of(BIG)


@contextmanager
def node_on(pair, request):
    data = request.getfixturevalue("tmp_path_factory").mktemp("node")
    with pytest.MonkeyPatch.context() as patch:
        for name, value in credentials(pair, request).items():
            patch.setenv(name, value)
        with serving(data, tenancy="multi", **backend_urls(pair, request)) as service:
            service.keep(ten_rows(), "anna/foo", Visibility.PUBLIC)
            yield service


@pytest.fixture(scope="module", params=ON_FILES)
def multi(request):
    with node_on(request.param, request) as service:
        yield service


@pytest.fixture(scope="module", params=IN_BUCKETS)
def in_bucket(request):
    with node_on(request.param, request) as service:
        yield service


def patch(http, offset, content, *, path="/anna/foo/data/", name=HASH, total=SIZE, **headers):
    given = {"upload-offset": str(offset), "upload-length": str(total), **headers}
    return http.patch(f"{path}{name}", content=content, headers=given)


def test_an_upload_is_continued_where_it_ended(multi):
    content = os.urandom(5000)
    name = Multihash.of(content)
    with multi.http(multi.token("anna")) as http:
        url = f"/anna/foo/data/{name}"
        asked = http.head(url)
        assert (asked.status_code, asked.headers["upload-offset"]) == (404, "0")
        first = patch(http, 0, content[:3000], name=name, total=5000)
        assert (first.status_code, first.headers["upload-offset"]) == (204, "3000")
        asked = http.head(url)
        assert (asked.status_code, asked.headers["upload-offset"]) == (404, "3000")
        assert asked.headers["cache-control"] == "no-store"
        assert http.get(url).status_code == 404
        last = patch(http, 3000, content[3000:], name=name, total=5000)
        assert (last.status_code, last.headers["upload-offset"]) == (204, "5000")
        assert http.get(url).content == content
        assert "upload-offset" not in http.head(url).headers


def test_what_does_not_fit_is_refused_and_changes_nothing(multi):
    content = os.urandom(5000)
    name = Multihash.of(content)
    with multi.http(multi.token("anna")) as http:
        patch(http, 0, content[:3000], name=name, total=5000)
        for offset in (0, 2999, 3001):
            refused = patch(http, offset, b"x", name=name, total=5000)
            assert refused.status_code == 409
            assert refused.json()["offset"] == 3000
        assert patch(http, 3000, content, name=name, total=5000).status_code == 400
        assert patch(http, "x", b"x", name=name).status_code == 400
        assert patch(http, -1, b"x", name=name).status_code == 400
        url = f"/anna/foo/data/{name}"
        assert http.patch(url, content=b"x").status_code == 400
        large = patch(http, 0, b"x", name=name, total=10**15)
        assert large.status_code == 413
        no_length = patch(http, 3000, iter([b"x"]), name=name, total=5000)
        assert no_length.status_code == 400
        assert http.head(url).headers["upload-offset"] == "3000"
        wrong = patch(http, 3000, b"\0" * 2000, name=name, total=5000)
        assert wrong.status_code == 400
        assert wrong.json()["type"].endswith("HashMismatch")
        assert http.head(url).headers["upload-offset"] == "0"


def test_uploads_are_for_those_who_may_write(multi):
    with multi.http() as anonymous, multi.http(multi.token("bert")) as stranger:
        for http in (anonymous, stranger):
            assert patch(http, 0, b"x").status_code == 403
            asked = http.head(f"/anna/foo/data/{HASH}")
            assert asked.status_code == 404
            assert "upload-offset" not in asked.headers
        reading = multi.http(multi.token("anna", Scope.READ))
        assert "upload-offset" not in reading.head(f"/anna/foo/data/{HASH}").headers
        reading.close()
        assert patch(anonymous, 0, b"x", path="/anna/nothing/data/").status_code == 404
        assert patch(anonymous, 0, b"x", path="/anna/foo/blocks/").status_code in (404, 405)


def test_a_bucket_takes_objects_in_one_go(in_bucket):
    content = os.urandom(5000)
    name = Multihash.of(content)
    with in_bucket.http(in_bucket.token("anna")) as http:
        url = f"/anna/foo/data/{name}"
        asked = http.head(url)
        assert asked.status_code == 404
        assert "upload-offset" not in asked.headers
        refused = patch(http, 0, content[:3000], name=name, total=5000)
        assert refused.status_code == 400
        assert "PUT" in refused.json()["message"]
        assert http.put(url, content=content).status_code == 200
        assert http.get(url, follow_redirects=True).content == content


def big_dataset(folder):
    """A dataset whose last block names an object of `SIZE` bytes."""
    dataset = make_dataset(folder, rows=[3])
    dataset.add_rows(2, checkpoint=BIG)
    return dataset


@contextmanager
def pushing(folder: Path, url: str, token: str) -> Iterator[subprocess.Popen[str]]:
    command = [str(ODF_NODE), "push", str(folder), url, "--token", token, "--json"]
    running = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    yield running
    if running.poll() is None:
        os.killpg(running.pid, signal.SIGKILL)
    running.communicate()


def test_a_push_killed_again_and_again_sends_nothing_twice(tmp_path):
    """Beyond what was on its way when it died."""
    mine = big_dataset(tmp_path / "mine")
    slack_per_kill = 4 * 1024 * 1024
    rng, kills = random.Random(3), 0
    with (
        threaded_node(tmp_path / "node") as served,
        relaying(served.url, bytes_per_s=30 * 1024 * 1024) as proxy,
    ):
        url, token = f"odf+{proxy.url}/big", served.token()
        part = served.data / "datasets"
        while kills < KILLS:
            with pushing(mine.folder, url, token) as running:
                before = partial_bytes(part)
                began = time.monotonic()
                wanted = before + rng.randrange(1, SIZE // (KILLS + 2))
                while running.poll() is None and partial_bytes(part) < wanted:
                    assert time.monotonic() - began < 200
                    time.sleep(0.002)
                assert running.poll() is None, running.communicate()
            kills += 1
            assert partial_bytes(part) >= before
        outcome = sync.push(Location.parse(str(mine.folder)), Location.parse(url), token=token)
        assert outcome.new_head == mine.head
        total = sum(path.stat().st_size for path in mine.folder.rglob("f1620*"))
        assert proxy.sent < total + KILLS * slack_per_kill + 1024 * 1024
        with httpx.Client() as http:
            bearer = {"authorization": f"Bearer {token}"}
            got = http.get(f"{served.url}/big/checkpoints/{HASH}", headers=bearer)
        assert got.content == BIG


def partial_bytes(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob(".pending-upload-*"))


def test_a_part_of_other_content_is_replaced(tmp_path):
    mine = big_dataset(tmp_path / "mine")
    with threaded_node(tmp_path / "node") as served:
        url, token = Location.parse(f"{served.smart}/big"), served.token()
        seed_only = make_dataset_prefix(mine, tmp_path / "seed")
        sync.push(Location.parse(str(seed_only)), url, token=token)
        key = ObjectKey(mine.blocks[0].event.dataset_id, ObjectKind.CHECKPOINT, HASH)
        partial = served.node.stores.objects.partial
        partial.append(key, 0, [b"\0" * 1_000_000], total=SIZE)
        outcome = sync.push(Location.parse(str(mine.folder)), url, token=token)
        assert outcome.new_head == mine.head
        assert partial.received(key) == 0


def make_dataset_prefix(dataset, folder):
    """The first block alone."""
    shorter = dataset.fork(folder)
    shorter.rewind(len(shorter.blocks) - 1)
    return shorter.folder


def test_small_objects_are_put_at_once(tmp_path):
    mine = make_dataset(tmp_path / "mine", rows=[3, 3])
    with threaded_node(tmp_path / "node") as served, relaying(served.url) as proxy:
        sync.push(
            Location.parse(str(mine.folder)),
            Location.parse(f"odf+{proxy.url}/small"),
            token=served.token(),
        )
        assert proxy.methods.count("PUT") == 2
        assert "PATCH" not in proxy.methods
        limits = ClientLimits(resumable_bytes=1)
        mine.add_rows(3)
        sync.push(
            Location.parse(str(mine.folder)),
            Location.parse(f"odf+{proxy.url}/small"),
            token=served.token(),
            limits=limits,
        )
        assert proxy.methods.count("PATCH") == 1
