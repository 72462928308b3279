"""Keys of datasets: kept sealed, exported, imported where a dataset moved to; what they sign."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from refusals import refusing
from service import Service, serving
from tests.app.test_attestations import attested, attesting

from odf_node.cli.main import main
from odf_node.service.definitions.variables import reseal
from odf_node.service.query.proofs import SigningKeys
from odf_protocol.commitments import did_key, key_pair, private_pem, signing_key
from odf_protocol.identity import DatasetId, DatasetRef
from odf_protocol.trust.attestations import Attestation, Claim
from odf_storage.stores.registers.dataset_keys import opened_key, sealed_key
from odf_storage.stores.registers.sealing import SecretKeys

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
        assert (refused.exit_code, "not of did:odf" in refused.output) == (1, True)
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


def test_keys_are_sealed_again_with_a_newer_key_of_secrets(service, dataset):
    old = service.node.secret_keys
    both = SecretKeys({"newer": b"\x01" * 32, **old.keys})
    keys = service.node.stores.dataset_keys
    assert reseal(service.node.stores, both) == 1
    assert reseal(service.node.stores, both) == 0
    only = SecretKeys({"newer": b"\x01" * 32})
    assert opened_key(only, dataset, keys.find(dataset)).dataset_id == dataset


def test_a_key_that_cannot_be_opened_holds_no_other_up(service, dataset):
    lost = made(service, "lost")
    service.node.stores.dataset_keys.put(lost, sealed_key(SecretKeys({"gone": bytes(32)}), OTHER))
    assert len(endorsements(service)) == 1


def test_private_keys_are_written_in_the_form_that_is_read():
    assert signing_key(private_pem(OTHER).encode()) == OTHER
