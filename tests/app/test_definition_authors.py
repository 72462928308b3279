"""A definition reads what its author may read: editors get nothing of the owner through it."""

from __future__ import annotations

import json
import os
from contextlib import suppress

import pytest
from raw_peer import bundled, files_of, head_of, named, push, talking
from refusals import refusing
from service import NOON, SCHEMA, Chain, create_token, ensure_account, serving, ten_rows
from websockets.exceptions import ConnectionClosed

from odf_node.service.definitions.variables import VariableBody, set_variable
from odf_node.service.derivatives.follow import submit_transform
from odf_protocol.commitments import key_pair
from odf_protocol.identity import DatasetAlias, DatasetRef
from odf_protocol.metadata.events import (
    DatasetKind,
    Seed,
    SetDataSchema,
    SetInfo,
    SetPollingSource,
    SetTransform,
    SqlQueryStep,
    TransformInput,
    TransformSql,
)
from odf_protocol.metadata.sources import (
    FetchStepUrl,
    MergeStrategyAppend,
    ReadStepNdJson,
    RequestHeader,
)
from odf_storage.datasets.node.rights import has_account_secrets, hidden_inputs
from odf_storage.stores.ports.following import NOBODY, Author, definition_hash
from odf_storage.stores.ports.values import DatasetEntry, Reach, Role, Visibility


@pytest.fixture(scope="module")
def node(tmp_path_factory):
    """Accounts alice and bob; bob has an admin friend, and a node that computes nothing itself."""
    folder = tmp_path_factory.mktemp("authors")
    settings = {"tenancy": "multi", "follow_inputs": False, "ingest_wait_s": 0, "query_check_s": 0}
    with serving(folder, **settings) as service:
        for name in ("alice", "bob", "carol", "root"):
            ensure_account(service.node.stores.accounts, name, os.urandom, is_admin=name == "root")
        yield service


@pytest.fixture(scope="module")
def secret(node):
    return node.keep(ten_rows(), "alice/secret", Visibility.PRIVATE)


@pytest.fixture(scope="module")
def shown(node):
    return node.keep(ten_rows(), "alice/shown")


def empty(kind=DatasetKind.Derivative):
    dataset = key_pair(os.urandom(32)).dataset_id
    return Chain(dataset).add(Seed(dataset_id=dataset, dataset_kind=kind))


def reading(*inputs):
    """A transform of datasets."""
    named = tuple(
        TransformInput(dataset_ref=DatasetRef(id=one.id), alias=f"in{at}")
        for at, one in enumerate(inputs)
    )
    sql = TransformSql(engine="datafusion", queries=(SqlQueryStep(query="select * from in0"),))
    return SetTransform(inputs=named, transform=sql)


def polling(*headers, url="https://example.org/rows"):
    given = tuple(RequestHeader(name="X-Key", value=value) for value in headers)
    return SetPollingSource(
        fetch=FetchStepUrl(url=url, headers=given),
        read=ReadStepNdJson(),
        merge=MergeStrategyAppend(),
    )


def kept(node, chain, name, kind=DatasetKind.Derivative, visibility=Visibility.PUBLIC):
    """A dataset as older versions left it: nobody's name is noted."""
    entry = DatasetEntry(chain.id, DatasetAlias.parse(name), kind, visibility, NOON)
    node.node.stores.create_dataset(entry, chain.blocks)
    return entry


def give(node, entry, account, role=Role.EDITOR):
    accounts = node.node.stores.accounts
    found = accounts.find_account(account)
    if role is None:
        node.node.stores.roles.remove(entry.id, found.id)
    else:
        node.node.stores.roles.put(entry.id, found.id, role)
    node.node.roles.forget(found.id)


def bound(node, account, entry, reach=Reach.DATASET):
    accounts = node.node.stores.accounts
    owner = accounts.find_account(account)
    one = entry.id if reach is Reach.DATASET else None
    made = create_token(accounts, owner, os.urandom, NOON, reach=reach, dataset=one)
    return str(made)


def refused(node, path, chain, token, *, start, force=False):
    """What the Close frame says of a push that is not taken."""
    blocks = chain.blocks[start:]
    head = None if start == 0 and not force else head_of(node, path, node.token("alice"))
    with talking(node, path + "/push", token) as peer:
        assert peer.request_push(head, len(blocks), force=force) == {"Ok": {}}
        assert peer.ask(bundled(named(blocks))) == {"Ok": {}}
        with suppress(ConnectionClosed):  # the node need not wait for it
            peer.say({"object_files": files_of(chain), "is_truncated": False})
        code, reason = peer.close_frame()
    assert code == 1011
    message = json.loads(reason)["Err"]["Internal"]
    return str(message.get("error_message", message.get("errorMessage")))


def hidden(node, entry):
    stores = node.node.stores
    return hidden_inputs(stores, entry, stores.dataset(DatasetRef(id=entry.id)).state())


NOT_SHOWN = "it reads datasets not shown to you"


