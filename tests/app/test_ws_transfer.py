"""Smart transfer on a real socket: what a client and its peer say to each other."""

from __future__ import annotations

import contextlib
import gzip
import io
import json
import os
import socket
import tarfile
import threading
import time

import httpx
import pytest
from service import described, seeded, serving, ten_rows
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import connect

from protocol.codec.blocks import encode_block
from protocol.multihash import Multihash
from storage.values import ObjectKind, Visibility

VERSION = {"x-odf-smtp-version": "1"}
PLAN = {"num_objects": 0, "num_records": 0, "bytes_in_raw_blocks": 1, "bytes_in_raw_objects": 0}
TYPES = {ObjectKind.DATA: "DataSlice", ObjectKind.CHECKPOINT: "Checkpoint"}


class Peer:
    """A client that says exactly what it is told to."""

    def __init__(self, socket):
        self.socket = socket

    def say(self, message):
        self.socket.send(message if isinstance(message, str | bytes) else json.dumps(message))

    def hear(self, timeout=15):
        return json.loads(self.socket.recv(timeout=timeout))

    def ask(self, message):
        self.say(message)
        return self.hear()

    def close_frame(self):
        """Code and reason of the node's Close, with no text message before it."""
        with pytest.raises(ConnectionClosed) as closed:
            self.socket.recv(timeout=15)
        return closed.value.rcvd.code, closed.value.rcvd.reason

    def request_push(self, head, blocks, *, force=False, visibility="Private"):
        return self.ask(
            {
                "current_head": head and str(head),
                "transfer_plan": {**PLAN, "num_blocks": blocks},
                "force_update_if_diverged": force,
                "visibility_for_created_dataset": visibility,
            }
        )


@contextlib.contextmanager
def talking(service, path, token=None, **more):
    headers = {**VERSION, **({"authorization": f"Bearer {token}"} if token else {})}
    with connect(
        service.url.replace("http", "ws") + path,
        additional_headers=headers,
        compression=None,
        ping_interval=None,
        max_size=None,
        close_timeout=2,
        **more,
    ) as connection:
        yield Peer(connection)


def bundled(blocks, **changes):
    """A batch as the reference makes it."""
    sink = io.BytesIO()
    with tarfile.open(fileobj=sink, mode="w", format=tarfile.GNU_FORMAT) as tar:
        for name, raw in blocks:
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode, entry.type = len(raw), 0, tarfile.AREGTYPE
            tar.addfile(entry, io.BytesIO(raw))
    batch = {
        "num_blocks": len(blocks),
        "media_type": "application/tar+gzip",
        "encoding": "raw",
        "payload": list(gzip.compress(sink.getvalue())),
    }
    return {"new_blocks": {**batch, **changes}}


def named(blocks):
    return [(str(block.hash), block.raw) for block in blocks]


def files_of(chain):
    return [
        {"object_type": TYPES[kind], "physical_hash": str(name), "size": len(content)}
        for (kind, name), content in chain.objects.items()
    ]


def upload(answer, chain):
    contents = {str(name): content for (_, name), content in chain.objects.items()}
    for strategy in answer["Ok"]["object_transfer_strategies"]:
        if strategy["push_strategy"] == "HttpUpload":
            target = strategy["upload_to"]
            headers = {h["name"]: h["value"] for h in target["headers"]}
            body = contents[strategy["object_file"]["physical_hash"]]
            assert httpx.put(target["url"], content=body, headers=headers).status_code == 200


def push(service, path, chain, token, *, start=0, head=None, force=False, visibility="Private"):
    """The happy path: all blocks from `start` on."""
    blocks = chain.blocks[start:]
    with talking(service, path + "/push", token) as peer:
        answer = peer.request_push(head, len(blocks), force=force, visibility=visibility)
        assert answer == {"Ok": {}}
        assert peer.ask(bundled(named(blocks))) == {"Ok": {}}
        answer = peer.ask({"object_files": files_of(chain), "is_truncated": False})
        upload(answer, chain)
        peer.say({"details": "Complete"})
        confirmed = peer.ask({})
        peer.socket.close(1000, "Client push flow succeeded")
    assert confirmed == {}
    return answer


