"""Attestations: what a reader of ours takes, and what other programs say of the same bytes."""

from __future__ import annotations

import base64
import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from refusals import refusing

from odf_protocol.commitments import did_key, key_pair, signed_by
from odf_protocol.instant import Instant
from odf_protocol.trust.attestations import (
    MAX_ENVELOPE_BYTES,
    MOST_RETIRED,
    PAYLOAD_TYPE,
    Attestation,
    Claim,
    fingerprint,
    pem,
    replayers,
    retired_of,
    signed_text,
)

KEY = key_pair(b"\x01" * 32)
OTHER = key_pair(b"\x02" * 32)
DATASET = key_pair(b"\x03" * 32).dataset_id
BLOCK = b"the bytes of a block"
AT = Instant.parse("2026-01-01T00:00:00Z")
MADE = Attestation.sign(KEY, Claim.REPLAY, DATASET, BLOCK, AT, {"executions": "3"})


def envelope_of(made: Attestation = MADE) -> dict[str, Any]:
    shown: dict[str, Any] = json.loads(made.envelope)
    return shown


def statement_of(made: Attestation = MADE) -> dict[str, Any]:
    shown: dict[str, Any] = json.loads(base64.b64decode(envelope_of(made)["payload"]))
    return shown


def signed(statement: dict[str, Any], key: Any = KEY, **more: Any) -> bytes:
    """A well signed envelope with any statement."""
    payload = json.dumps(statement).encode()
    signature = base64.b64encode(signed_by(key, signed_text(payload))).decode()
    shown = {
        "payload": base64.b64encode(payload).decode(),
        "payloadType": PAYLOAD_TYPE,
        "signatures": [{"keyid": fingerprint(key.public), "sig": signature}],
    }
    return json.dumps(shown | more).encode()


def test_what_is_signed_are_the_bytes_that_every_reader_of_dsse_checks():
    assert signed_text(b'{"a":1}') == b'DSSEv1 28 application/vnd.in-toto+json 7 {"a":1}'
    signature = base64.b64encode(signed_by(KEY, signed_text(b'{"a":1}'))).decode()
    assert signature == (
        "hnRWfVwgwUEyaqmeDERer317/PZ4tLcnJETrpxDg6FowIHVyXUXrQyvvL5GH98aq27DAcIy6Y7pk9ZPb3430DA=="
    )
    assert fingerprint(KEY.public) == "SHA256:fe85JkIjo8VPe+XqXJGH5Mau1EMFdK1OdKvJUFicyA8"


def test_an_attestation_says_who_says_what_of_which_block_and_is_read_again():
    again = Attestation.parse(MADE.envelope)
    assert again == MADE
    assert (again.signer, again.dataset, again.at) == (KEY.public, DATASET, AT)
    assert again.said["executions"] == "3"
    again.require(DATASET, BLOCK)
    assert Attestation.sign(KEY, Claim.REPLAY, DATASET, BLOCK, AT, {"executions": "3"}) == MADE


def test_it_is_about_one_block_of_one_dataset():
    with refusing("OtherBlock"):
        MADE.require(DATASET, BLOCK + b".")
    with refusing("OtherBlock"):
        MADE.require(KEY.dataset_id, BLOCK)
    subject = statement_of()["subject"]
    subject[0]["digest"]["sha256"] = "0" * 64
    wrong = Attestation.parse(signed({**statement_of(), "subject": subject}))
    with refusing("OtherBlock"):
        wrong.require(DATASET, BLOCK)


def test_each_changed_byte_refuses_it():
    for at in range(0, len(MADE.envelope), 7):
        changed = bytearray(MADE.envelope)
        changed[at] ^= 1
        with refusing("MalformedAttestation"):
            Attestation.parse(bytes(changed))


