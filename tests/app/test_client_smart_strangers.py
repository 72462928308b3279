"""Smart transfers with nodes that lie, stall, hang up or say "no"."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
from chains import FolderDataset, files_of, make_dataset
from refusals import refusing
from servers import wait_until
from static_files import answering, send, static_files
from strangers import Stranger, batch_text, honest_pull, plan_text, playing, strategies
from websockets.exceptions import ConnectionClosed
from websockets.sync.server import ServerConnection

from odf_node.client.nodes.limits import ClientLimits
from odf_node.client.nodes.remotes import Location
from odf_node.client.transfer import sync
from odf_node.client.transfer.receive import Diverged
from odf_protocol.errors import LimitExceeded
from odf_protocol.multihash import HashMismatch

ONCE = ClientLimits(attempts=1)
UNCONFIRMED = ClientLimits(attempts=1, confirm_s=3)


@pytest.fixture
def theirs(tmp_path) -> FolderDataset:
    return make_dataset(tmp_path / "theirs", rows=[5], checkpoint=b"state")


@pytest.fixture
def local(tmp_path) -> Path:
    return tmp_path / "local"


def pull(stranger: Stranger, folder: Path, **more: Any) -> Any:
    given = {"limits": ONCE, **more}
    return sync.pull(Location.parse(stranger.url), Location.parse(str(folder)), **given)


def push(dataset: FolderDataset, stranger: Stranger, **more: Any) -> Any:
    given = {"limits": ONCE, "token": "t", **more}
    return sync.push(Location.parse(str(dataset.folder)), Location.parse(stranger.url), **given)


# --- pull -----------------------------------------------------------------------------------


def test_an_honest_stranger_is_believed(theirs, local):
    with (
        static_files(theirs.folder) as files,
        playing(Stranger(honest_pull(theirs, files.url), str(theirs.head))) as node,
    ):
        pull(node, local)
    assert files_of(local) == theirs.files()


def test_objects_are_asked_for_in_portions(theirs, local):
    with (
        static_files(theirs.folder) as files,
        playing(Stranger(honest_pull(theirs, files.url), str(theirs.head))) as node,
    ):
        pull(node, local, limits=ClientLimits(objects_per_request=1))
    assert files_of(local) == theirs.files()


def test_a_ping_of_a_third_party_is_answered_and_ignored(theirs, local):
    def act(connection: ServerConnection) -> None:
        connection.ping()
        honest_pull(theirs, files.url)(connection)

    with (
        static_files(theirs.folder) as files,
        playing(Stranger(act, str(theirs.head))) as node,
    ):
        assert pull(node, local).outcome == "updated"


def _double(listed: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return listed + listed[:1]


def _foreign(listed: list[dict[str, Any]]) -> list[dict[str, Any]]:
    listed[0]["object_file"]["physical_hash"] = "f1620" + "00" * 32
    return listed


def _local_file(listed: list[dict[str, Any]]) -> list[dict[str, Any]]:
    for entry in listed:
        entry["download_from"]["url"] = "file:///etc/passwd"
    return listed


@pytest.mark.parametrize(
    ("change", "error"),
    [
        (_double, "UnintelligibleAnswer"),
        (_foreign, "UnintelligibleAnswer"),
        (lambda listed: listed[:1], "UnintelligibleAnswer"),
        (lambda listed: [], "UnintelligibleAnswer"),
        (lambda listed: "nonsense", "UnintelligibleAnswer"),
        (_local_file, "TransferFailed"),
    ],
)
def test_strategies_answer_exactly_what_was_asked(theirs, local, change, error):
    with (
        static_files(theirs.folder) as files,
        playing(Stranger(honest_pull(theirs, files.url, change=change), str(theirs.head))) as node,
        refusing(error),
    ):
        pull(node, local)
    assert not (local / "refs").exists()


@pytest.mark.parametrize("more", [0, 1])
def test_an_identical_repeat_of_a_block_counts_once_and_is_told(theirs, local, caplog, more):
    plan = plan_text(theirs, num_blocks=len(theirs.blocks) + more)
    with static_files(theirs.folder) as files:
        for twice in range(len(theirs.blocks)):
            act = honest_pull(theirs, files.url, plan=plan, batch=batch_text(theirs, twice=twice))
            with playing(Stranger(act, str(theirs.head))) as node:
                pull(node, local / str(twice))
            assert files_of(local / str(twice)) == theirs.files()
    assert "sent 1 block(s) twice" in caplog.text


def test_a_plan_is_only_an_announcement(theirs, local):
    fewer = honest_pull(theirs, "", batch=batch_text(theirs, last=1))
    with playing(Stranger(fewer, str(theirs.head))) as node, refusing("UnintelligibleAnswer"):
        pull(node, local)
    many = honest_pull(theirs, "", plan=plan_text(theirs, num_blocks=2_000_000))
    with playing(Stranger(many, str(theirs.head))) as node, refusing("TooMuch"):
        pull(node, local)
    large = honest_pull(theirs, "", plan=plan_text(theirs, bytes_in_raw_blocks=1 << 40))
    with playing(Stranger(large, str(theirs.head))) as node, refusing("TooMuch"):
        pull(node, local)
    nothing = honest_pull(theirs, "", plan=plan_text(theirs, num_blocks=0))
    with playing(Stranger(nothing, str(theirs.head))) as node, refusing("UnintelligibleAnswer"):
        pull(node, local)
    assert not (local / "refs").exists()


def test_a_plan_that_grew_in_the_meantime_is_fine(theirs, local):
    with (
        static_files(theirs.folder) as files,
        playing(
            Stranger(
                honest_pull(theirs, files.url, plan=plan_text(theirs, num_blocks=1)),
                str(theirs.head),
            )
        ) as node,
    ):
        assert pull(node, local).blocks == len(theirs.blocks)


def test_a_batch_larger_than_the_limit_is_not_unpacked(theirs, local):
    with (
        playing(Stranger(honest_pull(theirs, ""), str(theirs.head))) as node,
        pytest.raises(LimitExceeded),
    ):
        pull(node, local, limits=ClientLimits(metadata_bytes=1024 + 400))


def test_a_block_under_a_wrong_name_is_named(theirs, local):
    blocks = list(theirs.blocks)
    blocks[1] = msgspec.structs.replace(blocks[1], raw=blocks[1].raw + b"\0\0\0\0")
    forged = FolderDataset(theirs.folder, blocks)
    with (
        playing(
            Stranger(honest_pull(theirs, "", batch=batch_text(forged)), str(theirs.head))
        ) as node,
        pytest.raises(HashMismatch, match=str(blocks[1].hash)),
    ):
        pull(node, local)


def test_objects_are_held_to_hash_and_size(theirs, local):
    def wrong(handler: Any) -> None:
        content = bytearray((theirs.folder / handler.path.lstrip("/")).read_bytes())
        content[0] ^= 1
        send(handler, 200, bytes(content))

    cases = [
        (wrong, "HashMismatch"),
        (lambda h: send(h, 200, b"x" * 100_000), "ObjectSizeMismatch"),
        (lambda h: send(h, 404), "SourceObjectMissing"),
        (lambda h: send(h, 403), "Unauthorized"),
    ]
    for answer, error in cases:
        with (
            answering(answer) as files,
            playing(Stranger(honest_pull(theirs, files.url), str(theirs.head))) as node,
            refusing(error),
        ):
            pull(node, local)
    assert not (local / "refs").exists()


def test_the_token_goes_to_the_node_and_nowhere_else(theirs, local):
    with (
        static_files(theirs.folder) as files,
        playing(Stranger(honest_pull(theirs, files.url), str(theirs.head))) as node,
    ):
        pull(node, local, token="secret")
        names = [{name.lower() for name in headers} for _, _, headers in files.requests]
        assert names
        assert all("authorization" not in sent for sent in names)


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        ("nonsense", "UnintelligibleAnswer"),
        ("[]", "UnintelligibleAnswer"),
        ("{}", "UnintelligibleAnswer"),
        ('{"Ok":{}}', "UnintelligibleAnswer"),
        ('{"Ok":{"transfer_plan":{"num_blocks":-1}}}', "UnintelligibleAnswer"),
        ('{"Err":{"Surprise":{}}}', "UnintelligibleAnswer"),
        (b"\x00", "UnintelligibleAnswer"),
        ("[" * 100_000, "UnintelligibleAnswer"),
        ("x" * 2_000_000, "TransferFailed"),
        (
            '{"Err":{"Internal":{"phase":{"Pull":"InitialRequest"},"error_message":"boom"}}}',
            "NodeFailed",
        ),
        ('{"Err":{"SeedBlockOverwriteRestricted":{}}}', "SeedOverwrite"),
    ],
)
def test_answers_out_of_the_protocol_end_the_exchange(theirs, local, answer, error):
    def act(connection: ServerConnection) -> None:
        connection.recv()
        connection.send(answer)
        connection.recv()

    limits = ClientLimits(message_bytes=1_000_000)
    with playing(Stranger(act, str(theirs.head))) as node, refusing(error):
        pull(node, local, limits=limits)


def test_silence_is_given_up(theirs, local):
    with (
        playing(Stranger(lambda c: time.sleep(1.5), str(theirs.head))) as node,
        refusing("NodeBusy"),
    ):
        pull(node, local, limits=ClientLimits(message_s=0.2))


REASONS = [
    (1011, '{"Err":{"SeedBlockOverwriteRestricted":{}}}', "SeedOverwrite"),
    (
        1011,
        '{"Err":{"RefCollision":{"dataset_id":"did:odf:fed01' + "0a" * 32 + '"}}}',
        "RefCollision",
    ),
    (1011, '{"Err":{"NameCollision":{"dataset_alias":"acc/name"}}}', "NameCollision"),
    (
        1011,
        json.dumps(
            {"Err": {"Internal": {"phase": {"Push": "ObjectsRequest"}, "error_message": "no"}}}
        ),
        "NodeFailed",
    ),
    (1011, '{"Err":{"Unheard":{}}}', "NodeFailed"),
    (1011, "no JSON", "NodeFailed"),
    (1011, "[1]", "NodeFailed"),
    (1000, "", "Disconnected"),
    (1001, "bye", "Disconnected"),
]


@pytest.mark.parametrize(("code", "reason", "error"), REASONS)
def test_a_close_says_what_went_wrong(theirs, code, reason, error):
    def act(connection: ServerConnection) -> None:
        connection.recv()
        connection.close(code, reason)

    with playing(Stranger(act)) as node, refusing(error):
        push(theirs, node)


@pytest.mark.parametrize(
    ("status", "error"),
    [
        (400, "HandshakeRefused"),
        (403, "Unauthorized"),
        (500, "TransferFailed"),
        (204, "TransferFailed"),
    ],
)
def test_a_refused_handshake_says_why(theirs, status, error):
    stranger = Stranger(lambda c: None, status=status, body='{"message":"not you\\u001b[31m"}')
    with playing(stranger) as node, refusing(error) as caught:
        push(theirs, node)
    assert "\x1b" not in caught.value.message
    if status == 400:
        assert caught.value.message == "not you [31m"


# --- push -----------------------------------------------------------------------------------


def honest_push(
    stranger: Callable[[], Stranger],
    dataset: FolderDataset,
    base: str,
    *,
    asks: int = 0,
    strays: int = 0,
    commits: bool = True,
    confirms: bool = True,
) -> Callable[[ServerConnection], None]:
    """Push as a node should take it: `asks` progress requests, `strays` of them too late."""

    def act(connection: ServerConnection) -> None:
        heard = stranger().heard
        heard.append(connection.recv())
        connection.send('{"Ok":{}}')
        connection.recv()
        connection.send('{"Ok":{}}')
        listed = strategies(connection.recv(), base)
        for entry in listed:
            entry |= {"push_strategy": "HttpUpload", "upload_to": entry.pop("download_from")}
        connection.send(json.dumps({"Ok": {"object_transfer_strategies": listed}}))
        for _ in range(asks):
            connection.send("{}")
        while heard[-1:] != ['{"details":"Complete"}']:
            heard.append(connection.recv())
        for _ in range(strays):
            connection.send("{}")
        heard.append(connection.recv())
        time.sleep(0.3)
        if commits:
            stranger().head = str(dataset.head)
        if confirms:
            connection.send("{}")
        try:
            connection.recv()
        except ConnectionClosed as closed:
            heard.append(f"{closed.rcvd.code} {closed.rcvd.reason}" if closed.rcvd else "dropped")

    return act


@contextmanager
def taking_push(dataset: FolderDataset, put: Callable[[Any], None], **more: Any) -> Iterator[Any]:
    stranger: list[Stranger] = []
    with answering(put) as files:
        act = honest_push(lambda: stranger[0], dataset, files.url, **more)
        stranger.append(Stranger(act))
        with playing(stranger[0]) as node:
            yield node, files


def _take(handler: Any) -> None:
    handler.rfile.read(int(handler.headers["content-length"]))
    send(handler, 200)


def test_progress_requests_are_answered_while_objects_are_uploaded(theirs):
    heard: list[str] = []

    def take_when_both_were_answered(handler: Any) -> None:
        wait_until(lambda: len(heard) >= 3, "two answers")
        _take(handler)

    with taking_push(theirs, take_when_both_were_answered, asks=2) as (node, files):
        heard = node.heard
        outcome = push(theirs, node)
        wait_until(lambda: len(heard) == 6, "the close")
    assert (outcome.blocks, outcome.objects) == (3, 2)
    assert node.heard[1:] == [
        '{"details":{"Running":{"uploaded_objects_count":0}}}',
        '{"details":{"Running":{"uploaded_objects_count":0}}}',
        '{"details":"Complete"}',
        "{}",
        "1000 Client push flow succeeded",
    ]
    for method, _, headers in files.requests:
        lower = {name.lower(): value for name, value in headers.items()}
        assert method == "PUT"
        assert lower["content-type"] == "application/octet-stream"
        assert lower["content-length"].isdigit()
        assert "transfer-encoding" not in lower
        assert "authorization" not in lower


def test_a_late_progress_request_is_not_taken_for_the_confirmation(theirs):
    with taking_push(theirs, _take, strays=2) as (node, _):
        started = time.monotonic()
        push(theirs, node)
        assert time.monotonic() - started > 0.3
        assert node.head == str(theirs.head)


def test_a_node_that_hangs_up_after_the_commit_has_committed(theirs):
    with taking_push(theirs, _take, confirms=False) as (node, _):
        assert push(theirs, node, limits=UNCONFIRMED).outcome == "updated"


def test_a_confirmation_without_commit_is_not_believed(theirs):
    with taking_push(theirs, _take, commits=False) as (node, _), refusing("PushUnconfirmed"):
        push(theirs, node, limits=UNCONFIRMED)


@pytest.mark.parametrize(
    ("status", "error"), [(400, "UploadRefused"), (403, "Unauthorized"), (500, "UploadRefused")]
)
def test_an_upload_that_is_refused_ends_the_push(theirs, status, error):
    def refuse(handler: Any) -> None:
        handler.rfile.read(int(handler.headers["content-length"]))
        send(handler, status)

    with taking_push(theirs, refuse) as (node, _), refusing(error):
        push(theirs, node)


def test_a_stale_head_is_a_conflict(theirs):
    moved = {"actual_head": None, "expected_head": "f1620" + "00" * 32}

    def act(connection: ServerConnection) -> None:
        connection.recv()
        connection.send(json.dumps({"Err": {"InvalidHead": moved}}))
        connection.close()

    with playing(Stranger(act)) as node, refusing("HeadMoved") as caught:
        push(theirs, node)
    assert caught.value.facts["node_head"] == moved["expected_head"]


def test_an_invalid_interval_is_a_divergence_even_if_nobody_can_say_by_how_much(theirs, local):
    ours = theirs.fork(local)
    ours.add_info("ours")
    theirs.add_info("theirs")
    interval = {"head": str(theirs.head), "tail": str(ours.head)}

    def act(connection: ServerConnection) -> None:
        connection.recv()
        connection.send(json.dumps({"Err": {"InvalidInterval": interval}}))

    with playing(Stranger(act, str(theirs.head))) as node, pytest.raises(Diverged):
        pull(node, local)
    assert files_of(local)["refs/head"] == str(ours.head).encode()
