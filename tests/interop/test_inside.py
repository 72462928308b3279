"""Scenarios that take a look, or a hand, inside of the node."""

from __future__ import annotations

import pytest
from mimic import Chain, CloseReason, GaveUp, Mimic, object_name, on_own_node
from nodes import served
from static_files import static_files
from threaded_node import threaded_node

from odf_conformance.chains import evolved, ten_records
from odf_conformance.checks.accounts import prepared, sent
from odf_conformance.checks.pull import pull_strategies, push_strategies
from odf_conformance.checks.wire import with_push_source
from odf_conformance.http import request
from odf_conformance.node import json_of
from odf_protocol.multihash import Multihash
from odf_storage.stores.objects.layout import dataset_path
from odf_storage.stores.ports.values import ObjectKey, ObjectKind

scenario = pytest.mark.scenario
KINDS = {"data": ObjectKind.DATA, "checkpoints": ObjectKind.CHECKPOINT}


@scenario("B08")
def test_objects_that_wait_for_their_dataset_are_skipped(single, single_node):
    chain, url = ten_records(), single.fresh()
    for (folder, name), content in chain.objects.items():
        key = ObjectKey(chain.id, KINDS[folder], Multihash.parse(name))
        single_node.node.stores.objects.put(key, [content])
    mimic = single.mimic(url)
    assert mimic.push(chain).num_blocks == 4
    assert mimic.trace == ["GET refs", "upgrade push"]


@scenario("D15")
@pytest.mark.parametrize(("folder", "word"), [("data", "data"), ("checkpoints", "checkpoint")])
def test_an_object_lost_at_the_source_is_a_corrupted_source(single, single_node, folder, word):
    made = single.publish(ten_records())
    for name in [name for kind, name in made.chain.objects if kind == folder]:
        key = ObjectKey(made.chain.id, KINDS[folder], Multihash.parse(name))
        single_node.node.stores.objects.delete(key)
    with pytest.raises(GaveUp) as ended:
        single.mimic(made.url).simple_pull(Chain())
    assert (ended.value.why, ended.value.text) == (
        CloseReason.CORRUPTED,
        f"Source {word} file is missing",
    )
    with pytest.raises(GaveUp) as ended:
        single.mimic(made.url).pull(Chain())
    assert ended.value.why is CloseReason.CORRUPTED


@scenario("D16")
def test_the_folder_of_a_dataset_is_a_repository_for_a_file_server(single, single_node):
    made, local = single.publish(ten_records()), Chain()
    with static_files(single_node.data / dataset_path(made.chain.id)) as files:
        assert Mimic(files.url).simple_pull(local).num_blocks == 4
    assert local == made.chain


@scenario("K06")
def test_a_node_without_anonymous_access_tells_ids_to_accounts_only(tmp_path):
    with on_own_node(tmp_path) as open_node:
        made = open_node.publish(ten_records())
    path = f"/datasets/{made.chain.id}"
    with threaded_node(tmp_path, allow_anonymous=False) as node:
        ask = open_node.ask
        refused = ask("GET", node.url + path)
        assert (refused.status, refused.body) == (401, b"Anonymous account is restricted")
        token = node.token()
        assert ask("GET", node.url + path, token).status == 200
        unknown = ask("GET", node.url + "/datasets/did:odf:fed01" + "ab" * 32, token)
        assert unknown.status == 404


@scenario("M04")
def test_a_file_above_the_limit_is_refused_announced_or_not(tmp_path):
    with on_own_node(tmp_path, max_upload_bytes=100) as bench:
        announced = prepared(bench, "a.json", 500, "application/json", bench.token)
        assert (announced.status, json_of(announced)["message"]) == (400, "Content too large")
        plan = json_of(prepared(bench, "a.json", 100, "application/json", bench.token))
        answer = sent(plan, b"x" * 500)
        assert (answer.status, json_of(answer)["message"]) == (400, "Content too large")


@scenario("Z26")
def test_a_media_type_may_come_with_parameters(single):
    made = single.base("push source", with_push_source)
    headers = [
        ("authorization", f"Bearer {single.token}"),
        ("content-type", "Application/X-NdJson; charset=utf-8"),
        ("prefer", "respond-async"),
    ]
    answer = request("POST", made.url + "ingest", headers, b'{"city":"a"}\n')
    assert answer.status == 202


@scenario("C05")
def test_objects_in_a_bucket_are_fetched_by_urls_that_expire_and_carry_no_headers(bucket):
    made = bucket.publish(ten_records())
    files = made.chain.files()
    for strategy in pull_strategies(bucket.mimic(made.url), files):
        source = strategy["download_from"]
        assert source["headers"] == []
        assert source["expires_at"]
        assert not source["url"].startswith(bucket.origin)


@scenario("C06")
def test_objects_for_a_bucket_are_put_by_urls_that_expire(bucket):
    made = bucket.publish(ten_records())
    more = evolved(made.chain)
    for strategy in push_strategies(bucket.mimic(made.url), made, more, more.files()):
        if object_name(strategy["object_file"]) in made.chain.objects:
            assert (strategy["push_strategy"], strategy["upload_to"]) == ("SkipUpload", None)
        else:
            target = strategy["upload_to"]
            assert strategy["push_strategy"] == "HttpUpload"
            assert target["expires_at"]
            assert not target["url"].startswith(bucket.origin)
            names = {header["name"].lower() for header in target["headers"]}
            assert names.isdisjoint({"content-type", "content-length", "authorization"})


@pytest.mark.e2e
@scenario("A01")
@scenario("B02")
def test_a_node_started_from_the_command_line_takes_and_gives_datasets(tmp_path):
    with served(tmp_path / "node", "--tenancy", "multi", "--workers", "0") as node:
        token = node.token()
        url = f"{node.url}/kamu/foo"
        chain, local = ten_records(), Chain()
        assert Mimic(url, token).push(chain, visibility="Public").num_blocks == 4
        more = evolved(chain)
        assert Mimic(url, token).push(more).num_blocks == 2
        assert Mimic(url).pull(local).num_blocks == 6
    assert local == more