def head_of(service, path, token=None):
    with service.http(token) as client:
        answer = client.get(f"{path}/refs/head")
    return answer.text if answer.status_code == 200 else None


# --- pull -----------------------------------------------------------------------------------


def request_pull(peer, after=None, until=None, *, force=False):
    return peer.ask(
        {
            "begin_after": after and str(after),
            "stop_at": until and str(until),
            "force_update_if_diverged": force,
        }
    )


def unbundled(batch):
    assert (batch["media_type"], batch["encoding"]) == ("application/tar+gzip", "raw")
    raw = gzip.decompress(bytes(batch["payload"]))
    with tarfile.open(fileobj=io.BytesIO(raw)) as tar:
        return [(entry.name, tar.extractfile(entry).read()) for entry in tar]


@pytest.fixture(scope="module")
def chain(single):
    chain = ten_rows()
    single.keep(chain)
    return chain


def test_a_pull_from_nothing_gets_plan_blocks_and_download_urls(single, chain):
    token = single.token()
    with talking(single, "/foo/pull", token) as peer:
        plan = request_pull(peer)["Ok"]["transfer_plan"]
        assert (plan["num_blocks"], plan["num_objects"], plan["num_records"]) == (4, 2, 10)
        assert unbundled(peer.ask({})["blocks"]) == named(chain.blocks)
        files = files_of(chain)
        strategies = peer.ask({"object_files": files})["object_transfer_strategies"]
    assert [item["object_file"] for item in strategies] == files
    for item, folder in zip(strategies, ("data", "checkpoints"), strict=True):
        assert item["pull_strategy"] == "HttpDownload"
        assert item["download_from"] == {
            "url": f"{single.url}/foo/{folder}/{item['object_file']['physical_hash']}",
            "headers": [
                {"name": "x-odf-smtp-version", "value": "1"},
                {"name": "authorization", "value": f"Bearer {token}"},
            ],
            "expires_at": None,
        }
        headers = {h["name"]: h["value"] for h in item["download_from"]["headers"]}
        answer = httpx.get(item["download_from"]["url"], headers=headers)
        assert str(Multihash.of(answer.content)) == item["object_file"]["physical_hash"]


def test_an_anonymous_pull_gets_urls_without_a_token(single, chain):
    with talking(single, "/foo/pull") as peer:
        request_pull(peer, chain.head)
        peer.ask({})
        strategy = peer.ask({"object_files": files_of(chain)[:1]})["object_transfer_strategies"][0]
    assert strategy["download_from"]["headers"] == [{"name": "x-odf-smtp-version", "value": "1"}]


def test_a_pull_of_what_is_known_plans_nothing_and_may_be_closed(single, chain):
    with talking(single, "/foo/pull") as peer:
        assert request_pull(peer, chain.head)["Ok"]["transfer_plan"]["num_blocks"] == 0
        began = time.monotonic()
        peer.socket.close(1000, "Client pull flow succeeded")
    assert time.monotonic() - began < 2


def test_a_pull_between_two_blocks_gets_the_blocks_in_between(single, chain):
    first, last = chain.blocks[0].hash, chain.blocks[2].hash
    with talking(single, "/foo/pull") as peer:
        assert request_pull(peer, first, last)["Ok"]["transfer_plan"]["num_blocks"] == 2
        assert unbundled(peer.ask({})["blocks"]) == named(chain.blocks[1:3])


