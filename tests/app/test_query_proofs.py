"""Answers that prove themselves: known answers, and every alteration refused for its own reason."""

from __future__ import annotations

import base64
import copy
import json
import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from refusals import refusing
from service import SCHEMA as COLUMNS
from service import Chain, Service, described, seeded, serving

from odf_protocol.commitments import (
    Commitment,
    MalformedProof,
    Proof,
    TextForm,
    canonical,
    did_key,
    exactly_decoded,
    hash_of,
    is_signed,
    key_pair,
    sign,
)
from odf_protocol.metadata.events import SetDataSchema
from odf_protocol.trust.attestations import fingerprint, pem
from odf_protocol.trust.notes import NoteKey

KEY = key_pair(b"\x7b" * 32)
DID = "did:key:z6Mko2nqhQ9wYSTS5Giab2j1aHzGnxHimqwmFeEVY8aNsVnN"
INPUT = {
    "datasets": [
        {
            "alias": "kamu-server/population",
            "blockHash": "f1620efdd11877825ad5f30fce4fb64a130e3d6273ea8fc81d72507c59081cc1d430e",
            "id": "did:odf:fed01df230b49615d175307d580c33d6fda61fc7b9aec91df0f5c1a5ebe3b8cbfee02",
        }
    ],
    "dataFormat": "JsonAoS",
    "include": ["Input", "Proof"],
    "limit": 100,
    "query": 'select offset, city, population from "kamu-server/population" order by offset desc',
    "queryDialect": "SqlDataFusion",
    "skip": 0,
}
OUTPUT = {
    "data": [
        {"city": "B", "offset": 1, "population": 200},
        {"city": "A", "offset": 0, "population": 100},
    ],
    "dataFormat": "JsonAoS",
}
KNOWN = Commitment(
    input_hash="f1620ef74430b1ad8916e80c148f7a9e8815ca702610a2655971b2f9852f00d5caa31",
    output_hash="f1620ff7f5beaf16900218a3ac4aae82cdccf764816986c7c739c716cf7dc03112a2c",
    sub_queries_hash="f1620ca4510738395af1429224dd785675309c344b2b549632e20275c69b15ed1d210",
)
SIGNATURE = (
    "u43jJXaMAJCmMzZ0SL2HBQloggw5PQzOnG7gCPTZAoJKCtAx-mrhSmqtWna676x3gm09_b0V7_Qb8zcca8nuABg"
)
QUERY = 'select "offset", city from city order by "offset" desc'


def test_hashes_and_signature_are_those_of_the_reference():
    assert did_key(KEY.public) == DID
    assert str(hash_of(INPUT)) == KNOWN.input_hash
    assert str(hash_of(OUTPUT)) == KNOWN.output_hash
    assert str(hash_of([])) == KNOWN.sub_queries_hash
    proof = sign(KNOWN, KEY)
    assert (proof.verification_method, proof.proof_value) == (DID, SIGNATURE)
    assert is_signed(KNOWN, proof)


LETTERS = "aÄ\x7f\n\u2028😀"
ESCAPED = rb'"a\u00c4\u007f\n\u2028\ud83d\ude00"'


def test_canonical_text_sorts_keys_at_every_depth_and_escapes_what_is_beyond_ascii():
    value = {"b": [{"y": 1, "ä": LETTERS}], "a": 1.5}
    assert canonical(value) == rb'{"a":1.5,"b":[{"y":1,"\u00e4":' + ESCAPED + b"}]}"
    plain = '{"a":1.5,"b":[{"y":1,"ä":"aÄ\x7f\\n\u2028😀"}]}'
    assert canonical(value, TextForm.PLAIN) == plain.encode()


@given(st.text(st.characters(codec="utf-8")))
def test_both_forms_of_a_text_are_the_same_json(text):
    for form in TextForm:
        assert json.loads(canonical({text: text}, form)) == {text: text}
    assert canonical(text).isascii()
    assert b"\x7f" not in canonical(text)


def test_numbers_of_an_answer_keep_the_text_that_they_have_in_it():
    text = b"[-0,1e+300,1e16,0.33333334,123456789012345678901234567890,1.0]"
    assert canonical(exactly_decoded(text)) == text
    for broken in (b"[NaN]", b"[", b"[" * 100_000, b"\xff"):
        with pytest.raises(MalformedProof):
            exactly_decoded(broken)


