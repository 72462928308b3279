"""Keys of datasets: kept sealed, exported, imported where a dataset moved to; what they sign."""

from __future__ import annotations

import hmac
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from refusals import refusing
from service import Service, serving
from tests.app.test_attestations import attested, attesting

from odf_node.cli.main import main
from odf_node.service.definitions.variables import reseal
from odf_node.service.query.proofs import SigningKeys
from odf_node.service.webhooks.webhooks import opened
from odf_protocol.commitments import did_key, key_pair, private_pem, signing_key
from odf_protocol.identity import DatasetId, DatasetRef
from odf_protocol.trust.attestations import Attestation, Claim
from odf_storage.stores.ports.following import MIRROR_TOKEN, Mirror
from odf_storage.stores.ports.webhooks import WEBHOOK_SECRET, Webhook, secret_owner
from odf_storage.stores.registers.accounts.sealing import SecretKeys
from odf_storage.stores.registers.signed.dataset_keys import opened_key, sealed_key
from odf_storage.stores.registers.signed.node_key import NODE_KEY, node_seed

OTHER = key_pair(b"\x07" * 32)


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    with serving(tmp_path / "node") as one:
        yield one


@pytest.fixture
def dataset(service: Service) -> DatasetId:
    return made(service)


def made(service: Service, name: str = "foo") -> DatasetId:
    content = {"name": name, "kind": "Root", "metadata": []}
    manifest = {"kind": "DatasetSnapshot", "version": 1, "content": content}
    with service.http(service.token()) as client:
        answer = client.post("/datasets?visibility=public", json=manifest)
    assert answer.status_code == 201, answer.text
    return DatasetId.parse(answer.json()["id"])


def run(service: Service, *words: object) -> Result:
    given = ("--data", service.node.settings.data)
    return CliRunner().invoke(main, ["keys", *map(str, (*words, *given))])


def endorsements(service: Service) -> list[Attestation]:
    attesting(service).look()
    return [each for each in attested(service) if each.claim is Claim.ENDORSEMENT]


def test_the_key_of_a_new_dataset_is_kept_and_only_the_keys_of_secrets_open_it(service, dataset):
    sealed = service.node.stores.dataset_keys.find(dataset)
    key = opened_key(service.node.secret_keys, dataset, sealed)
    assert key.dataset_id == dataset
    assert key.seed not in sealed
    assert key.seed.hex().encode() not in sealed
    with refusing("SecretUnreadable"):
        opened_key(SecretKeys({"other": bytes(32)}), dataset, sealed)
    with refusing("SecretUnreadable"):
        opened_key(service.node.secret_keys, made(service, "bar"), sealed)


def test_it_says_once_which_node_publishes_the_dataset_and_again_after_the_node_has_another_key(
    service, dataset
):
    (said,) = endorsements(service)
    assert said.is_by_dataset
    assert said.said["nodeKey"] == did_key(service.node.signing_keys.active.public)
    assert endorsements(service) == [said]
    vars(attesting(service))["keys"] = SigningKeys(OTHER.seed)
    assert [each.said["nodeKey"] for each in endorsements(service)] == [
        said.said["nodeKey"],
        did_key(OTHER.public),
    ]
    head = service.node.stores.dataset(DatasetRef(id=dataset)).head()
    assert {each.block for each in endorsements(service)} == {head}


def test_a_dataset_that_moved_to_another_node_keeps_its_key(service, dataset, tmp_path):
    file, copy = tmp_path / "foo.pem", tmp_path / "copy"
    assert json.loads(run(service, "list", "--json").output)["keys"][0]["id"] == str(dataset)
    assert run(service, "export", "foo", file).exit_code == 0
    assert file.stat().st_mode & 0o777 == 0o600
    assert signing_key(file.read_bytes()).dataset_id == dataset
    result = run(service, "export", "foo", file)
    assert (result.exit_code, "exists" in result.output) == (1, True)
    with serving(tmp_path / "second") as second:
        assert CliRunner().invoke(main, ["pull", f"{service.url}/foo", str(copy)]).exit_code == 0
        words = ["push", str(copy), f"odf+{second.url}/foo", "--visibility", "public"]
        pushed = CliRunner().invoke(main, [*words, "--token", second.token()])
        assert pushed.exit_code == 0, pushed.output
        assert endorsements(second) == []
        assert run(second, "export", "foo", tmp_path / "none").exit_code == 3
        assert not (tmp_path / "none").exists()
        (tmp_path / "other.pem").write_text(private_pem(OTHER))
        refused = run(second, "import", "foo", tmp_path / "other.pem")
        assert (refused.exit_code, "not of did:odf" in refused.output) == (2, True)
        assert run(second, "import", "foo", file).exit_code == 0
        (said,) = endorsements(second)
        assert said.said["nodeKey"] == did_key(second.node.signing_keys.active.public)
    assert run(service, "forget", "foo").exit_code == 0
    assert run(service, "forget", "foo").exit_code == 3
    assert run(service, "list").output == ""