def test_histories_that_differ_are_told_with_both_ends(single, chain):
    unknown = Multihash.of(b"a block of another history")
    with talking(single, "/foo/pull") as peer:
        answer = request_pull(peer, unknown)
        assert answer == {
            "Err": {"InvalidInterval": {"head": str(chain.head), "tail": str(unknown)}}
        }
    with talking(single, "/foo/pull") as peer:
        assert request_pull(peer, unknown, force=True)["Ok"]["transfer_plan"]["num_blocks"] == 4
    with talking(single, "/foo/pull") as peer:
        known = request_pull(peer, chain.blocks[1].hash, force=True)
        assert known["Ok"]["transfer_plan"]["num_blocks"] == 2


def test_a_pull_up_to_an_unknown_block_is_an_internal_error_in_text(single, chain):
    with talking(single, "/foo/pull") as peer:
        answer = request_pull(peer, None, Multihash.of(b"unknown"))
    assert answer["Err"]["Internal"]["phase"] == {"Pull": "InitialRequest"}


def test_the_head_of_a_pull_stays_while_others_commit(single):
    moving = ten_rows()
    entry = single.keep(moving, "kamu/moving")
    with talking(single, "/moving/pull") as peer:
        assert request_pull(peer)["Ok"]["transfer_plan"]["num_blocks"] == 4
        from protocol.identity import DatasetRef

        before = moving.head
        moving.add(described("more"))
        single.node.stores.dataset(DatasetRef(id=entry.id)).commit(
            moving.blocks[-1:], expected=before
        )
        assert len(unbundled(peer.ask({})["blocks"])) == 4


def test_a_batch_above_the_frame_limit_of_peers_arrives_in_fragments(tmp_path):
    noise = seeded()
    for _ in range(6):
        noise.add(described(os.urandom(500_000).hex()))
    with serving(tmp_path) as service:
        service.keep(noise, "kamu/noise")
        with talking(service, "/noise/pull") as peer:
            request_pull(peer)
            peer.say({})
            frames = [len(frame) for frame in peer.socket.recv_streaming()]
    assert len(frames) > 1
    assert sum(frames) > 10_000_000
    assert max(frames) < 16 * 1024 * 1024


# --- push -----------------------------------------------------------------------------------


def test_a_push_creates_a_dataset_byte_for_byte(single):
    chain = ten_rows()
    token = single.token()
    answer = push(single, "/pushed", chain, token)
    assert head_of(single, "/pushed") == str(chain.head)
    for strategy, folder in zip(
        answer["Ok"]["object_transfer_strategies"], ("data", "checkpoints"), strict=True
    ):
        hash_ = strategy["object_file"]["physical_hash"]
        assert strategy["push_strategy"] == "HttpUpload"
        assert strategy["upload_to"]["url"] == f"{single.url}/pushed/{folder}/{hash_}"
        assert strategy["upload_to"]["expires_at"] is None
        assert [h["name"] for h in strategy["upload_to"]["headers"]] == [
            "x-odf-smtp-version",
            "authorization",
        ]
    with single.http() as client:
        for block in chain.blocks:
            assert client.get(f"/pushed/blocks/{block.hash}").content == block.raw


def test_a_push_continues_a_dataset_and_skips_what_is_there(single):
    chain = ten_rows()
    push(single, "/grown", chain, single.token())
    before = chain.head
    chain.add(described("evolved")).add_rows(5)
    answer = push(single, "/grown", chain, single.token(), start=4, head=before)
    kinds = [s["push_strategy"] for s in answer["Ok"]["object_transfer_strategies"]]
    assert kinds == ["SkipUpload", "SkipUpload", "HttpUpload"]
    assert answer["Ok"]["object_transfer_strategies"][0]["upload_to"] is None
    assert head_of(single, "/grown") == str(chain.head)


def test_a_seed_alone_can_be_pushed(single):
    chain = seeded()
    push(single, "/seed-only", chain, single.token())
    assert head_of(single, "/seed-only") == str(chain.head)


def test_a_forced_push_replaces_a_diverged_history(single):
    key = os.urandom(32)
    old, new = ten_rows(key), seeded(key).add(described("compacted"))
    push(single, "/forced", old, single.token())
    push(single, "/forced", new, single.token(), head=old.head, force=True)
    assert head_of(single, "/forced") == str(new.head)