@pytest.mark.parametrize(
    "change",
    [
        {"type": "Ed25519Signature2018"},
        {"verification_method": "did:key:z6Mk"},
        {"verification_method": "did:odf:fed01" + "00" * 32},
        {"proof_value": SIGNATURE[1:]},
        {"proof_value": SIGNATURE + "="},
        {"proof_value": "u!!"},
    ],
)
def test_proofs_of_another_form_are_refused(change):
    proof = {"type": "Ed25519Signature2020", "verification_method": DID, "proof_value": SIGNATURE}
    with pytest.raises(MalformedProof):
        is_signed(KNOWN, Proof(**{**proof, **change}))


@pytest.fixture(scope="module")
def service(tmp_path_factory: Any) -> Any:
    data = tmp_path_factory.mktemp("proofs") / "node"
    retired = (did_key(key_pair(b"1" * 32).public),)
    with serving(data, signing_key="7b" * 32, signing_keys_retired=retired) as service:
        service.keep(city(), "kamu/city")
        yield service


def city() -> Chain:
    return seeded(b"c" * 32).add(described(), SetDataSchema(schema=COLUMNS)).add_rows(5)


@pytest.fixture(scope="module")
def answer(service: Service) -> Any:
    with service.http() as client:
        asked = {"query": QUERY, "include": ["schema", "proof"]}
        return client.post("/query", json=asked).json()


@pytest.mark.scenario("Q06")
def test_an_answer_with_a_proof_names_its_inputs_and_its_hashes_recompute(answer):
    assert answer["input"]["include"] == ["Input", "Proof", "Schema"]
    assert answer["commitment"] == {
        "inputHash": str(hash_of(answer["input"])),
        "outputHash": str(hash_of(answer["output"])),
        "subQueriesHash": str(hash_of([])),
    }
    assert answer["proof"]["verificationMethod"] == DID
    assert is_signed(*_signed(answer))


def _signed(answer: Any) -> tuple[Commitment, Proof]:
    commitment, proof = answer["commitment"], answer["proof"]
    return (
        Commitment(
            input_hash=commitment["inputHash"],
            output_hash=commitment["outputHash"],
            sub_queries_hash=commitment["subQueriesHash"],
        ),
        Proof(
            type=proof["type"],
            verification_method=proof["verificationMethod"],
            proof_value=proof["proofValue"],
        ),
    )


def resigned(told: Any) -> Any:
    """The answer, of which all was changed that a liar with a key can change."""
    told["commitment"]["inputHash"] = str(hash_of(told["input"]))
    proof = sign(_signed(told)[0], KEY)
    told["proof"] |= {"proofValue": proof.proof_value}
    return told


def judged(service: Service, told: Any) -> tuple[int, Any]:
    with service.http() as client:
        answer = client.post("/verify", json=told)
    return answer.status_code, answer.json()


@pytest.fixture
def told(answer: Any) -> Any:
    return {name: copy.deepcopy(part) for name, part in answer.items() if name != "output"}


@pytest.mark.scenario("Q09")
def test_a_true_answer_is_confirmed(service, told):
    assert judged(service, told) == (200, {"ok": True})


@pytest.fixture(scope="module")
def in_letters(service: Service) -> Any:
    """An answer with letters and floats, of which both forms have other hashes."""
    query = (
        f"select '{LETTERS}' as \"Ä\", 1e16 as a, 1e300 as b, arrow_cast(1.0, 'Float32') / 3 as c"
    )
    with service.http() as client:
        return client.post("/query", json={"query": query, "include": ["Proof"]})


def test_hashes_are_those_of_escaped_text_and_of_numbers_as_they_stand(in_letters):
    answer, shown = in_letters.json(), in_letters.text
    assert '"a":1e+16,"b":1e+300,"c":0.33333334' in shown
    exact = exactly_decoded(in_letters.content)
    assert answer["commitment"]["outputHash"] == str(hash_of(exact["output"]))
    assert answer["commitment"]["outputHash"] != str(hash_of(exact["output"], TextForm.PLAIN))
    assert answer["commitment"]["inputHash"] == str(hash_of(exact["input"]))
    assert ESCAPED[1:-1] in canonical(exact["output"])


def test_an_answer_of_either_form_is_confirmed_and_its_form_is_named(service, in_letters):
    answer = in_letters.json()
    told = {name: part for name, part in answer.items() if name != "output"}
    assert judged(service, told) == (200, {"ok": True, "textForm": "escaped"})
    exact = exactly_decoded(in_letters.content)
    for part, name in (("input", "inputHash"), ("output", "outputHash")):
        told["commitment"][name] = str(hash_of(exact[part], TextForm.PLAIN))
    told["proof"]["proofValue"] = sign(_signed(told)[0], KEY).proof_value
    assert judged(service, told) == (200, {"ok": True, "textForm": "plain"})