def test_an_editor_reads_nothing_of_the_owner_through_a_pushed_transform(node, secret, shown):
    chain = empty()
    entry = kept(node, chain, "alice/edited")
    give(node, entry, "bob")
    head = head_of(node, "/alice/edited")
    chain.add(reading(secret))
    assert refused(node, "/alice/edited", chain, node.token("bob"), start=1) == NOT_SHOWN
    assert head_of(node, "/alice/edited") == head
    harmless = Chain(chain.id, chain.blocks[:1], {}, empty().state)
    harmless.state = harmless.state.after(chain.blocks[0])
    harmless.add(reading(shown))
    push(node, "/alice/edited", harmless, node.token("bob"), start=1, head=head)
    assert hidden(node, entry) == []


def test_nor_by_force_nor_as_a_maintainer_nor_by_a_manifest(node, secret, shown):
    chain = empty().add(reading(shown))
    entry = kept(node, chain, "alice/forced")
    give(node, entry, "bob", Role.MAINTAINER)
    other = Chain(chain.id).add(Seed(dataset_id=chain.id, dataset_kind=DatasetKind.Derivative))
    other.add(reading(secret))
    bob = node.token("bob")
    assert refused(node, "/alice/forced", other, bob, start=0, force=True) == NOT_SHOWN
    manifest = (
        "kind: MetadataEvent\nversion: 1\ncontent: {kind: SetTransform, inputs: "
        f"[{{datasetRef: '{secret.id}', alias: a}}], "
        "transform: {kind: Sql, engine: datafusion, query: select * from a}}\n"
    )
    with node.http(bob) as http:
        answer = http.post("/alice/forced/metadata", content=manifest)
    assert (answer.status_code, answer.json()["missing"]) == (400, [str(secret.id)])


def test_a_token_for_one_dataset_reads_no_other(node, secret):
    chain = empty()
    entry = kept(node, chain, "alice/bound")
    chain.add(reading(secret))
    token = bound(node, "alice", entry)
    assert refused(node, "/alice/bound", chain, token, start=1) == NOT_SHOWN
    account = bound(node, "alice", entry, Reach.ACCOUNT)
    push(node, "/alice/bound", chain, account, start=1, head=head_of(node, "/alice/bound"))
    assert hidden(node, entry) == []


def test_what_is_absent_is_refused_like_what_is_hidden(node):
    chain, nowhere = empty(), ten_rows()
    entry = kept(node, chain, "alice/absent")
    give(node, entry, "bob")
    chain.add(reading(nowhere))
    assert refused(node, "/alice/absent", chain, node.token("bob"), start=1) == NOT_SHOWN
    push(node, "/alice/absent", chain, node.token("alice"), start=1, head=str(chain.blocks[0].hash))
    assert hidden(node, entry) == [str(nowhere.id)]


def test_rights_that_are_taken_away_are_gone_when_it_runs(node, secret, shown):
    """And the owner's word makes good what an editor may not say."""
    chain = empty()
    entry = kept(node, chain, "alice/lent")
    give(node, entry, "bob")
    give(node, secret, "bob", Role.READER)
    chain.add(reading(secret))
    push(node, "/alice/lent", chain, node.token("bob"), start=1, head=str(chain.blocks[0].hash))
    assert hidden(node, entry) == []
    give(node, secret, "bob", None)
    assert hidden(node, entry) == [str(secret.id)]
    with refusing("InputsNotHere"):
        submit_transform(node.node.refreshing.computing, entry)
    chain.add(reading(shown), reading(secret))
    push(node, "/alice/lent", chain, node.token("alice"), start=2, head=str(chain.blocks[1].hash))
    assert hidden(node, entry) == []


def test_chains_from_before_authors_were_noted_are_their_owners(node, secret):
    chain = empty().add(reading(secret))
    entry = kept(node, chain, "alice/before")
    assert hidden(node, entry) == []
    give(node, entry, "bob")
    chain.add(SetInfo(description="edited"), SetDataSchema(schema=SCHEMA))
    push(node, "/alice/before", chain, node.token("bob"), start=2, head=str(chain.blocks[1].hash))
    assert hidden(node, entry) == []
    assert not node.node.stores.definitions.of_dataset(entry.id)


def test_a_definition_nobody_is_known_for_reads_what_everybody_may(node, secret, shown):
    chain = empty().add(reading(secret))
    entry = kept(node, chain, "alice/unknown")
    known = node.node.stores.definitions
    known.put(entry.id, definition_hash(reading(shown)), Author(None))
    assert hidden(node, entry) == [str(secret.id)]
    public = kept(node, empty().add(reading(shown)), "alice/public-reader")
    known.put(public.id, definition_hash(reading(shown)), NOBODY)
    assert hidden(node, public) == []