def test_a_forced_push_of_another_dataset_is_closed_with_its_reason(single):
    push(single, "/kept", seeded(), single.token())
    other = seeded()
    with talking(single, "/kept/push", single.token()) as peer:
        peer.request_push(Multihash.parse(head_of(single, "/kept")), 1, force=True)
        peer.say(bundled(named(other.blocks)))
        assert peer.close_frame() == (1011, '{"Err":{"SeedBlockOverwriteRestricted":{}}}')


def test_a_head_that_moved_is_told_with_both_heads(single):
    chain = seeded()
    push(single, "/moved", chain, single.token())
    claimed = Multihash.of(b"an older head")
    with talking(single, "/moved/push", single.token()) as peer:
        answer = peer.request_push(claimed, 1)
        names = {"actual_head": str(claimed), "expected_head": str(chain.head)}
        assert answer == {"Err": {"InvalidHead": names}}
        assert peer.close_frame()[0] == 1000


def test_an_id_under_another_alias_is_a_collision(single):
    chain = seeded()
    push(single, "/first-name", chain, single.token())
    with talking(single, "/second-name/push", single.token()) as peer:
        peer.request_push(None, 1)
        assert peer.ask(bundled(named(chain.blocks))) == {"Ok": {}}
        code, reason = peer.close_frame()
    assert code == 1011
    assert json.loads(reason) == {"Err": {"RefCollision": {"dataset_id": str(chain.id)}}}
    assert len(reason) == 119
    assert head_of(single, "/second-name") is None


def test_a_new_dataset_has_to_begin_with_its_seed(single):
    chain = ten_rows()
    with talking(single, "/headless/push", single.token()) as peer:
        peer.request_push(None, 3)
        peer.ask(bundled(named(chain.blocks[1:])))
        code, reason = peer.close_frame()
    assert code == 1011
    assert json.loads(reason)["Err"]["Internal"]["phase"] == {"Push": "ObjectsUploadProgress"}
    assert head_of(single, "/headless") is None


def _flipped(raw):
    return raw[:-1] + bytes([raw[-1] ^ 1])


@pytest.mark.parametrize(
    ("what", "batch"),
    [
        ("media type", lambda b: bundled(named(b), media_type="application/tar")),
        ("encoding", lambda b: bundled(named(b), encoding="base64")),
        ("no gzip", lambda b: bundled(named(b), payload=[1, 2, 3])),
        ("no bytes", lambda b: bundled(named(b), payload=[256, -1])),
        ("count", lambda b: bundled(named(b), num_blocks=3)),
        ("foreign name", lambda b: bundled([("block", b[0].raw), *named(b[1:])])),
        ("wrong hash", lambda b: bundled([(str(b[0].hash), _flipped(b[0].raw)), *named(b[1:])])),
        ("twice", lambda b: bundled([*named(b[:3]), *named(b[:1])])),
        ("order", lambda b: bundled(named([b[0], b[2], b[1], b[3]]))),
        ("gap", lambda b: bundled([*named([b[0], b[1], b[3]]), ("x", b"")])),
        ("no message", lambda b: '{"new_blocks":'),
        ("binary", lambda b: b"{}"),
        ("missing field", lambda b: {}),
    ],
)
def test_a_batch_that_cannot_be_trusted_is_refused(single, what, batch):
    chain = ten_rows()
    with talking(single, "/untrusted/push", single.token()) as peer:
        peer.request_push(None, 4)
        peer.say(batch(chain.blocks))
        try:
            first = peer.hear()
        except ConnectionClosed as closed:
            code, reason = closed.rcvd.code, closed.rcvd.reason
        else:  # told once the client waits for strategies
            assert first == {"Ok": {}}
            code, reason = peer.close_frame()
    assert code == 1011
    assert len(reason) <= 123
    assert "Internal" in json.loads(reason)["Err"]
    assert head_of(single, "/untrusted") is None


