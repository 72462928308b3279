"""What may happen to a dataset while somebody transfers it."""

from __future__ import annotations

import json

import pytest
from raw_peer import bundled, files_of, head_of, named, push, request_pull, talking, upload
from service import described, seeded, serving, ten_rows
from upkeep_parts import TOMORROW

from odf_node.service.accounts.accounts import ensure_account
from odf_protocol.identity import DatasetAlias, DatasetRef
from odf_storage.datasets.dataset.info import read_info
from odf_storage.datasets.upkeep.gc import collect_garbage
from odf_storage.stores.ports.following import Mirror
from odf_storage.stores.ports.values import ObjectKey, ObjectKind, Role, Visibility

INTERNAL = {"Internal": {"phase": {"Push": "InitialRequest"}, "error_message": "Internal error"}}


@pytest.fixture(scope="module")
def multi(tmp_path_factory):
    with serving(tmp_path_factory.mktemp("multi"), tenancy="multi", mirror_threads=0) as service:
        yield service


def found(service, alias):
    return service.node.stores.registry.find(DatasetRef(alias=DatasetAlias.parse(alias)))


def forget(service, alias):
    entry = found(service, alias)
    service.node.stores.forget_dataset(entry.id)
    service.node.access.entries.forget(entry.alias)


def editor(service, chain):
    """A token of somebody who may write to the dataset, and owns nothing."""
    token = service.token("bert")
    bert = ensure_account(service.node.stores.accounts, "bert", service.node.random)
    service.node.stores.roles.put(chain.id, bert.id, Role.EDITOR)
    service.node.roles.forget(bert.id)
    return token


def test_a_role_at_what_is_gone_creates_nothing_in_its_place(multi):
    chain = ten_rows()
    multi.keep(chain, "anna/gone")
    with talking(multi, "/anna/gone/push", editor(multi, chain)) as peer:
        forget(multi, "anna/gone")
        peer.say(
            {
                "current_head": None,
                "transfer_plan": {
                    **dict.fromkeys(("num_objects", "num_records"), 0),
                    **dict.fromkeys(("bytes_in_raw_blocks", "bytes_in_raw_objects"), 0),
                    "num_blocks": 1,
                },
                "force_update_if_diverged": False,
                "visibility_for_created_dataset": "Public",
            }
        )
        code, reason = peer.close_frame()
    assert (code, json.loads(reason)["Err"]) == (1011, INTERNAL)
    assert found(multi, "anna/gone") is None


def test_a_role_at_one_dataset_is_none_at_the_next_of_its_name(multi):
    chain, other = ten_rows(), ten_rows()
    multi.keep(chain, "anna/renewed")
    with talking(multi, "/anna/renewed/push", editor(multi, chain)) as peer:
        forget(multi, "anna/renewed")
        multi.keep(other, "anna/renewed", Visibility.PRIVATE)
        with pytest.raises(Exception, match="1011"):
            peer.request_push(other.head, 1)
    assert multi.node.stores.refs.head(other.id) == other.head


def test_what_became_a_mirror_takes_no_push(multi):
    chain = ten_rows()
    token = multi.token("anna")
    with talking(multi, "/anna/mirrored/push", token) as peer:
        multi.keep(chain, "anna/mirrored")
        multi.node.stores.mirrors.put(Mirror(dataset=chain.id, remote="http://x.example/y/"))
        with pytest.raises(Exception, match="1011"):
            peer.request_push(chain.head, 1)
    assert multi.node.stores.refs.head(chain.id) == chain.head


def test_a_dataset_that_is_forgotten_in_the_middle_of_a_pull_is_not_sent_in_part(multi):
    chain = ten_rows()
    multi.keep(chain, "anna/pulled")
    with talking(multi, "/anna/pulled/pull") as peer:
        assert request_pull(peer)["Ok"]["transfer_plan"]["num_blocks"] == 4
        forget(multi, "anna/pulled")
        peer.say({})
        code, reason = peer.close_frame()
    assert code == 1011
    phase = json.loads(reason)["Err"]["Internal"]["phase"]
    assert phase == {"Pull": "MetadataRequest"}


def test_a_dataset_that_is_forgotten_in_the_middle_of_a_push_stays_forgotten(multi):
    chain, token = ten_rows(), multi.token("anna")
    with talking(multi, "/anna/pushed/push", token) as peer:
        peer.request_push(None, 4)
        peer.ask(bundled(named(chain.blocks)))
        upload(peer.ask({"object_files": files_of(chain), "is_truncated": False}), chain)
        forget(multi, "anna/pushed")
        peer.say({"details": "Complete"})
        peer.say({})
        code, _ = peer.close_frame()
    assert code == 1011
    assert found(multi, "anna/pushed") is None
    push(multi, "/anna/pushed", chain, token)
    assert head_of(multi, "/anna/pushed", token) == str(chain.head)