def test_an_answer_of_which_each_part_has_another_form_is_refused(service, in_letters):
    told = {name: part for name, part in in_letters.json().items() if name != "output"}
    told["commitment"]["inputHash"] = str(hash_of(told["input"], TextForm.PLAIN))
    told["proof"]["proofValue"] = sign(_signed(told)[0], KEY).proof_value
    status, found = judged(service, told)
    assert (status, found["error"]["kind"]) == (400, "VerificationFailed::OutputMismatch")


def test_another_node_with_the_dataset_confirms_the_answer(tmp_path, told):
    with serving(tmp_path / "other") as other:
        other.keep(city_of(told), "kamu/copy")
        assert judged(other, told) == (200, {"ok": True})


def city_of(told: Any) -> Chain:
    chain = city()
    assert str(chain.head) == told["input"]["datasets"][0]["blockHash"]
    return chain


@pytest.mark.scenario("Q13")
def test_another_output_is_found_by_computing_it_again(service, told):
    actual = told["commitment"]["outputHash"]
    told["commitment"]["outputHash"] = str(hash_of("lie"))
    status, found = judged(service, resigned(told))
    assert status == 400
    assert found["error"] | {"message": ""} == {
        "kind": "VerificationFailed::OutputMismatch",
        "message": "",
        "expected_hash": str(hash_of("lie")),
        "actual_hash": actual,
    }


@pytest.mark.parametrize(
    ("expression", "depends"),
    [
        ("sum(x)", True),
        ("avg(x) over ()", True),
        ("sum(x) > 0.2", True),
        ("max(x)", False),
        ("sum(cast(x as decimal(10, 2)))", False),
        ("count(x)", False),
    ],
)
def test_an_answer_that_depends_on_the_order_of_a_sum_of_floats_is_not_called_false(
    service, expression, depends
):
    query = f"select {expression} as y from (values (0.1), (0.2)) as t(x)"
    with service.http() as client:
        answer = client.post("/query", json={"query": query, "include": ["Proof"]}).json()
    told = {name: part for name, part in answer.items() if name != "output"}
    told["commitment"]["outputHash"] = str(hash_of("other digits"))
    status, found = judged(service, resigned(told))
    error = found["error"]
    assert (status, error["kind"]) == (400, "VerificationFailed::OutputMismatch")
    assert error.get("depends_on_order", False) is depends
    assert ("does not say that the answer is false" in error["message"]) is depends


@pytest.mark.scenario("Q14")
def test_a_dataset_that_is_not_here_is_told(service, told):
    nobody = str(seeded().id)
    told["input"]["datasets"][0]["id"] = nobody
    status, found = judged(service, resigned(told))
    error = found["error"]
    assert (status, error["kind"]) == (400, "VerificationFailed::DatasetNotFound")
    assert error["dataset_id"] == nobody


@pytest.mark.scenario("Q15")
def test_a_block_that_is_not_here_is_told(service, told):
    pin = told["input"]["datasets"][0]
    pin["blockHash"] = "f1620" + "ab" * 32
    status, found = judged(service, resigned(told))
    assert (status, found["error"]["kind"]) == (400, "VerificationFailed::DatasetBlockNotFound")
    assert (found["error"]["dataset_id"], found["error"]["block_hash"]) == (
        pin["id"],
        pin["blockHash"],
    )


def _hex_changed(text: str, chosen: random.Random) -> str:
    at = chosen.randrange(5, len(text))
    return (
        text[:at] + chosen.choice([c for c in "0123456789abcdef" if c != text[at]]) + text[at + 1 :]
    )


def _change_input(told: Any, chosen: random.Random) -> str:
    name = chosen.choice(["query", "limit", "skip", "dataFormat", "include", "datasets", "more"])
    told["input"][name] = chosen.choice(["other", 7, [], None, {"a": chosen.random()}])
    return "InvalidRequest::InputHash"


def _change_input_hash(told: Any, chosen: random.Random) -> str:
    told["commitment"]["inputHash"] = _hex_changed(told["commitment"]["inputHash"], chosen)
    return "InvalidRequest::InputHash"