def test_a_commit_without_one_of_its_objects_is_closed_and_changes_nothing(single):
    chain = ten_rows()
    with talking(single, "/incomplete/push", single.token()) as peer:
        peer.request_push(None, 4)
        peer.ask(bundled(named(chain.blocks)))
        peer.ask({"object_files": files_of(chain), "is_truncated": False})
        peer.say({"details": "Complete"})
        peer.say({})
        code, reason = peer.close_frame()
    assert code == 1011
    assert json.loads(reason)["Err"]["Internal"]["phase"] == {"Push": "CompleteRequest"}
    assert head_of(single, "/incomplete") == str(chain.blocks[0].hash)


def test_an_aborted_push_is_finished_by_the_next_one(single):
    chain = ten_rows()
    with talking(single, "/resumed/push", single.token()) as peer:
        peer.request_push(None, 4)
        peer.ask(bundled(named(chain.blocks)))
        upload(peer.ask({"object_files": files_of(chain), "is_truncated": False}), chain)
    seed = chain.blocks[0].hash
    assert head_of(single, "/resumed") == str(seed)
    answer = push(single, "/resumed", chain, single.token(), start=1, head=seed)
    strategies = answer["Ok"]["object_transfer_strategies"]
    assert {s["push_strategy"] for s in strategies} == {"SkipUpload"}


def test_objects_may_be_named_in_several_rounds(single):
    chain = ten_rows()
    files = files_of(chain)
    with talking(single, "/rounds/push", single.token()) as peer:
        peer.request_push(None, 4)
        peer.ask(bundled(named(chain.blocks)))
        for part, truncated in ((files[:1], True), (files[1:], False)):
            upload(peer.ask({"object_files": part, "is_truncated": truncated}), chain)
            peer.say({"details": {"Running": {"uploaded_objects_count": 1}}})
            peer.say({"details": "Complete"})
        assert peer.ask({}) == {}
    assert head_of(single, "/rounds") == str(chain.head)


def test_of_two_pushes_on_one_head_one_wins_and_the_other_is_told(single):
    chain = seeded()
    push(single, "/raced", chain, single.token())
    rivals = []
    for text in ("one", "two"):
        rival = seeded()
        rival.id, rival.blocks, rival.state = chain.id, list(chain.blocks), chain.state
        rivals.append(rival.add(described(text)))
    token, outcomes, ready = single.token(), [], threading.Barrier(2)

    def race(rival):
        with talking(single, "/raced/push", token) as peer:
            peer.request_push(chain.head, 1)
            peer.ask(bundled(named(rival.blocks[1:])))
            peer.ask({"object_files": [], "is_truncated": False})
            peer.say({"details": "Complete"})
            ready.wait()
            try:
                outcomes.append(peer.ask({}))
            except ConnectionClosed as closed:
                outcomes.append(closed.rcvd.code)

    threads = [threading.Thread(target=race, args=(rival,)) for rival in rivals]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(map(str, outcomes)) == ["1011", "{}"]
    assert head_of(single, "/raced") in {str(rival.head) for rival in rivals}


def test_progress_is_asked_for_only_while_objects_are_uploaded(tmp_path):
    chain = ten_rows()
    with serving(tmp_path, upload_progress_s=0.3) as service:
        with talking(service, "/slow/push", service.token()) as peer:
            time.sleep(0.5)
            peer.request_push(None, 4)
            peer.ask(bundled(named(chain.blocks)))
            time.sleep(0.5)
            answer = peer.ask({"object_files": files_of(chain), "is_truncated": False})
            assert "Ok" in answer
            for count in range(2):
                assert peer.hear(timeout=2) == {}
                peer.say({"details": {"Running": {"uploaded_objects_count": count}}})
            upload(answer, chain)
            peer.say({"details": "Complete"})
            time.sleep(0.5)
            assert peer.ask({}) == {}
            with pytest.raises(TimeoutError):
                peer.socket.recv(timeout=0.5)
        assert head_of(service, "/slow") == str(chain.head)