def test_an_object_that_is_cleared_away_in_the_middle_of_a_push_is_missed(multi):
    """And the next push brings it."""
    chain, token = ten_rows(), multi.token("anna")
    with talking(multi, "/anna/cleared/push", token) as peer:
        peer.request_push(None, 4)
        peer.ask(bundled(named(chain.blocks)))
        upload(peer.ask({"object_files": files_of(chain), "is_truncated": False}), chain)
        (kind, name), _ = next(iter(chain.objects.items()))
        assert kind is ObjectKind.DATA
        multi.node.stores.objects.delete(ObjectKey(chain.id, kind, name))
        peer.say({"details": "Complete"})
        peer.say({})
        code, reason = peer.close_frame()
    assert code == 1011
    assert json.loads(reason)["Err"]["Internal"]["phase"] == {"Push": "CompleteRequest"}
    seed = chain.blocks[0].hash
    assert head_of(multi, "/anna/cleared", token) == str(seed)
    answer = push(multi, "/anna/cleared", chain, token, start=1, head=seed)
    strategies = [one["push_strategy"] for one in answer["Ok"]["object_transfer_strategies"]]
    assert sorted(strategies) == ["HttpUpload", "SkipUpload"]


def test_a_first_push_is_unfinished_until_blocks_behind_its_seed_have_come(multi):
    chain, token = ten_rows(), multi.token("anna")
    with talking(multi, "/anna/begun/push", token) as peer:
        peer.request_push(None, 4)
        peer.ask(bundled(named(chain.blocks)))
        peer.ask({"object_files": files_of(chain), "is_truncated": False})
    info = read_info(multi.node.stores.objects, chain.id)
    assert (info.pushed, info.unfinished) == (True, True)
    push(multi, "/anna/begun", chain, token, start=1, head=chain.blocks[0].hash)
    info = read_info(multi.node.stores.objects, chain.id)
    assert (info.pushed, info.unfinished) == (True, False)


def test_a_push_of_a_seed_alone_is_finished(multi):
    chain = seeded()
    push(multi, "/anna/seed", chain, multi.token("anna"))
    info = read_info(multi.node.stores.objects, chain.id)
    assert (info.pushed, info.unfinished) == (True, False)
    assert collect_garbage(multi.node.stores, clock=TOMORROW).datasets_forgotten == []


def test_a_push_by_force_while_somebody_else_moves_the_head_is_whole(multi):
    """Whoever is last has the head; what the other one wrote stays whole beside it."""
    token = multi.token("anna")
    base = seeded(b"\7" * 32)
    push(multi, "/anna/forced", base, token)
    theirs = seeded(b"\7" * 32).add(described("theirs"))
    ours = seeded(b"\7" * 32).add(described("ours"))
    with talking(multi, "/anna/forced/push", token) as peer:
        peer.request_push(base.head, 2, force=True)
        peer.ask(bundled(named(ours.blocks)))
        push(multi, "/anna/forced", theirs, token, start=1, head=base.head)
        peer.ask({"object_files": [], "is_truncated": False})
        peer.say({"details": "Complete"})
        assert peer.ask({}) == {}
    assert head_of(multi, "/anna/forced", token) == str(ours.head)
    dataset = multi.node.stores.dataset(DatasetRef(id=base.id))
    assert dataset.state().num_blocks == 2


def test_no_url_is_given_for_what_neither_is_here_nor_named(multi):
    chain, stranger = ten_rows(), ten_rows()
    multi.keep(chain, "anna/asked")
    with talking(multi, "/anna/asked/pull") as peer:
        request_pull(peer)
        peer.ask({})
        assert len(peer.ask({"object_files": files_of(chain)})["object_transfer_strategies"]) == 2
        peer.say({"object_files": files_of(stranger)})
        code, reason = peer.close_frame()
    assert code == 1011
    assert json.loads(reason)["Err"]["Internal"]["phase"] == {"Pull": "ObjectsRequest"}


def test_what_a_block_names_and_was_lost_is_for_the_client_to_miss(multi):
    chain = ten_rows()
    multi.keep(chain, "anna/lost")
    for kind, name in chain.objects:
        multi.node.stores.objects.delete(ObjectKey(chain.id, kind, name))
    with talking(multi, "/anna/lost/pull") as peer:
        request_pull(peer)
        peer.ask({})
        assert len(peer.ask({"object_files": files_of(chain)})["object_transfer_strategies"]) == 2
