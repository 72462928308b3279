"""Datasets in buckets, without a node: pushed to, pulled from, and never left half."""

from __future__ import annotations

import json
import secrets

import pytest
from buckets import log_in
from chains import files_of, make_dataset
from click.testing import CliRunner
from refusals import refusing

from odf_node.cli.main import main
from odf_node.client.nodes.http import DatasetMissing
from odf_node.client.nodes.remotes import Location, Transfer
from odf_node.client.transfer import sync
from odf_node.client.transfer.receive import DestinationAhead, Diverged
from odf_node.client.transfer.simple_pull import BucketRepository
from odf_protocol.multihash import HashMismatch, Multihash
from odf_storage.stores.objects.s3_bucket import Bucket, S3Location
from odf_storage.stores.ports.errors import ObjectNotFound
from odf_storage.stores.ports.values import ObjectKind


@pytest.fixture
def place(s3_bucket_url, s3, monkeypatch) -> Location:
    """A prefix of the bucket that nobody else uses."""
    log_in(monkeypatch, s3)
    return Location.parse(f"{s3_bucket_url}/datasets/{secrets.token_hex(6)}/foo")


@pytest.fixture
def mine(tmp_path):
    return make_dataset(tmp_path / "mine", rows=[10, 3], checkpoint=b"state")


def here(path) -> Location:
    return Location.parse(str(path))


def test_buckets_have_addresses_of_their_own():
    for text in ("s3://bucket/a/b", "s3+http://host:9000/bucket/a/b/", "s3+https://h/bucket/a"):
        location = Location.parse(text)
        assert location.transfer is Transfer.BUCKET
        assert str(location) == text.rstrip("/") + "/"
    for text in ("s3://", "s3://user:secret@bucket/x", "s3+http://host"):
        with refusing("MalformedStoreUrl"):
            BucketRepository(text)


def test_what_is_pushed_to_a_bucket_is_pulled_from_it_byte_for_byte(place, mine, tmp_path):
    pushed = sync.push(here(mine.folder), place)
    assert (pushed.blocks, pushed.objects, pushed.old_head) == (4, 3, None)
    pulled = sync.pull(place, here(tmp_path / "theirs"))
    assert pulled.new_head == mine.head
    assert files_of(tmp_path / "theirs") == files_of(mine.folder)
    assert sync.push(here(mine.folder), place).outcome == "up-to-date"
    mine.add_rows(2)
    assert sync.push(here(mine.folder), place).blocks == 1
    assert sync.pull(place, here(tmp_path / "theirs")).blocks == 1


def test_the_layout_is_that_of_the_simple_protocol(place, mine):
    sync.push(here(mine.folder), place)
    bucket = Bucket(S3Location.parse(str(place).rstrip("/")))
    assert {found.name for found in bucket.walk("")} == set(files_of(mine.folder))
    with bucket.call("get_object", "refs/head")["Body"] as body:
        assert body.read().decode() == str(mine.head)


def test_history_in_a_bucket_is_replaced_by_force_only(place, mine, tmp_path):
    other = mine.fork(tmp_path / "other")
    mine.add_rows(1)
    sync.push(here(mine.folder), place)
    with pytest.raises(DestinationAhead):
        sync.push(here(other.folder), place)
    other.add_info("another way")
    with pytest.raises(Diverged):
        sync.push(here(other.folder), place)
    assert BucketRepository(str(place)).head() == mine.head
    assert sync.push(here(other.folder), place, force=True).new_head == other.head


def test_an_empty_bucket_holds_no_dataset(place, mine, tmp_path):
    with pytest.raises(DatasetMissing):
        sync.pull(place, here(tmp_path / "x"))
    with pytest.raises(DatasetMissing):
        sync.push(here(mine.folder), place, create=False)
    with pytest.raises(ObjectNotFound):
        BucketRepository(str(place)).open_object(ObjectKind.DATA, mine.head)


def test_nothing_appears_under_a_hash_it_does_not_have(place):
    bucket, name = BucketRepository(str(place)), Multihash.of(b"right")
    with pytest.raises(HashMismatch):
        bucket.put(ObjectKind.DATA, name, [b"wrong"])
    assert not bucket.holds(ObjectKind.DATA, name, 5)
    bucket.put(ObjectKind.DATA, name, [b"ri", b"ght"])
    assert bucket.holds(ObjectKind.DATA, name, 5)
    assert not bucket.holds(ObjectKind.DATA, name, 6)


def test_of_two_that_move_the_head_one_is_told(place, mine, tmp_path):
    first, second = BucketRepository(str(place)), BucketRepository(str(place))
    assert first.find_head() is None
    assert second.find_head() is None
    first.move_head(expected=None, new=mine.blocks)
    with refusing("BucketBusy"):
        second.move_head(expected=None, new=mine.blocks[:1])
    assert second.head() == mine.head


def test_the_command_line_pushes_to_a_bucket_pulls_and_verifies_it(place, mine, tmp_path):
    def run(*words):
        env = {"ODF_NODE_CONFIG": str(tmp_path / "config")}
        done = CliRunner().invoke(main, [str(word) for word in words], env=env)
        assert done.exit_code == 0, done.output
        return done.stdout

    told = json.loads(run("push", mine.folder, place, "--json"))
    assert told["target"] == str(place)
    assert "updated" in run("pull", place, tmp_path / "theirs")
    assert "up to date" in run("pull", tmp_path / "theirs")
    run("verify", place)