def test_a_commit_is_finished_though_the_client_has_gone(single):
    chain = ten_rows()
    with talking(single, "/gone/push", single.token()) as peer:
        peer.request_push(None, 4)
        peer.ask(bundled(named(chain.blocks)))
        upload(peer.ask({"object_files": files_of(chain), "is_truncated": False}), chain)
        peer.say({"details": "Complete"})
        peer.say({})
        peer.socket.socket.close()
    deadline = time.monotonic() + 5
    while head_of(single, "/gone") != str(chain.head) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert head_of(single, "/gone") == str(chain.head)


def test_visibility_is_what_the_creating_push_says_and_no_later_one(multi):
    token = multi.token("alice")
    for visibility, stranger in (("Private", None), ("public", "seen")):
        chain = ten_rows()
        path = f"/alice/{visibility}"
        push(multi, path, chain, token, visibility=visibility)
        assert (head_of(multi, path) is not None) == (stranger is not None)
        before = chain.head
        chain.add(described("again"))
        chain.objects.clear()
        push(multi, path, chain, token, start=4, head=before, visibility="Public")
        assert (head_of(multi, path) is not None) == (stranger is not None)


def test_the_account_of_a_new_dataset_is_compared_without_case(multi):
    push(multi, "/ALICE/upper", seeded(), multi.token("alice"))
    assert head_of(multi, "/alice/upper", multi.token("alice")) is not None


def test_a_block_of_the_older_version_is_handed_on_as_it_is(single):
    older = seeded()
    older.blocks = [encode_block(older.blocks[0].block, version=2)]
    push(single, "/version-two", older, single.token())
    with talking(single, "/version-two/pull") as peer:
        request_pull(peer)
        assert unbundled(peer.ask({})["blocks"]) == named(older.blocks)


# --- handshake ------------------------------------------------------------------------------


def refused(service, path, token=None, **headers):
    """Status, reason phrase and body of a refused upgrade."""
    sent = {**VERSION, **headers, **({"authorization": f"Bearer {token}"} if token else {})}
    sent = {name: value for name, value in sent.items() if value is not None}
    url = service.url.replace("http", "ws") + path
    with pytest.raises(InvalidStatus) as answer, connect(url, additional_headers=sent):
        pass
    return answer.value.response.status_code, (answer.value.response.body or b"").decode()


def raw_upgrade(service, path, *lines):
    """The first bytes that answer an upgrade: one read."""
    host, port = service.url.removeprefix("http://").split(":")
    head = [
        f"GET {path} HTTP/1.1",
        f"Host: {host}:{port}",
        "Upgrade: websocket",
        "Connection: Upgrade",
        "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
        "Sec-WebSocket-Version: 13",
        "x-odf-smtp-version: 1",
        *lines,
    ]
    with socket.create_connection((host, int(port)), timeout=10) as raw:
        raw.sendall("\r\n".join([*head, "", ""]).encode())
        return raw.recv(65536)


def test_a_refusal_leaves_in_one_piece(single):
    answer = raw_upgrade(single, "/nobody-made-this/push")
    assert answer.startswith(b"HTTP/1.1 401 Unauthorized")
    assert answer.endswith(b'{"message":"Unauthenticated"}')


@pytest.fixture(scope="module")
def shared(multi):
    """A private and a public dataset of alice."""
    multi.keep(seeded(), "alice/hidden", Visibility.PRIVATE)
    multi.keep(seeded(), "alice/shown")
    return multi


