"""Smart transfer on a real socket: what a client and its peer say to each other."""

from __future__ import annotations

import json
import os
import threading
import time

import httpx
import pytest
from raw_peer import (
    bundled,
    files_of,
    head_of,
    named,
    push,
    request_pull,
    talking,
    unbundled,
    upload,
)
from service import described, seeded, serving, ten_rows
from websockets.exceptions import ConnectionClosed

from odf_protocol.codec.blocks import encode_block
from odf_protocol.multihash import Multihash


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
        peer.socket.close(1000, "Client pull flow succeeded")
    assert peer.socket.protocol.close_code == 1000, "the node did not close in turn"


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
        from odf_protocol.identity import DatasetRef

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
    with single.http(single.token()) as client:
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


def heard_within(peer, seconds):
    """Whether a progress request comes."""
    try:
        assert json.loads(peer.socket.recv(timeout=seconds)) == {}
    except TimeoutError:
        return False
    return True


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
                assert peer.hear(timeout=30) == {}
                peer.say({"details": {"Running": {"uploaded_objects_count": count}}})
            upload(answer, chain)
            while heard_within(peer, 0):  # as many as the uploads were long
                peer.say({"details": {"Running": {"uploaded_objects_count": 2}}})
            peer.say({"details": "Complete"})
            assert sum(heard_within(peer, 0.6) for _ in range(3)) <= 1  # on its way already
            assert peer.ask({}) == {}
            assert not heard_within(peer, 0.6)
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
    deadline = time.monotonic() + 60
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
    with talking(single, "/version-two/pull", single.token()) as peer:
        request_pull(peer)
        assert unbundled(peer.ask({})["blocks"]) == named(older.blocks)