WRONG = {
    "another payload type": signed(statement_of(), payloadType="application/json"),
    "two signatures": signed(statement_of(), signatures=envelope_of()["signatures"] * 2),
    "no signature": signed(statement_of(), signatures=[]),
    "a field of its own": signed(statement_of(), more=1),
    "another statement type": signed(
        {**statement_of(), "_type": "https://in-toto.io/Statement/v2"}
    ),
    "another predicate type": signed({**statement_of(), "predicateType": "urn:other:v1"}),
    "two subjects": signed({**statement_of(), "subject": statement_of()["subject"] * 2}),
    "no subject": signed({**statement_of(), "subject": []}),
    "a subject without name": signed(
        {**statement_of(), "subject": [{"digest": statement_of()["subject"][0]["digest"]}]}
    ),
    "a name of another block": signed(
        {
            **statement_of(),
            "subject": [{**statement_of()["subject"][0], "name": "f1620" + "0" * 64}],
        }
    ),
    "a field of its own in the statement": signed({**statement_of(), "more": 1}),
    "the id of another key": signed(
        statement_of(),
        signatures=[{**envelope_of()["signatures"][0], "keyid": fingerprint(OTHER.public)}],
    ),
    "a signature by another key": signed(statement_of(), OTHER),
    "a signature by another key under its id": signed(
        statement_of(),
        signatures=[
            {
                **json.loads(signed(statement_of(), OTHER))["signatures"][0],
                "keyid": fingerprint(KEY.public),
            }
        ],
    ),
    "another key named": signed(
        {**statement_of(), "predicate": {**statement_of()["predicate"], "signer": "did:key:z6M"}}
    ),
    "no dataset": signed({**statement_of(), "predicate": {"signer": did_key(KEY.public)}}),
    "a predicate that is a list": signed({**statement_of(), "predicate": []}),
    "an endorsement by another key than that of the dataset": signed(
        {**statement_of(), "predicateType": Claim.ENDORSEMENT.value}
    ),
    "more than the limit": signed({**statement_of(), "x": "x" * MAX_ENVELOPE_BYTES}),
    "no JSON": b"odf",
    "JSON that nests deeply": b"[" * 10_000,
    "a payload that is no base64": json.dumps({**envelope_of(), "payload": "%%%"}).encode(),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_what_is_not_of_the_form_is_refused_however_well_it_is_signed(wrong: str):
    with refusing("MalformedAttestation"):
        Attestation.parse(WRONG[wrong])


def test_the_key_of_a_dataset_endorses_a_node():
    its = key_pair(b"\x03" * 32)
    made = Attestation.sign(its, Claim.ENDORSEMENT, DATASET, BLOCK, AT, {"node": "odf.example"})
    assert made.is_by_dataset
    assert not MADE.is_by_dataset


def test_securesystemslib_finds_the_signature_good_and_in_toto_reads_the_statement():
    dsse = pytest.importorskip("securesystemslib.dsse", reason="pip install securesystemslib")
    signers = pytest.importorskip("securesystemslib.signer")
    crypto = pytest.importorskip("cryptography.hazmat.primitives.serialization")
    public = crypto.load_pem_public_key(pem(KEY.public).encode())
    key = signers.SSlibKey.from_crypto(public, fingerprint(KEY.public))
    envelope = dsse.Envelope.from_dict(envelope_of())
    assert list(envelope.verify([key], 1)) == [fingerprint(KEY.public)]
    altered = dsse.Envelope(envelope.payload + b" ", envelope.payload_type, envelope.signatures)
    with pytest.raises(Exception, match="do not match threshold"):
        altered.verify([key], 1)
    statement = pytest.importorskip("in_toto_attestation.v1.statement")
    pb = pytest.importorskip("in_toto_attestation.v1.statement_pb2")
    json_format = pytest.importorskip("google.protobuf.json_format")
    read = statement.Statement.copy_from_pb(json_format.Parse(envelope.payload, pb.Statement()))
    read.validate()
    assert read.pb.subject[0].digest["sha3_256"] == MADE.block.digest.hex()


GO = Path(__file__).parents[1] / "support" / "go_dsse"


def test_the_dsse_of_go_finds_the_signature_good_and_an_altered_one_not(tmp_path: Path):
    if shutil.which("go") is None:
        pytest.skip("there is no Go here")
    program = tmp_path / "dsse"
    built = subprocess.run(
        ["go", "build", "-o", program, "."], cwd=GO, capture_output=True, text=True
    )
    if built.returncode:
        pytest.skip(f"Go does not build it: {built.stderr[-300:]}")
    (tmp_path / "key.pem").write_text(pem(KEY.public))

    def verified(envelope: dict[str, Any]) -> str:
        run = subprocess.run(
            [program, tmp_path / "key.pem"],
            input=json.dumps(envelope),
            capture_output=True,
            text=True,
            check=True,
        )
        return run.stdout.strip()

    assert verified(envelope_of()) == "good 1"
    other = Attestation.sign(KEY, Claim.REPLAY, DATASET, BLOCK, AT, {"executions": "4"})
    altered = {**envelope_of(), "payload": envelope_of(other)["payload"]}
    assert verified(altered).startswith("bad")


def test_cosign_verifies_it_for_the_file_of_the_block(tmp_path: Path):
    if shutil.which("cosign") is None:
        pytest.skip("there is no cosign here")
    files = {name: tmp_path / name for name in ("key.pem", "bundle.json", "block")}
    files["key.pem"].write_text(pem(KEY.public))
    files["block"].write_bytes(BLOCK)
    bundle = {
        "mediaType": "application/vnd.dev.sigstore.bundle.v0.3+json",
        "verificationMaterial": {
            "publicKey": {"hint": fingerprint(KEY.public)},
            "tlogEntries": [],
        },
        "dsseEnvelope": envelope_of(),
    }
    files["bundle.json"].write_text(json.dumps(bundle))

    def verified() -> int:
        given = ["--key", files["key.pem"], "--bundle", files["bundle.json"]]
        kind = ["--insecure-ignore-tlog", "--type", Claim.REPLAY.value]
        command = ["cosign", "verify-blob-attestation", *given, *kind, files["block"]]
        return subprocess.run(command, capture_output=True).returncode

    assert verified() == 0
    files["block"].write_bytes(BLOCK + b".")
    assert verified() != 0


def test_a_key_whose_earlier_key_replayed_or_made_blocks_is_counted_no_second_time():
    one, two, three, maker, newer = (bytes([n]) * 32 for n in range(1, 6))
    said = [
        (Claim.REPLAY, one, ()),
        (Claim.REPLAY, two, (one,)),
        (Claim.REPLAY, three, ()),
        (Claim.EXECUTION, maker, ()),
        (Claim.REPLAY, newer, (maker,)),
    ]
    assert replayers(said) == {one, three}
    # Who names keys of others as his own takes nobody out of the count but himself.
    assert replayers([*said, (Claim.REPLAY, b"\x09" * 32, (one, three))]) == {one, three}


def test_only_keys_are_taken_for_retired_ones_and_not_without_end():
    assert retired_of({"retired": [did_key(KEY.public), "no key", 1, None]}) == {KEY.public}
    assert retired_of({"retired": did_key(KEY.public)}) == retired_of({}) == frozenset()
    many = [did_key(key_pair(bytes([n]) * 32).public) for n in range(MOST_RETIRED + 1)]
    assert len(retired_of({"retired": many})) == MOST_RETIRED