def test_an_upgrade_is_refused_in_the_order_and_the_words_of_the_reference(shared):
    alice, bob = shared.token("alice"), shared.token("bob")
    old = shared.token("alice", expires_at=shared.node.clock())
    not_here = "/alice/nothing"
    for path, token, headers, expected in (
        (
            "/alice/shown/pull",
            None,
            {"x-odf-smtp-version": "0"},
            (400, "Incompatible client version"),
        ),
        (
            "/alice/shown/push",
            alice,
            {"x-odf-smtp-version": "0"},
            (400, "Incompatible client version"),
        ),
        ("/alice/shown/pull", None, {"x-odf-smtp-version": None}, (400, None)),
        ("/alice/shown/pull", None, {"x-odf-smtp-version": "one"}, (400, None)),
        (f"{not_here}/push", None, {"x-odf-smtp-version": "0"}, (401, "Unauthenticated")),
        (f"{not_here}/push", None, {}, (401, "Unauthenticated")),
        (f"{not_here}/push", bob, {}, (403, "Unauthorized")),
        (f"{not_here}/push", old, {}, (401, "Authentication token expired")),
        (f"{not_here}/push", "ka_x", {}, (401, "Authentication token invalid")),
        (f"{not_here}/pull", old, {}, (404, "")),
        ("/alice/shown/push", None, {}, (403, "")),
        ("/alice/shown/push", bob, {}, (403, "")),
        ("/alice/hidden/push", None, {}, (404, "")),
        ("/alice/hidden/push", bob, {}, (404, "")),
        ("/alice/hidden/pull", bob, {}, (404, "")),
        ("/alice/_/pull", None, {}, (400, "")),
        (
            "/alice/shown/pull",
            None,
            {"authorization": "Bearer "},
            (400, "Invalid Bearer token header"),
        ),
        ("/alice/shown/elsewhere", None, {}, (404, "Not Found")),
    ):
        status, body = refused(shared, path, token, **headers)
        assert status == expected[0], (path, headers, body)
        if expected[1] is not None:
            text = json.loads(body)["message"] if body.startswith("{") else body
            assert text == expected[1]


def test_refusals_are_plain_documents_of_one_message(shared):
    assert refused(shared, "/bob/x/push") == (401, '{"message":"Unauthenticated"}')
    assert refused(shared, "/alice/shown/pull", **{"x-odf-smtp-version": "2"}) == (
        400,
        '{"message":"Incompatible client version"}',
    )


def test_no_subprotocol_is_needed_and_one_is_echoed_when_offered(single, chain):
    with talking(single, "/foo/pull") as peer:
        assert peer.socket.subprotocol is None
    offered = raw_upgrade(
        single, "/foo/pull", "Sec-WebSocket-Protocol: odf/smart-transfer-protocol/v1"
    )
    assert b" 101 " in offered
    assert b"sec-websocket-protocol: odf/smart-transfer-protocol/v1" in offered.lower()


def test_a_ping_is_answered_and_none_is_sent(single, chain):
    with talking(single, "/foo/pull") as peer:
        assert peer.socket.ping().wait(timeout=5)
        assert "Ok" in request_pull(peer)


def test_asking_without_an_upgrade_is_told_to_upgrade(shared):
    with shared.http() as client:
        assert client.get("/alice/shown/pull").status_code == 426
        assert client.get("/alice/hidden/pull").status_code == 404
        assert client.get("/alice/shown/push").status_code == 403


def test_the_public_address_of_the_settings_wins_over_the_host_header(tmp_path):
    chain = ten_rows()
    with serving(tmp_path, public_url="https://data.example/odf") as service:
        service.keep(chain)
        with talking(service, "/foo/pull") as peer:
            request_pull(peer)
            peer.ask({})
            strategy = peer.ask({"object_files": files_of(chain)})["object_transfer_strategies"][0]
    assert strategy["download_from"]["url"].startswith("https://data.example/odf/foo/data/f1620")


def test_a_message_above_the_limit_ends_the_connection(single, chain):
    with talking(single, "/foo/pull") as peer:
        with contextlib.suppress(ConnectionClosed):
            peer.say("[" + "1," * (40 * 1024 * 1024) + "1]")
        with pytest.raises(ConnectionClosed):
            peer.hear()