def test_an_owner_who_goes_back_to_it_takes_a_definition_over_and_an_editor_may_not(
    node, secret, shown
):
    chain = empty().add(reading(secret), reading(shown))
    entry = kept(node, chain, "alice/back")
    give(node, entry, "bob", Role.MAINTAINER)
    path = f"/alice/back/reset?block={chain.blocks[1].hash}"
    with node.http(node.token("bob")) as http:
        answer = http.post(path)
        assert (answer.status_code, answer.json()["inputs"]) == (403, [str(secret.id)])
    with node.http(node.token("alice")) as http:
        assert http.post(path).status_code == 200
    assert hidden(node, entry) == []
    assert node.node.stores.definitions.of_dataset(entry.id)


def test_one_who_created_a_derivative_is_its_author_and_reads_as_themselves(node, secret):
    chain = empty().add(reading(secret))
    push(node, "/carol/stolen", chain, node.token("carol"), visibility="Public")
    entry = node.node.stores.registry.get(DatasetRef(id=chain.id))
    assert hidden(node, entry) == [str(secret.id)]
    with refusing("InputsNotHere"):
        submit_transform(node.node.refreshing.computing, entry)
    give(node, secret, "carol", Role.READER)
    assert hidden(node, entry) == []
    give(node, secret, "carol", None)


# --- secrets of the account -----------------------------------------------------------------


@pytest.fixture(scope="module")
def account_secret(node):
    alice = node.node.stores.accounts.find_account("alice")
    body = VariableBody(value="canary-secret-77", secret=True)
    set_variable(node.node.variables, alice.id, "API_TOKEN", body)
    return "${{ env.API_TOKEN }}"


def source_manifest(template):
    return (
        "kind: MetadataEvent\nversion: 1\ncontent:\n  kind: SetPollingSource\n"
        f'  fetch: {{kind: Url, url: "https://his-host.example/?x={template}"}}\n'
        "  read: {kind: NdJson, schema: [n INT]}\n  merge: {kind: Append}\n"
    )


def may_use(node, entry):
    state = node.node.stores.dataset(DatasetRef(id=entry.id)).state()
    return has_account_secrets(node.node.stores, entry, state.polling_source)


def test_secrets_of_the_account_are_for_sources_of_the_account(node, account_secret):
    chain = empty(DatasetKind.Root)
    entry = kept(node, chain, "alice/polled", DatasetKind.Root)
    give(node, entry, "bob", Role.MAINTAINER)
    for token in (node.token("bob"), bound(node, "alice", entry)):
        with node.http(token) as http:
            answer = http.post("/alice/polled/metadata", content=source_manifest(account_secret))
        assert (answer.status_code, answer.json()["variables"]) == (403, ["API_TOKEN"])
        chain.add(polling(f"Bearer {account_secret}"))
        said = refused(node, "/alice/polled", chain, token, start=1)
        assert said == "it uses secrets of the account"
        chain = Chain(chain.id, chain.blocks[:1], {}, empty().state.after(chain.blocks[0]))
    with node.http(node.token("alice")) as http:
        answer = http.post("/alice/polled/metadata", content=source_manifest(account_secret))
    assert answer.status_code == 200
    assert may_use(node, entry)


def test_another_ones_source_gets_the_secrets_of_its_dataset_alone(node, account_secret):
    chain = empty(DatasetKind.Root)
    entry = kept(node, chain, "alice/shared", DatasetKind.Root)
    give(node, entry, "bob")
    body = VariableBody(value="its own", secret=True)
    set_variable(node.node.variables, str(entry.id), "API_TOKEN", body)
    with node.http(node.token("bob")) as http:
        answer = http.post("/alice/shared/metadata", content=source_manifest(account_secret))
    assert answer.status_code == 200, answer.text
    assert not may_use(node, entry)


def test_sources_from_before_go_on_with_the_secrets_of_the_account(node, account_secret):
    chain = empty(DatasetKind.Root).add(polling(account_secret))
    assert may_use(node, kept(node, chain, "alice/older", DatasetKind.Root))


def test_a_public_derivative_tells_of_a_private_input_no_more_than_its_blocks_do(node, secret):
    """Its id is in a public block; whether it is here, its name and its moves are not."""
    made = kept(node, empty().add(reading(secret)), "alice/telling")
    lost = kept(node, empty().add(reading(ten_rows())), "alice/losing")
    for token in (None, node.token("bob")):
        with node.http(token) as http:
            told = []
            for entry in (made, lost):
                path = f"/{entry.alias}"
                info = http.get(path).json()["derivation"]
                graph = http.get(f"{path}/lineage").json()
                near = http.get(f"{path}/dependencies").json()
                ids = [item["id"] for item in near["inputs"]]
                assert info["missingInputs"] == ids
                assert info["behindBlocks"] == 0
                assert near["upstream"] == []
                assert "secret" not in json.dumps([info, graph, near])
                told.append([item for item in graph["datasets"] if item["id"] in ids])
            assert [{**one[0], "id": ""} for one in told][:1] * 2 == [
                {**one[0], "id": ""} for one in told
            ]
    with node.http(node.token("alice")) as http:
        assert http.get("/alice/telling").json()["derivation"]["missingInputs"] == []