def test_who_creates_a_deleted_dataset_again_does_not_get_its_key(service, dataset, tmp_path):
    copy = tmp_path / "copy"
    assert CliRunner().invoke(main, ["pull", f"{service.url}/foo", str(copy)]).exit_code == 0
    service.node.stores.forget_dataset(dataset)
    words = ["push", str(copy), f"odf+{service.url}/foo", "--token", service.token()]
    assert CliRunner().invoke(main, words).exit_code == 0
    assert service.node.stores.dataset_keys.find(dataset) is None


def test_all_that_is_sealed_is_sealed_again_with_a_newer_key_and_stays_what_it_is(service, dataset):
    """Keys of the node and of datasets, tokens of mirrors, secrets of webhooks and variables: the
    old key of secrets is needed for none of them any more."""
    old, stores = service.node.secret_keys, service.node.stores
    own = service.node.signing_keys.seed
    mirror = Mirror(dataset=dataset, remote="odf+https://example.org/foo/")
    token = old.kept(mirror.token_owner, MIRROR_TOKEN, "of the remote")
    stores.mirrors.put(replace(mirror, sealed_token=token))
    webhook = Webhook(
        id="wh_1",
        dataset=dataset,
        account=stores.accounts.find_account("kamu").id,
        url="https://example.org/hook",
        sealed_secret=old.kept(secret_owner("wh_1", dataset), WEBHOOK_SECRET, "whsec_1"),
        created_at=service.node.clock(),
    )
    assert stores.webhooks.add(webhook, most=1)
    stores.variables.put("one", old.sealed("one", "NAME", "value", at=service.node.clock()))
    both = SecretKeys({"newer": b"\x01" * 32, **old.keys})
    assert reseal(stores, both) == 5
    assert reseal(stores, both) == 0
    only = SecretKeys({"newer": b"\x01" * 32})
    assert node_seed(stores.accounts, only, lies_open=False) == own
    assert opened_key(only, dataset, stores.dataset_keys.find(dataset)).dataset_id == dataset
    found = stores.mirrors.find(dataset)
    assert only.text_of(found.token_owner, MIRROR_TOKEN, found.sealed_token) == "of the remote"
    assert opened(only, stores.webhooks.find("wh_1"), service.node.clock()) == ["whsec_1"]
    assert only.opened("one", stores.variables.of_owner("one")["NAME"]) == "value"


def test_a_node_key_of_an_earlier_version_is_the_same_key_and_can_be_sealed(service):
    """Its seed was a digest of the key of secrets and of 32 bytes that the database kept."""
    stores, keys = service.node.stores, service.node.secret_keys
    assert service.node.signing_keys.seed  # the database has one
    now, value = stores.accounts.secret(NODE_KEY, b""), b":" * 32
    assert stores.accounts.replace_secret(NODE_KEY, now, f"{keys.newest}:".encode() + value)
    seed = node_seed(stores.accounts, keys, lies_open=False)
    assert seed == hmac.digest(keys.keys[keys.newest], b"node-key" + value, "sha256")
    assert reseal(stores, SecretKeys({"newer": b"\x01" * 32, **keys.keys})) == 1
    newer = SecretKeys({"newer": b"\x01" * 32})
    assert node_seed(stores.accounts, newer, lies_open=False) == seed


def test_a_node_key_that_was_sealed_with_a_key_that_is_gone_is_named(service):
    assert service.node.signing_keys.seed
    with refusing("SecretUnreadable"):
        node_seed(service.node.stores.accounts, SecretKeys({"other": bytes(32)}), lies_open=False)


def test_what_changed_while_secrets_are_sealed_again_is_left_as_it_is_now(service, dataset):
    stores = service.node.stores
    mirror = Mirror(dataset=dataset, remote="odf+https://example.org/foo/", sealed_token=b"a:old")
    stores.mirrors.put(replace(mirror, sealed_token=b"a:new"))
    assert not stores.mirrors.reseal(mirror, b"b:old")
    assert stores.mirrors.find(dataset).sealed_token == b"a:new"
    own = stores.accounts.secret(NODE_KEY, b"")
    assert not stores.accounts.replace_secret(NODE_KEY, b"another", b"new")
    assert stores.accounts.secret(NODE_KEY, b"") == own


def test_a_key_that_cannot_be_opened_holds_no_other_up(service, dataset):
    lost = made(service, "lost")
    service.node.stores.dataset_keys.put(lost, sealed_key(SecretKeys({"gone": bytes(32)}), OTHER))
    assert len(endorsements(service)) == 1


def test_private_keys_are_written_in_the_form_that_is_read():
    assert signing_key(private_pem(OTHER).encode()) == OTHER
