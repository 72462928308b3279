"""Posts that their publisher signs: checked before anything is queued, kept with the block."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner
from refusals import refusing
from service import SCHEMA, Chain, Service, seeded, serving

from odf_node.cli.main import main
from odf_protocol.commitments import did_key, key_pair, signing_key
from odf_protocol.metadata.events import AddPushSource, SetDataSchema
from odf_protocol.metadata.sources import MergeStrategyAppend, ReadStepNdJson
from odf_protocol.multihash import Multihash
from odf_protocol.trust.posts import PostSignature

BODY = b'{"city": "Oslo", "population": 717000}\n'
KEY, OTHER = key_pair(b"\x07" * 32), key_pair(b"\x08" * 32)
ADDRESS = "/foo/ingest"


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    with serving(tmp_path / "node") as one:
        yield one


@pytest.fixture
def chain(service: Service) -> Chain:
    source = AddPushSource(
        source_name="default", read=ReadStepNdJson(), merge=MergeStrategyAppend()
    )
    chain = seeded().add(SetDataSchema(schema=SCHEMA), source)
    service.keep(chain)
    return chain


def signature(chain: Chain, body: bytes = BODY) -> PostSignature:
    return PostSignature.sign(KEY, chain.id, Multihash.of(body))


def posted(service: Service, text: str, body: bytes = BODY) -> tuple[int, str]:
    headers = {
        "odf-signature": text,
        "content-type": "application/x-ndjson",
        "prefer": "respond-async",
    }
    with service.http(service.token()) as client:
        answer = client.post(ADDRESS, content=body, headers=headers)
    return answer.status_code, str(answer.json().get("type", "")).rpartition(":")[2]


def payloads(service: Service, chain: Chain) -> list[str | None]:
    return [
        job.spec.payload.get("signature") for job in service.node.stores.jobs.page(dataset=chain.id)
    ]


def test_a_signed_post_is_queued_with_its_signature(service, chain):
    text = str(signature(chain))
    assert posted(service, text)[0] == 202
    assert payloads(service, chain) == [text]


@pytest.mark.parametrize("wrong", ["body", "dataset", "key", "form", "length", "base64"])
def test_a_post_with_a_wrong_signature_is_refused_and_queues_nothing(service, chain, wrong):
    good = str(signature(chain))
    text, code = {
        "body": (str(signature(chain, BODY + b"{}\n")), "PostNotSigned"),
        "dataset": (str(signature(seeded())), "PostNotSigned"),
        "key": (f"{did_key(OTHER.public)} {good.partition(' ')[2]}", "PostNotSigned"),
        "form": ("sha256:abc", "MalformedSignature"),
        "length": (good + "A" * 400, "MalformedSignature"),
        "base64": (f"{did_key(KEY.public)} %%%", "MalformedSignature"),
    }[wrong]
    assert posted(service, text) == (400, code)
    assert payloads(service, chain) == []


def test_the_command_signs_with_a_key_of_ssh_keygen_or_openssl(service, chain, tmp_path):
    from cryptography.hazmat.primitives import serialization as forms
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    key = Ed25519PrivateKey.from_private_bytes(KEY.seed)
    (tmp_path / "rows.ndjson").write_bytes(BODY)
    for form in (forms.PrivateFormat.PKCS8, forms.PrivateFormat.OpenSSH):
        raw = key.private_bytes(forms.Encoding.PEM, form, forms.NoEncryption())
        (tmp_path / "publisher").write_bytes(raw)
        words = [str(tmp_path / "rows.ndjson"), f"{service.url}/foo", "--token", service.token()]
        more = ["--sign", str(tmp_path / "publisher"), "--async", "--json"]
        result = CliRunner().invoke(main, ["ingest", *words, *more])
        assert result.exit_code == 0, result.output
        assert json.loads(result.output)["job"]
    assert payloads(service, chain) == [str(signature(chain))] * 2


def test_a_file_that_is_no_such_key_is_refused():
    for raw in (b"", b"odf", os.urandom(200), b"-----BEGIN PRIVATE KEY-----\n"):
        with refusing("UnusableSigningKey"):
            signing_key(raw)
