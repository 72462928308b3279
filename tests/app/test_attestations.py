"""Attestations on a node: made when jobs end, added by others, copied, listed, verified."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from refusals import refusing
from service import SCHEMA, Chain, Service, seeded, serving
from tests.workers.derivatives import Working, add_rows, derivative, root

import odf_node
from odf_node.cli.main import main
from odf_node.client.nodes.node_api import NodeApi
from odf_node.client.nodes.notices import Notice
from odf_node.client.nodes.remotes import Location
from odf_node.client.proofs.attestations import FILE
from odf_node.service.query.proofs import SigningKeys
from odf_node.service.trust.attestations import JOBS_AT_ONCE, Attesting
from odf_protocol.commitments import KeyPair, did_key, key_pair
from odf_protocol.errors import NotFound
from odf_protocol.identity import DatasetRef
from odf_protocol.instant import Instant
from odf_protocol.metadata.events import SetDataSchema
from odf_protocol.multihash import Multihash
from odf_protocol.trust.attestations import Attestation, Claim
from odf_storage.datasets.job_payloads.verify_job import VerifiedDataset, VerifyAnswer, to_json
from odf_storage.stores.ports.values import (
    Job,
    JobId,
    JobSpec,
    ObjectKey,
    Scope,
    Succeeded,
    Visibility,
)
from odf_storage.stores.registers.signed.attestations import KeptAttestation

FRIEND = key_pair(b"\x05" * 32)
NEWER = key_pair(b"\x0c" * 32)
"""The key that the friend took in place of the first one."""
AT = Instant.parse("2026-01-01T00:00:00Z")


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    with serving(tmp_path / "node", attested_rest_s=0.0) as one:
        yield one


@pytest.fixture
def chain(service: Service) -> Chain:
    return kept(service, "kamu/foo")


def kept(service: Service, alias: str, **given: Any) -> Chain:
    chain = seeded().add(SetDataSchema(schema=SCHEMA))
    chain.add_rows(3)
    service.keep(chain, alias, **given)
    return chain


def ended(
    service: Service,
    chain: Chain,
    kind: str = "poll",
    payload: dict[str, Any] | None = None,
    **result: Any,
) -> JobId:
    """A job of the dataset that ended with this result, by default that it added the head."""
    queue = service.node.stores.jobs
    account = service.node.stores.accounts.find_account("kamu")
    spec = JobSpec(kind, chain.id, payload or {}, account=None if account is None else account.id)
    queue.submit(spec)
    job = queue.claim("tester", [kind], lease=timedelta(minutes=5))
    assert job is not None
    queue.finish(job.id, "tester", Succeeded(result or {"blocks": [str(chain.head)]}))
    return job.id


def attesting(service: Service) -> Attesting:
    return service.node.part(Attesting)


def attested(service: Service, name: str = "foo", token: str | None = None) -> list[Attestation]:
    with service.http(token) as client:
        answer = client.get(f"/{name}/attestations")
    assert answer.status_code == 200, answer.text
    return [Attestation.parse(line) for line in answer.content.splitlines()]


def by_friend(chain: Chain, key: KeyPair = FRIEND, claim: Claim = Claim.REPLAY) -> Attestation:
    return Attestation.sign(key, claim, chain.id, chain.blocks[-1].raw, AT, {"node": "friend"})


def run(*words: str) -> Result:
    return CliRunner().invoke(main, [*words])


def test_what_a_job_ingested_is_attested_by_the_key_of_the_node(service, chain):
    service.token()
    body = str(Multihash.of(b"body"))
    asked = {"upload": body, "sourceName": "sensor", "signature": "did:key:z6M… AA=="}
    job = ended(service, chain, "ingest", asked)
    attesting(service).look()
    (made,) = attested(service)
    made.require(chain.id, chain.blocks[-1].raw)
    assert made.claim is Claim.INGESTION
    assert made.signer == service.node.signing_keys.active.public
    assert (made.said["body"], made.said["source"]) == (body, "sensor")
    assert made.said["publisher"] == asked["signature"]
    assert made.said["job"] == job
    assert made.said["account"].startswith("salted:")
    attesting(service).look()
    assert attested(service) == [made]


def test_accounts_are_named_only_where_the_owner_wants_it(service, tmp_path, monkeypatch):
    monkeypatch.setenv("ODF_TRUST_NAME_ACCOUNTS", "true")
    with serving(tmp_path / "named") as named:
        named.token()
        chain = kept(named, "kamu/foo")
        ended(named, chain)
        attesting(named).look()
        assert attested(named)[0].said["account"] == "kamu"


def test_an_execution_is_attested_with_its_engine(service, chain):
    result = {"blocks": [str(chain.head)], "engine": "datafusion", "engineVersion": "54"}
    ended(service, chain, "transform", **result)
    attesting(service).look()
    (made,) = attested(service)
    assert made.claim is Claim.EXECUTION
    assert (made.said["engine"], made.said["engineVersion"]) == ("datafusion", "54")


def test_blocks_without_rows_and_jobs_that_added_nothing_are_not_attested(service, chain):
    ended(service, chain, blocks=[str(chain.blocks[1].hash)])
    ended(service, chain, blocks=[])
    ended(service, chain, "mirror", blocks=3)
    attesting(service).look()
    assert attested(service) == []
    assert service.node.stores.attestations.unattested(limit=10) == []


def test_a_node_that_is_told_not_to_attests_nothing(tmp_path, monkeypatch):
    monkeypatch.setenv("ODF_TRUST_ATTEST", "false")
    with serving(tmp_path / "silent") as silent:
        ended(silent, chain := kept(silent, "kamu/foo"))
        attesting(silent).look()
        assert attested(silent) == []
        assert chain.blocks


def test_a_job_of_a_dataset_that_was_deleted_holds_nothing_up(service, chain):
    other = kept(service, "kamu/other")
    ended(service, other)
    service.node.stores.forget_dataset(other.id)
    ended(service, chain)
    attesting(service).look()
    assert [each.block for each in attested(service)] == [chain.head]


def test_many_jobs_are_attested_step_by_step(service, chain):
    for _ in range(JOBS_AT_ONCE + 2):
        ended(service, chain)
    while service.node.stores.attestations.unattested(limit=1):
        attesting(service).look()
    jobs = {each.said["job"] for each in attested(service)}
    assert len(jobs) == JOBS_AT_ONCE + 2


def test_others_add_theirs_if_they_may_write_and_the_signature_is_good(service, chain):
    token, made = service.token(), by_friend(chain)
    with service.http() as client:
        assert client.post("/foo/attestations", content=made.envelope).status_code == 403
    with service.http(token) as client:
        answer = client.post("/foo/attestations", content=made.envelope + b"\n" + made.envelope)
        assert answer.json() == {"added": 1, "known": 1, "unknownBlocks": 0}
        altered = made.envelope.replace(b"payloadType", b"payloadKind")
        answer = client.post("/foo/attestations", content=altered)
        assert (answer.status_code, answer.json()["type"]) == (
            400,
            "urn:odf-node:problem:MalformedAttestation",
        )
        block = client.get(f"/foo/attestations/{chain.head}")
        assert block.content == made.envelope + b"\n"
        assert client.get(f"/foo/attestations/{chain.blocks[0].hash}").content == b""
    assert attested(service) == [made]


def test_what_is_said_of_another_dataset_is_refused_and_of_unknown_blocks_left_out(service, chain):
    other = kept(service, "kamu/other")
    beyond = seeded()
    unknown = Attestation.sign(FRIEND, Claim.REPLAY, chain.id, beyond.blocks[0].raw, AT, {})
    with service.http(service.token()) as client:
        answer = client.post("/foo/attestations", content=by_friend(other).envelope)
        assert answer.json()["type"] == "urn:odf-node:problem:OtherBlock"
        answer = client.post("/foo/attestations", content=unknown.envelope)
        assert answer.json() == {"added": 0, "known": 0, "unknownBlocks": 1}


def test_attestations_of_a_block_have_a_limit(tmp_path, monkeypatch):
    monkeypatch.setenv("ODF_TRUST_BLOCK_ATTESTATIONS", "2")
    with serving(tmp_path / "small") as small:
        chain = kept(small, "kamu/foo")
        keys = [key_pair(bytes([number]) * 32) for number in range(6, 9)]
        lines = b"\n".join(by_friend(chain, key).envelope for key in keys)
        with small.http(small.token()) as client:
            answer = client.post("/foo/attestations", content=lines)
            assert answer.json()["type"] == "urn:odf-node:problem:TooManyAttestations"
            assert attested(small) == []
            assert client.post("/foo/attestations", content=b"\n" * 9).status_code == 400
            assert client.post("/foo/attestations", content=b"x" * 2**21).status_code == 413


def test_only_readers_of_a_private_dataset_see_what_is_said_of_it(service):
    kept(service, "kamu/own", visibility=Visibility.PRIVATE)
    with service.http() as client:
        assert client.get("/own/attestations").status_code in (401, 404)
    assert attested(service, "own", service.token()) == []


def verification(chain: Chain, **more: Any) -> dict[str, Any]:
    found = {
        "id": str(chain.id),
        "alias": "foo",
        "ok": True,
        "replayed": 2,
        "not_verifiable": 0,
        "engines": ("datafusion 54",),
        "report": {"head": str(chain.head)},
    }
    one = VerifiedDataset(**(found | more))
    return to_json(VerifyAnswer(ok=one.ok, head=str(chain.head), datasets=(one,)))


def test_a_replay_is_attested_if_every_execution_gave_the_same(service, chain):
    job = ended(service, chain, "verify", **verification(chain))
    with service.http(service.token()) as client:
        answer = client.post(f"/foo/attestations/replay?job={job}")
        assert answer.status_code == 201, answer.text
    (made,) = attested(service)
    assert made.envelope == answer.content
    assert (made.claim, made.said["executions"]) == (Claim.REPLAY, "2")
    assert made.said["engines"] == ["datafusion 54"]


@pytest.mark.parametrize(
    ("payload", "more"),
    [
        ({}, {"ok": False}),
        ({}, {"not_verifiable": 1}),
        ({}, {"replayed": 0}),
        ({"replay": False}, {}),
        ({"rows": False}, {}),
        ({"after": "f1620"}, {}),
    ],
)
def test_what_is_no_complete_replay_is_not_attested(service, chain, payload, more):
    job = ended(service, chain, "verify", payload, **verification(chain, **more))
    with service.http(service.token()) as client:
        answer = client.post(f"/foo/attestations/replay?job={job}")
        assert answer.json()["type"] == "urn:odf-node:problem:NotReplayed"
        assert (
            client.post(f"/foo/attestations/replay?job={ended(service, chain)}").status_code == 409
        )
    with service.http(service.token("kamu", Scope.READ)) as client:
        assert client.post(f"/foo/attestations/replay?job={job}").status_code == 403
    assert Claim.REPLAY not in {each.claim for each in attested(service)}


def test_a_pull_takes_attestations_and_a_push_gives_them(service, chain, tmp_path):
    token, folder = service.token(), tmp_path / "copy"
    ended(service, chain)
    attesting(service).look()
    assert run("pull", f"odf+{service.url}/foo", str(folder)).exit_code == 0
    (line,) = (folder / FILE).read_bytes().splitlines()
    assert Attestation.parse(line).claim is Claim.INGESTION
    (tmp_path / "theirs").write_bytes(by_friend(chain).envelope + b"\n")
    assert run("attestations", "add", str(folder), str(tmp_path / "theirs")).output == "1 added\n"
    with serving(tmp_path / "second") as second:
        second.token()
        result = run("push", str(folder), f"odf+{second.url}/foo", "--token", second.token())
        assert result.exit_code == 0, result.output
        assert len(attested(second, token=second.token())) == 2
    result = run("push", str(folder), f"odf+{service.url}/foo", "--token", token)
    assert result.exit_code == 0, result.output
    assert len(attested(service)) == 2
    result = run("pull", str(folder))
    assert result.exit_code == 0, result.output
    assert len((folder / FILE).read_bytes().splitlines()) == 2


def test_a_last_line_that_a_crash_cut_loses_itself_only(service, chain, tmp_path):
    ended(service, chain)
    attesting(service).look()
    folder = tmp_path / "copy"
    odf_node.pull(f"{service.url}/foo", folder)
    with (folder / FILE).open("ab") as stream:
        stream.write(b'{"payload": "cut')
    (tmp_path / "theirs").write_bytes(by_friend(chain).envelope)
    assert run("attestations", "add", str(folder), str(tmp_path / "theirs")).output == "1 added\n"
    shown = json.loads(run("attestations", "list", str(folder), "--json").output)
    assert [each["claim"] for each in shown["attestations"]] == ["ingestion", "replay"]


@pytest.mark.parametrize("is_folder", [True, False])
def test_verify_asks_for_a_kind_and_a_key_and_compares_with_the_chain(
    service, chain, tmp_path, is_folder
):
    with service.http(service.token()) as client:
        client.post("/foo/attestations", content=by_friend(chain).envelope).raise_for_status()
    where = f"{service.url}/foo"
    if is_folder:
        odf_node.pull(where, tmp_path / "copy")
        where = str(tmp_path / "copy")
    asked = ("attestations", "verify", where, "--claim", "replay", "--by", did_key(FRIEND.public))
    result = run(*asked)
    assert result.exit_code == 0, result.output
    assert "1 good, 0 not" in result.output
    assert run(*asked, "--block", str(chain.blocks[0].hash)).exit_code == 3
    assert run(*asked[:-1], did_key(key_pair(b"\6" * 32).public)).exit_code == 3
    assert json.loads(run(*asked, "--json").output)["good"][0]["said"]["node"] == "friend"


def test_verify_finds_what_is_about_other_bytes_than_those_of_the_block(service, chain, tmp_path):
    folder = tmp_path / "copy"
    odf_node.pull(f"{service.url}/foo", folder)
    (tmp_path / "lie").write_bytes(about_other_bytes(chain))
    assert run("attestations", "add", str(folder), str(tmp_path / "lie")).exit_code == 0
    result = run("attestations", "verify", str(folder))
    assert result.exit_code == 6
    assert "other bytes" in result.output


def about_other_bytes(chain: Chain) -> bytes:
    """A replay by the friend of a block with the name of the head and other bytes."""
    from tests.protocol.test_attestations import signed

    true = by_friend(chain)
    digest = {"sha3_256": true.block.digest.hex(), "sha256": "0" * 64}
    statement = {
        "_type": "https://in-toto.io/Statement/v1",
        "subject": [{"name": str(true.block), "digest": digest}],
        "predicateType": Claim.REPLAY.value,
        "predicate": dict(true.said),
    }
    return signed(statement, FRIEND)


def test_page_and_list_say_how_many_others_replayed_and_count_each_once(service, chain):
    ended(service, chain)
    attesting(service).look()
    maker = service.node.signing_keys.active
    with service.http(service.token()) as client:
        page = client.get("/foo", headers={"accept": "text/html"}).text
        assert "Attested" in page
        assert "Replayed" not in page
        again = [
            Attestation.sign(key, Claim.REPLAY, chain.id, block.raw, AT, {"time": str(time)})
            for key, time in ((maker, 0), (FRIEND, 0), (FRIEND, 1))
            for block in chain.blocks[-2:]
        ]
        newer = {"retired": [did_key(FRIEND.public), "no key"]}  # the friend's key has changed
        block = chain.blocks[-1].raw
        again.append(Attestation.sign(NEWER, Claim.REPLAY, chain.id, block, AT, newer))
        lines = b"\n".join(each.envelope for each in again)
        client.post("/foo/attestations", content=lines).raise_for_status()
        service.extend(chain, 1)
        page = client.get("/foo", headers={"accept": "text/html"}).text
    assert "Replayed with the same result by 1 other key, up to block #2 of #3." in page
    assert did_key(FRIEND.public) in page
    where = f"{service.url}/foo"
    told = run("attestations", "list", where, "--claim", "replay").output
    assert told.splitlines()[-1] == "replayed with the same result by 1 other key"
    shown = json.loads(run("attestations", "list", where, "--json").output)
    assert shown["replayedBy"] == [did_key(FRIEND.public)]


FOLLOWS = {"mirror_networks": ["127.0.0.0/8"], "poll_s": 0.05}


def mirrored(follower: Service, source: Service) -> Any:
    """A mirror of the dataset at the source, or what its next pull says."""
    content = {"name": "foo", "remote": f"{source.url}/foo/"}
    manifest = {"kind": "DatasetMirror", "version": 1, "content": content}
    with follower.http(follower.token()) as client:
        made = client.post("/datasets?visibility=public", json=manifest)
        assert made.status_code in (201, 409), made.text
        return client.post("/foo/refresh").raise_for_status().json()


def test_a_mirror_takes_attestations_over_and_checks_each(service, chain, tmp_path, monkeypatch):
    ended(service, chain)
    attesting(service).look()
    about_others = by_friend(seeded().add(SetDataSchema(schema=SCHEMA)).add_rows(1))
    shown, tell = [by_friend(chain)], service.node.stores.attestations.page

    def page(*given: Any, after: int, **more: Any) -> Any:
        """What the source has, lies, and a line of a later version."""
        found = list(tell(*given, after=after, **more))
        if not found:
            return found
        lies = [about_others.envelope, about_other_bytes(chain), b'{"payload": "of later"}']
        lies.append(shown[0].envelope)
        return [*found, *(KeptAttestation(found[-1].number, line) for line in lies)]

    monkeypatch.setattr(service.node.stores.attestations, "page", page)
    with serving(tmp_path / "follower", **FOLLOWS) as follower:
        mirrored(follower, service)
        assert {each.claim for each in attested(follower)} == {Claim.INGESTION, Claim.REPLAY}
        service.extend(chain, 1)
        shown[0] = by_friend(chain)
        ended(service, chain)
        attesting(service).look()
        assert mirrored(follower, service)["outcome"] == "updated"
        assert len(attested(follower)) == 4
        assert mirrored(follower, service)["outcome"] == "up-to-date"
        assert len(attested(follower)) == 4


def test_attestations_of_blocks_that_come_later_are_taken_over_then(service, chain, tmp_path):
    ended(service, chain)
    attesting(service).look()
    with serving(tmp_path / "follower", **FOLLOWS) as follower:
        follower.keep(chain, "kamu/foo")
        service.extend(chain, 1)
        ended(service, chain)
        attesting(service).look()
        (entry,) = follower.node.stores.registry.page()
        remote = Location.parse(f"{service.url}/foo")
        attesting(follower).take_over(entry, remote, None)
        assert len(attested(follower)) == 1
        dataset = follower.node.stores.dataset(DatasetRef(id=chain.id))
        for (kind, name), content in chain.objects.items():
            follower.node.stores.objects.put(ObjectKey(chain.id, kind, name), [content])
        dataset.commit(chain.blocks[-1:], expected=dataset.head())
        attesting(follower).take_over(entry, remote, None)
        assert len(attested(follower)) == 2


def test_a_mirror_of_a_file_server_has_no_attestations_and_fills_all_the_same(
    service, chain, tmp_path, monkeypatch
):
    monkeypatch.setattr(NodeApi, "attestations", refused)
    with serving(tmp_path / "follower", **FOLLOWS) as follower:
        mirrored(follower, service)
        assert mirrored(follower, service)["outcome"] == "up-to-date"
        assert attested(follower) == []


def refused(*_: Any) -> None:
    raise NotFound("NoSuchAddress", "as a server says that breaks off")


def test_a_pull_leaves_out_what_a_later_version_attests(service, chain, tmp_path, monkeypatch):
    line = b'{"payload": "of a later version"}'
    answers = iter([([line, by_friend(chain).envelope], 7), ([], 7)])
    monkeypatch.setattr(NodeApi, "attestations", lambda *_: next(answers))
    with pytest.warns(Notice, match="1 of them: this is no attestation"):
        odf_node.pull(f"{service.url}/foo", tmp_path / "copy")
    assert (tmp_path / "copy" / FILE).read_bytes().count(b"\n") == 1


def test_a_worker_makes_executions_again_and_the_node_signs_it(service, tmp_path):
    (tmp_path / "scratch").mkdir()
    stores, where = service.node.stores, f"{service.url}/tens"
    token = ("--token", service.token())
    cities = root(stores, "cities")
    derivative(stores, "tens", [cities], "select event_time, city, n * 10 as n from cities")
    ask = ("verify", where, "--replay", "--attest", *token)
    with Working(service, tmp_path / "scratch"), service.http(token[1]) as client:
        client.post("/tens/refresh").raise_for_status()
        result = run(*ask)
        assert (result.exit_code, "no execution yet" in result.output) == (5, True), result.output
        add_rows(stores, cities, [("2024-01-01T00:00:01Z", "A", 1)], tmp_path, at=1)
        client.post("/tens/refresh").raise_for_status()
        result = run(*ask)
        assert result.exit_code == 0, result.output
        assert "1 execution(s) made again with the same result" in result.output
        assert "attested" in result.output
        assert run(*ask, "--json").exit_code == 0
    attesting(service).look()
    found = attested(service, "tens", token[1])
    (computed,) = [each for each in found if each.claim is Claim.EXECUTION]
    replays = [each for each in found if each.claim is Claim.REPLAY]
    engine = f"datafusion {computed.said['engineVersion']}"
    assert [each.said["engines"] for each in replays] == [[engine], [engine]]
    good = run("attestations", "verify", where, "--claim", "replay", *token)
    assert (good.exit_code, "2 good, 0 not" in good.output) == (0, True)
    shown = json.loads(run("attestations", "list", where, "--json", *token).output)
    assert shown["replayedBy"] == [], "the node that computed it is no other one"
    changed = SigningKeys(b"\x0e" * 32, (did_key(service.node.signing_keys.active.public),))
    by_newer = replace(attesting(service), keys=changed)
    entry = stores.registry.get(DatasetRef.parse("kamu/tens"))
    job = stores.jobs.page(kinds=("verify",), limit=1, newest_first=True)[0]
    by_newer.replayed(entry, job)
    shown = json.loads(run("attestations", "list", where, "--json", *token).output)
    assert shown["replayedBy"] == [], "nor is it one when its key has changed"


def test_a_job_ends_and_leaves_its_note_in_one_transaction(service, chain):
    store = service.node.stores.attestations
    job = ended(service, chain)
    assert job in store.unattested(limit=10) or attested(service)
    found: Job = service.node.stores.jobs.get(job)
    assert found.outcome is not None


def test_an_attestation_of_a_stranger_does_not_reach_a_folder(chain, service, tmp_path):
    folder = tmp_path / "copy"
    odf_node.pull(f"{service.url}/foo", folder)
    (tmp_path / "theirs").write_bytes(by_friend(kept(service, "kamu/other")).envelope)
    result = run("attestations", "add", str(folder), str(tmp_path / "theirs"))
    assert (result.exit_code, "OtherBlock" in result.output or "dataset" in result.output) == (
        2,
        True,
    )
    with refusing("OtherBlock"):
        by_friend(chain).require(seeded().id, chain.blocks[-1].raw)
