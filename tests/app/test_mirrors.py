"""Mirrors: a node that follows datasets of another one, and what it refuses meanwhile."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from buckets import fresh_location, log_in
from chains import make_dataset
from raw_peer import VERSION
from servers import wait_until
from service import SCHEMA, described, seeded, serving, ten_rows
from static_files import answering, send

from odf_node.client.nodes.limits import ClientLimits
from odf_node.client.nodes.remotes import Location
from odf_node.client.transfer import sync
from odf_node.service.mirrors.mirrors import mirror_asked
from odf_protocol.codec.manifests import MalformedManifest
from odf_protocol.identity import DatasetAlias, DatasetRef
from odf_protocol.metadata.events import SetDataSchema
from odf_protocol.multihash import Multihash
from odf_storage.runtime.networks import HostRefused
from odf_storage.stores.ports.following import Mirror
from odf_storage.stores.ports.values import ObjectKey, ObjectKind, Visibility

HERE = ["127.0.0.0/8"]


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    """The node that is followed."""
    with serving(tmp_path_factory.mktemp("source"), tenancy="multi") as service:
        yield service


@pytest.fixture(scope="module")
def follower(tmp_path_factory):
    """The node that follows."""
    settings = {"mirror_networks": HERE, "poll_s": 0.05}
    with serving(tmp_path_factory.mktemp("follower"), **settings) as service:
        yield service


def manifest(name, remote, **more):
    return json.dumps(
        {
            "kind": "DatasetMirror",
            "version": 1,
            "content": {"name": name, "remote": remote, **more},
        }
    )


def followed(source, chain, name, visibility=Visibility.PUBLIC):
    """Keep the chain at the source; its two addresses."""
    source.keep(chain, f"kamu/{name}", visibility)
    return f"odf+{source.url}/kamu/{name}/", f"{source.url}/kamu/{name}/"


def continued(source, chain, force=False):
    """Bring the source to the head of the chain."""
    dataset = source.node.stores.dataset(DatasetRef(id=chain.id))
    for (kind, name), content in chain.objects.items():
        source.node.stores.objects.put(ObjectKey(chain.id, kind, name), [content])
    if force:
        dataset.commit(chain.blocks, expected=dataset.head(), force=True)
        return
    known = dataset.blocks()
    dataset.commit(chain.blocks[len(known) :], expected=known[-1].hash)


def create(follower, name, remote, **more):
    with follower.http(follower.token()) as http:
        return http.post("/datasets?visibility=public", content=manifest(name, remote, **more))


def refresh(follower, name, **query):
    with follower.http(follower.token()) as http:
        return http.post(f"/{name}/refresh", params=query)


def ended(follower, made):
    """The first pull, once it has ended."""
    with follower.http(follower.token()) as http:
        url = made.json()["jobUrl"]
        wait_until(lambda: http.get(url).json()["finishedAt"] is not None, "the first pull")
        return http.get(url).json()


def state_of(follower, name):
    with follower.http(follower.token()) as http:
        return http.get(f"/{name}/mirror").json()


def content_of(objects, key):
    with objects.open(key) as stream:
        return stream.read()


def same(source, follower, chain):
    """Heads, blocks and objects are equal, byte for byte."""
    theirs = source.node.stores.dataset(DatasetRef(id=chain.id))
    ours = follower.node.stores.dataset(DatasetRef(id=chain.id))
    objects = follower.node.stores.objects
    return (
        ours.head() == theirs.head()
        and [block.raw for block in ours.blocks()] == [block.raw for block in theirs.blocks()]
        and all(
            content_of(objects, ObjectKey(chain.id, kind, name)) == content
            for (kind, name), content in chain.objects.items()
        )
    )


@pytest.mark.parametrize("protocol", ["smart", "simple"])
def test_a_mirror_is_filled_and_follows_on_demand(source, follower, protocol):
    chain, name = ten_rows(), f"followed-{protocol}"
    smart, simple = followed(source, chain, name)
    made = create(follower, name, smart if protocol == "smart" else simple)
    assert made.status_code == 201, made.text
    assert made.json()["id"] == str(chain.id)
    first = ended(follower, made)
    assert first["status"] == "succeeded", first
    assert first["result"]["objects"] == 2
    assert same(source, follower, chain)
    assert state_of(follower, name)["state"] == "current"
    chain.add_rows(5)
    continued(source, chain)
    receipt = refresh(follower, name)
    assert receipt.json()["outcome"] == "updated"
    assert (receipt.json()["blocks"], receipt.json()["objects"]) == (1, 1)
    assert same(source, follower, chain)
    assert refresh(follower, name).json()["outcome"] == "up-to-date"


def test_a_private_remote_is_followed_with_a_token_that_is_kept_sealed(source, follower):
    chain = ten_rows()
    smart, _ = followed(source, chain, "private", Visibility.PRIVATE)
    refused = create(follower, "private", smart)
    assert refused.status_code == 400
    assert refused.json()["reason"] == "DatasetMissing"
    token = source.token()
    made = create(follower, "private", smart, token=token)
    assert ended(follower, made)["status"] == "succeeded"
    assert same(source, follower, chain)
    kept = follower.node.stores.mirrors.find(chain.id)
    assert token.encode() not in kept.sealed_token
    shown = state_of(follower, "private")
    assert shown["hasToken"] is True
    assert token not in json.dumps(shown)
    assert token not in repr(kept)


def test_a_token_opens_for_its_dataset_and_remote_only(source, follower):
    chain = seeded()
    smart, _ = followed(source, chain, "moved", Visibility.PRIVATE)
    ended(follower, create(follower, "moved", smart, token=source.token()))
    heard = []

    def listen(handler):
        heard.append(handler.headers.get("authorization"))
        send(handler, 404)

    with answering(listen) as elsewhere:
        kept = follower.node.stores.mirrors.find(chain.id)
        # somebody changed the row, and not by way of the node
        follower.node.stores.mirrors.put(replace(kept, remote=elsewhere.url + "/"))
        answer = refresh(follower, "moved")
    assert answer.status_code == 500
    assert answer.json()["type"].endswith("SecretUnreadable")
    assert heard == []


def test_a_remote_that_was_rewritten_is_followed_by_force_only(source, follower):
    chain = ten_rows(b"\1" * 32)
    smart, _ = followed(source, chain, "rewritten")
    ended(follower, create(follower, "rewritten", smart))
    before = follower.node.stores.refs.head(chain.id)
    other = seeded(b"\1" * 32).add(described("another history"))
    continued(source, other, force=True)
    refused = refresh(follower, "rewritten")
    assert refused.status_code == 409
    assert refused.json()["type"].endswith("Diverged")
    shown = state_of(follower, "rewritten")
    assert (shown["state"], shown["error"]) == ("diverged", "Diverged")
    assert follower.node.stores.refs.head(chain.id) == before
    assert refresh(follower, "rewritten", force=True).json()["outcome"] == "updated"
    assert same(source, follower, other)
    assert state_of(follower, "rewritten")["state"] == "current"


def test_nobody_but_its_remote_adds_to_a_mirror(source, follower, tmp_path):
    chain = ten_rows()
    smart, _ = followed(source, chain, "closed")
    ended(follower, create(follower, "closed", smart))
    some = next(iter(chain.objects.values()))
    with follower.http(follower.token()) as http:
        refusals = [
            http.post("/closed/ingest", content=b"{}"),
            http.post("/closed/metadata", content=b"kind: MetadataEvent"),
            http.put(f"/closed/data/{'f1620' + '0' * 64}", content=some),
            http.get("/closed/push", headers={**VERSION, **upgrade()}),
        ]
        for refused in refusals:
            assert refused.status_code == 400, refused.request.url
            assert refused.json()["type"].endswith("IsRemote")
        assert http.get("/closed").json()["isMirror"] is True
    with follower.http() as anonymous:
        assert anonymous.get("/closed/mirror").status_code == 403
    assert follower.node.stores.refs.head(chain.id) == chain.head


def upgrade():
    return {
        "connection": "Upgrade",
        "upgrade": "websocket",
        "sec-websocket-version": "13",
        "sec-websocket-key": "dGhlIHNhbXBsZSBub25jZQ==",
    }


def test_what_is_detached_is_a_dataset_like_others(source, follower):
    chain = ten_rows()
    smart, _ = followed(source, chain, "detached")
    ended(follower, create(follower, "detached", smart))
    with follower.http(follower.token()) as http:
        assert http.delete("/detached/mirror").status_code == 204
        assert http.get("/detached/mirror").status_code == 400
        assert http.delete("/detached/mirror").status_code == 400
        event = "kind: MetadataEvent\nversion: 1\ncontent: {kind: SetInfo, description: ours}"
        assert http.post("/detached/metadata", content=event).status_code == 200
        assert http.get("/detached").json()["isMirror"] is False
        assert http.post("/detached/refresh?force=true").status_code == 400


def test_another_address_may_be_followed(source, follower):
    chain = ten_rows()
    smart, simple = followed(source, chain, "readdressed")
    ended(follower, create(follower, "readdressed", smart))
    with follower.http(follower.token()) as http:
        changed = http.put("/readdressed/mirror", json={"remote": simple})
        assert changed.json()["remote"] == simple
        for bad in ({"remote": "file:///etc"}, {"remote": simple, "x": 1}, {"token": "x"}, []):
            assert http.put("/readdressed/mirror", json=bad).status_code == 400
    assert refresh(follower, "readdressed").json()["outcome"] == "up-to-date"


def test_what_cannot_be_mirrored_is_refused_and_leaves_nothing(source, follower):
    chain = ten_rows()
    smart, _ = followed(source, chain, "once")
    ended(follower, create(follower, "once", smart))
    assert create(follower, "once", smart).status_code == 409
    assert create(follower, "twice", smart).status_code == 409  # the id is taken
    assert create(follower, "nowhere", f"odf+{source.url}/kamu/nowhere/").status_code == 400
    assert create(follower, "a-folder", "/etc").status_code == 400
    assert create(follower, "unreachable", "http://127.0.0.1:9/x/").status_code == 502
    with follower.http() as anonymous:
        assert anonymous.post("/datasets", content=manifest("x", smart)).status_code == 401
    with follower.http(follower.token("somebody")) as stranger:
        assert stranger.post("/datasets", content=manifest("x", smart)).status_code == 403
    for name in ("twice", "nowhere", "a-folder", "unreachable"):
        alias = DatasetAlias.parse(f"kamu/{name}")
        assert follower.node.stores.registry.find(DatasetRef(alias=alias)) is None


GOOD = {"name": "a", "remote": "http://b/c"}
SHAPES = [
    {"version": 2, "content": GOOD},
    {"version": 1},
    {"version": 1, "content": []},
    {"version": 1, "content": {"name": "a"}},
    {"version": 1, "content": {**GOOD, "remote": 5}},
    {"version": 1, "content": {**GOOD, "token": 5}},
    {"version": 1, "content": {**GOOD, "more": 5}},
    {"version": 1, "content": GOOD, "more": 5},
]


@pytest.mark.parametrize("shape", SHAPES)
def test_a_manifest_of_another_shape_is_refused(shape):
    with pytest.raises(MalformedManifest):
        mirror_asked(json.dumps({"kind": "DatasetMirror", **shape}).encode())


def test_other_manifests_are_left_to_others():
    assert mirror_asked(b"kind: DatasetSnapshot") is None
    assert mirror_asked(b"kind: DatasetSnapshot\ncontent: DatasetMirror") is None


@pytest.mark.parametrize("scheme", ["http", "odf+http"])
def test_the_network_inside_is_out_of_reach_unless_it_is_allowed(tmp_path, scheme):
    heard = []

    def listen(handler):
        heard.append(handler.path)
        send(handler, 404)

    with answering(listen) as server:
        where = Location.parse(server.url.replace("http", scheme, 1) + "/x/")
        for host in ("127.0.0.1", "localhost"):
            inside = Location.parse(str(where).replace("127.0.0.1", host))
            with pytest.raises(HostRefused):
                sync.pull(inside, Location.parse(str(tmp_path / "a")), limits=guarded())
        assert heard == []
        limits = guarded("127.0.0.0/8")
        with pytest.raises(Exception, match="no dataset"):
            sync.pull(where, Location.parse(str(tmp_path / "a")), limits=limits)
        assert heard == ["/x/refs/head"]


def guarded(*networks):
    return ClientLimits(networks=networks)


def test_a_redirect_to_the_network_inside_is_not_followed(tmp_path):
    dataset = make_dataset(tmp_path / "theirs")
    heard = []

    def redirect(handler):
        heard.append(handler.path)
        handler.send_response(302)
        handler.send_header("location", "http://10.255.255.1/secret")
        handler.send_header("content-length", "0")
        handler.end_headers()

    with answering(redirect) as server, pytest.raises(HostRefused) as refused:
        sync.pull(
            Location.parse(server.url + "/x/"),
            Location.parse(str(tmp_path / "ours")),
            limits=guarded("127.0.0.0/8"),
        )
    assert "10.255.255.1" in refused.value.message
    assert len(heard) == 1
    assert dataset.folder.exists()


def test_a_service_that_is_stopped_leaves_its_pull_to_the_next_one(source, tmp_path):
    """The job is taken up again, and what had arrived is not fetched again."""
    chain = ten_rows()
    smart, _ = followed(source, chain, "handed-over")
    settings = {"mirror_networks": HERE, "poll_s": 0.05}
    with serving(tmp_path, mirror_threads=0, **settings) as idle:
        made = create(idle, "handed-over", smart)
        assert made.status_code == 201
        job = made.json()["job"]
        (kind, name), content = next(iter(chain.objects.items()))
        idle.node.stores.objects.put(ObjectKey(chain.id, kind, name), [content])
    with serving(tmp_path, **settings) as service:
        wait_until(lambda: service.node.stores.jobs.get(job).finished_at is not None, "the job")
        outcome = service.node.stores.jobs.get(job).outcome
        assert outcome.result["objects"] == len(chain.objects) - 1
        assert same(source, service, chain)


def test_a_pull_that_takes_long_lets_others_go_first_and_goes_on(source, tmp_path):
    """Each turn ends with the object that it fetched."""
    chain = seeded().add(described(), SetDataSchema(schema=SCHEMA))
    for _ in range(3):
        chain.add_rows(2)
    smart, _ = followed(source, chain, "in-turns")
    settings = {"mirror_networks": HERE, "poll_s": 0.05, "mirror_turn_s": 0.0001}
    with serving(tmp_path, **settings) as service:
        made = create(service, "in-turns", smart)
        assert ended(service, made)["status"] == "succeeded"
        assert same(source, service, chain)
        job = service.node.stores.jobs.get(made.json()["job"])
        assert job.outcome.result["objects"] < len(chain.objects)  # others came in earlier turns


def test_objects_above_the_limit_of_the_node_are_not_taken(source, tmp_path):
    chain = ten_rows()
    smart, _ = followed(source, chain, "too-large")
    settings = {"mirror_networks": HERE, "poll_s": 0.05, "max_object_bytes": 400}
    with serving(tmp_path, **settings) as small:
        job = ended(small, create(small, "too-large", smart))
        assert job["status"] == "failed"
        assert job["problem"]["type"].endswith("TooMuch")
        assert state_of(small, "too-large")["state"] == "failed"
        assert small.node.stores.refs.head(chain.id) == chain.blocks[0].hash


def test_a_node_with_its_objects_in_a_bucket_mirrors_as_well(
    source, tmp_path, s3, s3_bucket_url, monkeypatch
):
    """And takes objects in one go: it tells nobody of uploads that go on."""
    log_in(monkeypatch, s3)
    chain = ten_rows()
    smart, _ = followed(source, chain, "in-a-bucket")
    where = f"{s3_bucket_url}/{fresh_location(s3_bucket_url).prefix}".rstrip("/")
    settings = {"mirror_networks": HERE, "poll_s": 0.05}
    with serving(tmp_path, objects_url=where, **settings) as node:
        job = ended(node, create(node, "in-a-bucket", smart))
        assert job["status"] == "succeeded", job
        assert same(source, node, chain)
        assert refresh(node, "in-a-bucket").json()["outcome"] == "up-to-date"
        node.keep(ten_rows(), "kamu/own")
        with node.http(node.token()) as http:
            url = f"/own/data/{Multihash.of(b'unknown')}"
            asked = http.head(url)
            assert asked.status_code == 404
            assert "upload-offset" not in asked.headers
            part = {"upload-offset": "0", "upload-length": "9"}
            assert http.patch(url, content=b"x", headers=part).status_code == 400


@pytest.mark.parametrize("form", ["s3+http://127.0.0.1:{port}/bucket/x", "s3://bucket/x"])
def test_a_bucket_is_no_remote_so_nothing_is_signed_for_a_stranger(source, follower, form):
    """Neither at the start, nor later, nor by a remote that an older version took."""
    heard = []

    def listen(handler):
        heard.append(dict(handler.headers))
        send(handler, 404)

    chain, name = ten_rows(), f"bucketed-{len(form)}"
    smart, _ = followed(source, chain, name)
    assert ended(follower, create(follower, name, smart))["status"] == "succeeded"
    with answering(listen) as server, follower.http(follower.token()) as http:
        remote = form.format(port=server.url.rsplit(":", 1)[1])
        refused = create(follower, "other", remote)
        assert (refused.status_code, problem_of(refused)) == (400, "RemoteUnusable")
        changed = http.put(f"/{name}/mirror", json={"remote": remote})
        assert (changed.status_code, problem_of(changed)) == (400, "RemoteUnusable")
        assert state_of(follower, name)["remote"] == smart
        follower.node.stores.mirrors.put(Mirror(dataset=chain.id, remote=remote))
        assert refresh(follower, name).status_code == 400
    assert heard == []


def problem_of(answer):
    return answer.json()["type"].rpartition(":")[2]


def test_a_damaged_object_of_a_mirror_is_fetched_again_from_its_remote(source, follower):
    chain, name = ten_rows(), "rotten"
    smart, _ = followed(source, chain, name)
    first = ended(follower, create(follower, name, smart))
    assert first["status"] == "succeeded", first
    stores = follower.node.stores
    [key, *_] = [ObjectKey(chain.id, kind, content) for kind, content in chain.objects]
    path = stores.objects.path(key)
    path.chmod(0o644)
    path.write_bytes(path.read_bytes()[::-1])
    with follower.http() as http:
        folder = "data" if key.kind is ObjectKind.DATA else "checkpoints"
        answer = http.get(f"/{name}/{folder}/{key.hash}", headers={"range": "bytes=0-3"})
    assert (answer.status_code, answer.json()["type"].rpartition(":")[2]) == (503, "ObjectHealing")
    wait_until(lambda: stores.damages.count() == 0, "the object from the remote")
    assert stores.damages.find(key).healed_from == "remote"
    assert same(source, follower, chain)
