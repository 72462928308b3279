"""Simple pull from static file servers and folders, honest ones and others."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
from chains import FolderDataset, files_of, make_dataset
from msgspec.structs import replace
from refusals import refusing
from static_files import answering, send, static_files

from odf_node.client.nodes.http import DatasetMissing, TransferFailed, Unauthenticated, Unreachable
from odf_node.client.nodes.limits import ClientLimits
from odf_node.client.nodes.remotes import Location
from odf_node.client.transfer import sync
from odf_node.client.transfer.folder import FolderRepository
from odf_node.client.transfer.receive import (
    BlockMissing,
    DestinationAhead,
    Diverged,
    Outcome,
    SourceObjectMissing,
    Unwatched,
)
from odf_protocol.chain.definition_rules import ChainRuleBroken
from odf_protocol.metadata.events import AddData, OffsetInterval
from odf_protocol.multihash import HashMismatch, Multihash
from odf_storage.stores.objects.layout import HEAD
from odf_storage.stores.ports.values import ObjectKind

ONCE = ClientLimits(attempts=1)


def pull(source: str | Path, target: Path, **more: object) -> Outcome:
    return sync.pull(Location.parse(str(source)), Location(**_folder(target)), **more)


def _folder(path: Path) -> dict:
    parsed = Location.parse(str(path))
    return {"transfer": parsed.transfer, "path": parsed.path}


@pytest.fixture
def remote(tmp_path) -> FolderDataset:
    return make_dataset(tmp_path / "remote", rows=[10, 5], checkpoint=b"state")


@pytest.fixture
def local(tmp_path) -> Path:
    return tmp_path / "local"


@pytest.mark.scenario("D16")
def test_a_static_file_server_over_a_dataset_folder_is_a_repository(remote, local):
    with static_files(remote.folder) as server:
        outcome = pull(server.url, local)
        assert (outcome.outcome, outcome.old_head, outcome.new_head) == (
            "updated",
            None,
            remote.head,
        )
        assert (outcome.blocks, outcome.objects) == (4, 3)
        assert files_of(local) == remote.files()
        again = pull(server.url, local)
        assert again.outcome == "up-to-date"
    assert not list(local.rglob(".pending*"))


def test_a_folder_is_a_repository_and_can_be_pushed_to(remote, local):
    outcome = sync.push(Location.parse(str(remote.folder)), Location.parse(f"file://{local}"))
    assert outcome.blocks == 4
    assert files_of(local) == remote.files()


@pytest.mark.scenario("E03")
def test_only_what_is_new_is_fetched(remote, local):
    with static_files(remote.folder) as server:
        pull(server.url, local)
        old = remote.head
        remote.add_rows(3, checkpoint=b"later")
        remote.add_info("more")
        server.requests.clear()
        outcome = pull(server.url, local)
        assert (outcome.old_head, outcome.blocks, outcome.objects) == (old, 2, 2)
        # two new blocks, and the old head that ends the walk
        assert len(server.paths("/blocks/")) == 3
        assert len(server.paths("/data/")) == 1
    assert files_of(local) == remote.files()


@pytest.mark.scenario("E05")
def test_a_missing_source_is_not_found_and_leaves_nothing_behind(tmp_path, local):
    (tmp_path / "empty").mkdir()
    with static_files(tmp_path / "empty") as server, pytest.raises(DatasetMissing):
        pull(server.url, local)
    with pytest.raises(DatasetMissing):
        pull(tmp_path / "empty", local)
    assert not local.exists()


@pytest.mark.scenario("E02")
def test_a_destination_that_is_ahead_is_told_by_how_much(remote, local):
    ours = remote.fork(local)
    ours.add_info("one")
    ours.add_info("two")
    before = ours.files()
    with pytest.raises(DestinationAhead) as caught:
        pull(remote.folder, local)
    common = {"ancestor": str(remote.head), "ancestor_number": remote.blocks[-1].sequence_number}
    assert caught.value.facts == {"blocks": 2, **common}
    assert files_of(local) == before


@pytest.mark.scenario("D14")
@pytest.mark.scenario("E04")
def test_diverged_chains_are_told_how_far_on_each_side(remote, local):
    ours = remote.fork(local)
    common = remote.blocks[-1]
    ours.add_info("ours")
    remote.add_info("theirs")
    remote.add_rows(2)
    with pytest.raises(Diverged) as caught:
        pull(remote.folder, local)
    assert caught.value.facts == {
        "uncommon_in_source": 2,
        "uncommon_in_destination": 1,
        "ancestor": str(common.hash),
        "ancestor_number": common.sequence_number,
    }
    assert f"after block #{common.sequence_number} {common.hash}: 2 block(s)" in str(caught.value)


@pytest.mark.parametrize("theirs", [0, 1])
def test_force_replaces_a_destination_that_is_ahead_or_diverged(remote, local, theirs):
    ours = remote.fork(local)
    ours.add_info("ours")
    for _ in range(theirs):
        remote.add_info("theirs")
    outcome = pull(remote.folder, local, force=True)
    assert (outcome.outcome, outcome.old_head, outcome.new_head) == (
        "updated",
        ours.head,
        remote.head,
    )
    assert outcome.blocks == len(remote.blocks)
    assert outcome.objects == 0  # all of them were here
    assert (local / "refs" / "head").read_text() == str(remote.head)


def test_force_on_a_destination_that_is_merely_behind_transfers_only_the_new(remote, local):
    remote.fork(local)
    remote.add_info("new")
    assert pull(remote.folder, local, force=True).blocks == 1


def test_force_never_replaces_another_dataset(remote, tmp_path):
    other = make_dataset(tmp_path / "other", key=8)
    for force in (False, True):
        with refusing("SeedOverwrite"):
            pull(remote.folder, other.folder, force=force)
    assert (other.folder / "refs" / "head").read_text() == str(other.head)


@pytest.mark.parametrize(
    ("folder", "text"),
    [("data", "Source data file is missing"), ("checkpoints", "Source checkpoint file is missing")],
)
def test_an_object_missing_at_the_source_is_a_corrupted_source(remote, local, folder, text):
    for path in (remote.folder / folder).iterdir():
        path.unlink()
    with static_files(remote.folder) as server:
        for source in (server.url, remote.folder):
            with pytest.raises(SourceObjectMissing, match=text):
                pull(source, local)
    assert not (local / "refs" / "head").exists()


def test_a_block_missing_at_the_source_is_named(remote, local):
    remote.objects.delete(ObjectKind.BLOCK, remote.blocks[1].hash)
    with static_files(remote.folder) as server, pytest.raises(BlockMissing) as caught:
        pull(server.url, local)
    assert caught.value.facts["block"] == str(remote.blocks[1].hash)


class Watching(Unwatched):
    """Does something once the first object was fetched."""

    def __init__(self, act: Callable[[], object]) -> None:
        self._act: Callable[[], object] | None = act

    def object_done(self) -> None:
        if self._act is not None:
            act, self._act = self._act, None
            act()


def test_a_source_whose_old_history_is_cleared_away_meanwhile_is_rewritten_not_damaged(
    remote, local
):
    def rewritten() -> None:
        remote.objects.write_ref(HEAD, remote.blocks[1].hash)
        for path in (remote.folder / "data").iterdir():
            path.unlink()

    one_by_one = ClientLimits(parallel_simple=1)
    with refusing("SourceRewritten", match="pull again") as caught:
        pull(remote.folder, local, limits=one_by_one, progress=Watching(rewritten))
    assert caught.value.facts["head"] == str(remote.blocks[1].hash)
    assert not (local / "refs" / "head").exists()
    assert pull(remote.folder, local).new_head == remote.blocks[1].hash


@pytest.mark.parametrize("kind", ["blocks", "data", "checkpoints"])
def test_one_flipped_bit_is_noticed_and_named_and_nothing_becomes_visible(remote, local, kind):
    path = next(iter((remote.folder / kind).iterdir()))
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.chmod(0o644)
    path.write_bytes(content)
    with static_files(remote.folder) as server, pytest.raises(HashMismatch, match=path.name):
        pull(server.url, local, limits=ONCE)
    assert not (local / "refs" / "head").exists()
    assert path.name not in {file.name for file in local.rglob("*")}


def test_what_an_interrupted_pull_fetched_is_not_fetched_again(remote, local):
    checkpoint = next((remote.folder / "checkpoints").iterdir())
    content = checkpoint.read_bytes()
    checkpoint.unlink()
    with static_files(remote.folder) as server:
        with pytest.raises(SourceObjectMissing):
            sync.pull(
                Location.parse(server.url),
                Location.parse(str(local)),
                limits=ClientLimits(parallel_simple=1),
            )
        checkpoint.write_bytes(content)
        server.requests.clear()
        pull(server.url, local)
        assert server.paths("/data/") == []
    assert files_of(local) == remote.files()


def test_what_is_here_already_but_damaged_is_fetched_again(remote, local):
    (local / "data").mkdir(parents=True)
    slices = sorted((remote.folder / "data").iterdir())
    (local / "data" / slices[0].name).write_bytes(b"half")
    same_size = bytearray(slices[1].read_bytes())
    same_size[5] ^= 1
    (local / "data" / slices[1].name).write_bytes(same_size)
    assert pull(remote.folder, local).objects == 3
    assert files_of(local) == remote.files()


def test_a_source_that_lies_about_the_size_of_an_object_here_takes_nothing_away(remote, local):
    pull(remote.folder, local)
    before = files_of(local)
    told = remote.blocks[-1].event
    rows = told.new_data.offset_interval
    later = OffsetInterval(start=rows.end + 1, end=rows.end + rows.end - rows.start + 1)
    remote.append(
        AddData(
            prev_offset=rows.end,
            prev_checkpoint=told.new_checkpoint.physical_hash,
            new_data=replace(told.new_data, size=told.new_data.size + 1, offset_interval=later),
            new_checkpoint=told.new_checkpoint,
            new_watermark=told.new_watermark,
        )
    )
    with refusing("ObjectSizeMismatch"):
        pull(remote.folder, local)
    assert files_of(local) == before


def test_a_head_with_a_newline_is_not_a_head(remote, local):
    (remote.folder / "refs" / "head").write_text(f"{remote.head}\n")
    with static_files(remote.folder) as server, refusing("MalformedHead"):
        pull(server.url, local)


def test_a_folder_whose_head_is_no_hash_is_not_taken_for_an_empty_one(remote, local):
    remote.fork(local)
    (local / "refs" / "head").write_text("nonsense")
    with refusing("MalformedHead"):
        pull(remote.folder, local)


def test_a_chain_that_breaks_a_rule_is_not_taken(remote, local):
    forged = _without_schema(remote.folder.parent / "forged")
    with static_files(forged) as server, pytest.raises(ChainRuleBroken):
        pull(server.url, local)
    assert not (local / "refs" / "head").exists()


def _without_schema(folder: Path) -> Path:
    """Seed, then data without any schema: every hash is right, the chain is not."""
    from odf_protocol.codec.blocks import encode_block
    from odf_protocol.metadata.events import AddData, DataSlice, MetadataBlock, OffsetInterval

    dataset = make_dataset(folder)
    seed = dataset.blocks[0]
    event = AddData(
        new_data=DataSlice(
            logical_hash=Multihash.of(b"x"),
            physical_hash=Multihash.of(b"x"),
            offset_interval=OffsetInterval(start=0, end=0),
            size=1,
        )
    )
    block = encode_block(
        MetadataBlock(
            system_time=seed.block.system_time,
            prev_block_hash=seed.hash,
            sequence_number=1,
            event=event,
        )
    )
    dataset.objects.put(ObjectKind.BLOCK, block.hash, [block.raw])
    dataset.objects.write_ref("head", block.hash)
    return folder


def test_a_folder_with_something_else_in_it_is_left_alone(remote, tmp_path):
    home = tmp_path / "home"
    home.mkdir()
    (home / "letter.txt").write_text("dear")
    with refusing("NotADatasetFolder"):
        pull(remote.folder, home)
    assert [path.name for path in home.iterdir()] == ["letter.txt"]
    with refusing("NotADatasetFolder"):
        pull(remote.folder, home / "letter.txt")


def test_two_pulls_do_not_write_to_one_folder_at_once(remote, local):
    with FolderRepository(local).locked(), refusing("FolderBusy"):
        pull(remote.folder, local)
    pull(remote.folder, local)


def test_what_can_only_be_read_is_not_pushed_to(remote):
    with refusing("UnsupportedUrl", match=r"odf\+http"):
        sync.push(Location.parse(str(remote.folder)), Location.parse("http://127.0.0.1:1/x"))


# --- servers that misbehave -----------------------------------------------------------------


def _dataset_but(remote: FolderDataset, prefix: str, answer):
    """The dataset as it is, except for paths that begin with `prefix`."""

    def serve(handler) -> None:
        path = remote.folder / handler.path.lstrip("/")
        if handler.path.startswith(prefix):
            answer(handler)
        elif path.is_file():
            send(handler, 200, path.read_bytes())
        else:
            send(handler, 404)

    return serve


def _endless(handler) -> None:
    handler.send_response(200)
    handler.send_header("Connection", "close")
    handler.end_headers()
    handler.close_connection = True
    for _ in range(100_000):
        handler.wfile.write(b"x" * 65536)


@pytest.mark.parametrize(
    ("prefix", "error"),
    [("/refs/", "TooMuch"), ("/blocks/", "TooMuch"), ("/data/", "ObjectSizeMismatch")],
)
def test_an_endless_body_is_cut_off(remote, local, prefix, error):
    limits = ClientLimits(block_bytes=1 << 20, attempts=1)
    with (
        answering(_dataset_but(remote, prefix, _endless)) as server,
        refusing(error),
    ):
        pull(server.url, local, limits=limits)
    assert not (local / "refs" / "head").exists()


@pytest.mark.parametrize("prefix", ["/refs/", "/blocks/", "/data/"])
def test_a_body_that_comes_in_drops_is_given_up(remote, local, prefix):
    """Each drop comes in time, and there would be no end of it."""

    def dripping(handler) -> None:
        content = (remote.folder / handler.path.lstrip("/")).read_bytes()
        handler.send_response(200)
        handler.send_header("Content-Length", str(len(content)))
        handler.end_headers()
        with suppress(OSError):
            for at in range(len(content)):
                handler.wfile.write(content[at : at + 1])
                handler.wfile.flush()
                time.sleep(0.05)

    limits = ClientLimits(patience_s=0.4, slowest_bytes_per_s=1000, attempts=1)
    with (
        answering(_dataset_but(remote, prefix, dripping)) as server,
        refusing("TooSlow"),
    ):
        pull(server.url, local, limits=limits)
    assert not (local / "refs" / "head").exists()


def test_a_body_shorter_than_its_block_says_is_refused(remote, local):
    with (
        answering(_dataset_but(remote, "/data/", lambda h: send(h, 200, b"PAR1"))) as server,
        refusing("ObjectSizeMismatch"),
    ):
        pull(server.url, local)


def test_a_connection_that_breaks_is_tried_again(remote, local):
    failures = iter([1, 1])

    def sometimes(handler) -> None:
        content = (remote.folder / handler.path.lstrip("/")).read_bytes()
        if next(failures, None) is None:
            send(handler, 200, content)
            return
        handler.send_response(200)
        handler.send_header("Content-Length", str(len(content)))
        handler.end_headers()
        handler.wfile.write(content[:100])
        handler.close_connection = True

    with answering(_dataset_but(remote, "/data/", sometimes)) as server:
        pull(server.url, local)
    assert files_of(local) == remote.files()


def test_a_silent_server_is_given_up(remote, local):
    import time

    limits = ClientLimits(idle_s=0.3, attempts=1)
    with (
        answering(_dataset_but(remote, "/data/", lambda h: time.sleep(1))) as server,
        pytest.raises(Unreachable),
    ):
        pull(server.url, local, limits=limits)


@pytest.mark.parametrize(
    ("path", "status", "error"),
    [
        ("/refs/", 401, Unauthenticated),
        ("/refs/", 500, TransferFailed),
        ("/blocks/", 401, Unauthenticated),
        ("/blocks/", 503, TransferFailed),
        ("/data/", 500, TransferFailed),
    ],
)
def test_statuses_become_typed_errors(remote, local, path, status, error):
    with (
        answering(_dataset_but(remote, path, lambda h: send(h, status, b"no"))) as server,
        pytest.raises(error),
    ):
        pull(server.url, local, limits=ONCE)


def test_a_token_follows_no_redirect_to_another_host(remote, local):
    with static_files(remote.folder) as elsewhere:
        target = elsewhere.url.replace("127.0.0.1", "localhost")

        def redirect(handler) -> None:
            send(handler, 302, Location=target + handler.path.lstrip("/"))

        with answering(redirect) as server:
            pull(server.url, local, token="secret")
            assert all(
                headers.get("authorization") == "Bearer secret" for _, _, headers in server.requests
            )
        assert elsewhere.requests
        sent = [{key.lower() for key in headers} for _, _, headers in elsewhere.requests]
        assert all("authorization" not in names for names in sent)
    assert files_of(local) == remote.files()


def test_a_redirect_within_the_host_keeps_the_token(remote, local):
    def serve(handler) -> None:
        if handler.path.startswith("/old/"):
            send(handler, 302, Location=handler.path.removeprefix("/old"))
        else:
            send(handler, 200, (remote.folder / handler.path.lstrip("/")).read_bytes())

    with answering(serve) as server:
        pull(server.url + "old/", local, token="secret")
        assert {h.get("authorization") for _, _, h in server.requests} == {"Bearer secret"}
    assert files_of(local) == remote.files()


def test_a_redirect_that_never_ends_is_given_up(local):
    with (
        answering(lambda handler: send(handler, 302, Location=handler.path)) as server,
        pytest.raises(TransferFailed),
    ):
        pull(server.url, local)


def test_more_blocks_than_the_limit_are_not_taken(remote, local):
    with static_files(remote.folder) as server, refusing("TooMuch"):
        pull(server.url, local, limits=ClientLimits(blocks=3))
    with static_files(remote.folder) as server, refusing("TooMuch"):
        pull(server.url, local, limits=ClientLimits(metadata_bytes=500))