def _change_sub_queries(told: Any, chosen: random.Random) -> str:
    told["subQueries"] = [chosen.random()]
    return "InvalidRequest::SubQueriesHash"


def _change_sub_queries_hash(told: Any, chosen: random.Random) -> str:
    hashes = told["commitment"]
    hashes["subQueriesHash"] = _hex_changed(hashes["subQueriesHash"], chosen)
    return "InvalidRequest::SubQueriesHash"


def _change_output_hash(told: Any, chosen: random.Random) -> str:
    told["commitment"]["outputHash"] = _hex_changed(told["commitment"]["outputHash"], chosen)
    return "InvalidRequest::BadSignature"


def _change_signature(told: Any, chosen: random.Random) -> str:
    text = told["proof"]["proofValue"]
    at = chosen.randrange(1, len(text))
    told["proof"]["proofValue"] = text[:at] + chosen.choice("-_#é ") + text[at + 1 :]
    if told["proof"]["proofValue"] == text:
        told["proof"]["proofValue"] = text[:-1]
    return "InvalidRequest::BadSignature"


def _change_signer(told: Any, chosen: random.Random) -> str:
    told["proof"]["verificationMethod"] = did_key(key_pair(chosen.randbytes(32)).public)
    return "InvalidRequest::BadSignature"


CHANGES = (
    _change_input,
    _change_input_hash,
    _change_sub_queries,
    _change_sub_queries_hash,
    _change_output_hash,
    _change_signature,
    _change_signer,
)


@pytest.mark.scenario("Q10")
@pytest.mark.scenario("Q11")
@pytest.mark.scenario("Q12")
def test_a_thousand_altered_answers_are_refused_each_for_its_reason(service, told):
    chosen = random.Random(1)
    with service.http() as client:
        for number in range(1000):
            altered = copy.deepcopy(told)
            kind = CHANGES[number % len(CHANGES)](altered, chosen)
            answer = client.post("/verify", json=altered)
            assert answer.status_code == 400, altered
            assert answer.json()["error"]["kind"] == kind, altered


def test_what_is_no_answer_with_a_proof_is_refused(service, told):
    del told["proof"]
    assert judged(service, told)[0] == 400


def test_what_depends_on_the_moment_is_not_proven(service):
    with service.http() as client:
        asked = {"query": "select now()"}
        assert client.post("/query", json=asked).status_code == 200
        assert client.post("/query", json=asked | {"include": ["Proof"]}).status_code == 400


def test_keys_are_published_and_the_retired_ones_too(service):
    with service.http() as client:
        keys = client.get("/system/keys").json()["keys"]
    name = service.url.removeprefix("http://")
    assert keys[0] == {
        "id": DID,
        "state": "active",
        "vkey": str(NoteKey(name, KEY.public)),
        "fingerprint": fingerprint(KEY.public),
        "pem": pem(KEY.public),
    }
    assert [key["state"] for key in keys] == ["active", "retired"]


def test_a_node_without_a_setting_signs_by_a_key_of_its_own_from_the_first_start(tmp_path):
    dids = []
    for _ in range(2):
        with serving(tmp_path / "node") as service, service.http() as client:
            dids += [key["id"] for key in client.get("/system/keys").json()["keys"]]
            asked = {"query": "select 1 as n", "include": ["proof"]}
            told = client.post("/query", json=asked).json()
            assert told["proof"]["verificationMethod"] == dids[-1]
            del told["output"]
            assert judged(service, told) == (200, {"ok": True})
    assert dids[0] == dids[1]
    with serving(tmp_path / "other") as other, other.http() as client:
        assert client.get("/system/keys").json()["keys"][0]["id"] != dids[0]


def test_the_key_of_a_node_outlives_new_keys_of_secrets_and_not_the_loss_of_all(tmp_path):
    old, new = (base64.b64encode(bytes([number]) * 32).decode() for number in (1, 2))

    def seed(keys: str) -> bytes:
        with serving(tmp_path / "node", secrets_keys=keys) as service:
            return service.node.signing_keys.seed

    made = seed(old)
    assert seed(f"{new},{old}") == made
    with refusing("SecretUnreadable"):
        seed(new)


def test_the_seed_lies_in_no_file_in_clear(tmp_path):
    with serving(tmp_path / "node") as service:
        seed = service.node.signing_keys.seed
    files = [path for path in (tmp_path / "node").rglob("*") if path.is_file()]
    found = b"".join(path.read_bytes() for path in files)
    assert found
    assert seed not in found
    assert seed.hex().encode() not in found
