"""Messages of the smart protocol have exactly the reference's spelling."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from msgspec import Raw
from refusals import refusing

from odf_protocol.instant import Instant
from odf_protocol.multihash import Multihash
from odf_protocol.transfer import messages as m
from odf_protocol.transfer.phases import PIECE_BYTES, PIECE_CHARS, decode_payload, encode_payload

HASH = Multihash.of(b"a")
OTHER = Multihash.of(b"b")
DID = "did:odf:fed01" + "ab" * 32
PLAN = {
    "num_blocks": 4,
    "num_objects": 2,
    "num_records": 10,
    "bytes_in_raw_blocks": 1234,
    "bytes_in_raw_objects": 56789,
}
SLICE = {"object_type": "DataSlice", "physical_hash": str(HASH), "size": 12345}
CHECKPOINT = {"object_type": "Checkpoint", "physical_hash": str(OTHER), "size": 7}
URL = {
    "url": "https://host/x",
    "headers": [{"name": "authorization", "value": "Bearer t"}],
    "expires_at": "2050-01-01T12:00:00Z",
}
BATCH = {
    "num_blocks": 1,
    "media_type": "application/tar+gzip",
    "encoding": "raw",
    "payload": [31, 139, 8, 0],
}
PUSH_FAILED = {"phase": {"Push": "ObjectsRequest"}, "error_message": "Internal error"}
PULL_FAILED = {"phase": {"Pull": "InitialRequest"}, "error_message": "Internal error"}

WIRE: list[tuple[type[m.Message], Any]] = [
    (
        m.DatasetPullRequest,
        {"begin_after": None, "stop_at": str(HASH), "force_update_if_diverged": False},
    ),
    (m.DatasetPullResponse, {"Ok": {"transfer_plan": PLAN}}),
    (
        m.DatasetPullResponse,
        {"Err": {"InvalidInterval": {"head": str(HASH), "tail": str(OTHER)}}},
    ),
    (m.DatasetPullResponse, {"Err": {"Internal": PULL_FAILED}}),
    (m.DatasetPullResponse, {"Err": {"SeedBlockOverwriteRestricted": {}}}),
    (m.DatasetPullMetadataRequest, {}),
    (m.DatasetMetadataPullResponse, {"blocks": BATCH}),
    (m.DatasetPullObjectsTransferRequest, {"object_files": [SLICE, CHECKPOINT]}),
    (
        m.DatasetPullObjectsTransferResponse,
        {
            "object_transfer_strategies": [
                {"object_file": SLICE, "pull_strategy": "HttpDownload", "download_from": URL}
            ]
        },
    ),
    (
        m.DatasetPushRequest,
        {
            "current_head": None,
            "transfer_plan": PLAN,
            "force_update_if_diverged": True,
            "visibility_for_created_dataset": "Private",
        },
    ),
    (m.DatasetPushResponse, {"Ok": {}}),
    (
        m.DatasetPushResponse,
        {"Err": {"InvalidHead": {"actual_head": None, "expected_head": str(HASH)}}},
    ),
    (m.DatasetPushResponse, {"Err": {"Internal": PUSH_FAILED}}),
    (m.DatasetPushMetadataRequest, {"new_blocks": BATCH}),
    (m.DatasetPushMetadataResponse, {"Ok": {}}),
    (m.DatasetPushMetadataResponse, {"Err": {"SeedBlockOverwriteRestricted": {}}}),
    (m.DatasetPushObjectsTransferRequest, {"object_files": [], "is_truncated": False}),
    (
        m.DatasetPushObjectsTransferResponse,
        {
            "Ok": {
                "object_transfer_strategies": [
                    {"object_file": SLICE, "push_strategy": "SkipUpload", "upload_to": None},
                    {
                        "object_file": CHECKPOINT,
                        "push_strategy": "HttpUpload",
                        "upload_to": {"url": "u", "headers": [], "expires_at": None},
                    },
                ]
            }
        },
    ),
    (m.DatasetPushObjectsTransferResponse, {"Err": {"RefCollision": {"dataset_id": DID}}}),
    (m.DatasetPushObjectsTransferResponse, {"Err": {"NameCollision": {"dataset_alias": "a/b"}}}),
    (m.DatasetPushObjectsTransferResponse, {"Err": {"Internal": PUSH_FAILED}}),
    (m.DatasetPushObjectsUploadProgressRequest, {}),
    (
        m.DatasetPushObjectsUploadProgressResponse,
        {"details": {"Running": {"uploaded_objects_count": 3}}},
    ),
    (m.DatasetPushObjectsUploadProgressResponse, {"details": "Complete"}),
    (m.DatasetPushComplete, {}),
    (m.DatasetPushCompleteConfirmed, {}),
]


@pytest.mark.parametrize(("kind", "wire"), WIRE, ids=lambda v: getattr(v, "__name__", ""))
def test_a_message_is_read_and_written_as_the_reference_spells_it(
    kind: type[m.Message], wire: Any
) -> None:
    text = json.dumps(wire, separators=(",", ":"))
    message = m.decode(text, kind)
    assert isinstance(message, kind)
    assert m.encode(message) == text
    assert m.decode(text.encode(), kind) == message


def _with_unknown(value: Any) -> Any:
    """Foreign fields wherever structures, not variants, stand."""
    if isinstance(value, list):
        return [_with_unknown(item) for item in value]
    if not isinstance(value, dict):
        return value
    inner = {key: _with_unknown(item) for key, item in value.items()}
    return inner if inner and all(key[0].isupper() for key in inner) else inner | {"future": [{}]}


@pytest.mark.parametrize(("kind", "wire"), WIRE, ids=lambda v: getattr(v, "__name__", ""))
def test_unknown_fields_are_ignored(kind: type[m.Message], wire: Any) -> None:
    extended = json.dumps(_with_unknown(wire), separators=(",", ":"))
    assert m.encode(m.decode(extended, kind)) == json.dumps(wire, separators=(",", ":"))


OPTIONAL = {
    "begin_after",
    "stop_at",
    "current_head",
    "expires_at",
    "upload_to",
    "actual_head",
    "expected_head",
}


@pytest.mark.parametrize(("kind", "wire"), WIRE, ids=lambda v: getattr(v, "__name__", ""))
def test_every_field_but_the_optional_ones_must_be_there(kind: type[m.Message], wire: Any) -> None:
    for name in wire:
        rest = json.dumps({key: value for key, value in wire.items() if key != name})
        if name in OPTIONAL:
            m.decode(rest, kind)
        else:
            with pytest.raises(m.MalformedMessage):
                m.decode(rest, kind)


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (m.DatasetPullRequest, "not json"),
        (m.DatasetPullRequest, "[]"),
        (m.DatasetPullRequest, '{"force_update_if_diverged":1}'),
        (m.DatasetPullRequest, '{"force_update_if_diverged":true,"begin_after":"f1620"}'),
        (m.DatasetPullRequest, '{"force_update_if_diverged":true,"begin_after":7}'),
        (m.DatasetPullResponse, '{"transfer_plan":{}}'),
        (m.DatasetPullResponse, '{"Ok":{},"Err":{}}'),
        (m.DatasetPullResponse, '{"Err":{"NameCollision":{"dataset_alias":"x"}}}'),
        (m.DatasetPullResponse, '{"Err":"SeedBlockOverwriteRestricted"}'),
        (m.DatasetPushResponse, '{"Err":{"Internal":{"phase":{},"error_message":""}}}'),
        (m.DatasetPushObjectsUploadProgressResponse, '{"details":"Done"}'),
        (m.DatasetPushComplete, "[" * 100_000),
        (m.DatasetPushComplete, '"\ud800"'.encode("utf-8", "surrogatepass")),
    ],
    ids=lambda v: str(v)[:40],
)
def test_anything_else_is_malformed(kind: type[m.Message], text: str | bytes) -> None:
    with pytest.raises(m.MalformedMessage):
        m.decode(text, kind)


def plan_of(*, records: str) -> str:
    return (
        f'{{"num_blocks":1,"num_objects":1,"num_records":{records},'
        '"bytes_in_raw_blocks":1,"bytes_in_raw_objects":1}'
    )


def test_sizes_take_sixty_four_bits_and_no_more() -> None:
    largest = plan_of(records=str(2**64 - 1))
    assert m.encode(m.decode(largest, m.TransferPlan)) == largest
    for records in (str(2**64), "-1", "1.0", "true"):
        with pytest.raises(m.MalformedMessage):
            m.decode(plan_of(records=records), m.TransferPlan)


def test_a_message_beyond_the_limit_is_not_looked_at() -> None:
    with refusing("MessageTooLarge"):
        m.decode(b" " * (m.MAX_MESSAGE_BYTES + 1), m.DatasetPushComplete)


@pytest.mark.parametrize("text", ["public", "Public", "PUBLIC"])
def test_visibility_is_read_in_any_case(text: str) -> None:
    wire = dict(WIRE[9][1], visibility_for_created_dataset=text)
    message = m.decode(json.dumps(wire), m.DatasetPushRequest)
    assert message.visibility_for_created_dataset is m.Visibility.Public


def test_instants_of_urls_are_written_with_z() -> None:
    url = m.TransferUrl(url="u", headers=(), expires_at=Instant.parse("2050-01-01T13:00:00+01:00"))
    assert m.encode(url) == '{"url":"u","headers":[],"expires_at":"2050-01-01T12:00:00Z"}'


# --- close reasons


def _objects(error: Any) -> m.DatasetPushObjectsTransferResponse:
    return m.DatasetPushObjectsTransferResponse(result=error)


def test_every_internal_error_fits_into_a_close_frame() -> None:
    phases = [m.TransferPhase(push=phase) for phase in m.PushPhase]
    for phase in phases:
        internal = m.Internal(phase=phase, error_message=m.INTERNAL_ERROR)
        reason = m.close_reason(m.DatasetPushResponse(result=internal))
        assert len(reason) <= 96
        assert m.decode(reason, m.DatasetPushResponse).result == internal


def test_collisions_are_named_as_long_as_they_fit() -> None:
    alias = "a/" + "b" * 75
    reason = m.close_reason(_objects(m.NameCollision(dataset_alias=alias)))
    assert reason == '{"Err":{"NameCollision":{"dataset_alias":"' + alias + '"}}}'
    assert len(reason) <= m.MAX_CLOSE_REASON_BYTES


def test_a_collision_that_does_not_fit_becomes_an_internal_error() -> None:
    reason = m.close_reason(_objects(m.NameCollision(dataset_alias="é" * 60)))
    phase = m.TransferPhase(push=m.PushPhase.EnsuringTargetExists)
    assert m.decode(reason, m.DatasetPushObjectsTransferResponse).result == m.Internal(
        phase=phase, error_message=m.INTERNAL_ERROR
    )


def test_a_long_explanation_is_dropped_but_not_its_phase() -> None:
    phase = m.TransferPhase(push=m.PushPhase.CompleteRequest)
    reason = m.close_reason(_objects(m.Internal(phase=phase, error_message="x" * 500)))
    assert json.loads(reason)["Err"]["Internal"]["phase"] == {"Push": "CompleteRequest"}
    assert len(reason) <= m.MAX_CLOSE_REASON_BYTES


# --- payloads


@pytest.mark.parametrize("size", [0, 1, 256, PIECE_CHARS, PIECE_CHARS + 1, 1_000_003])
def test_payloads_of_any_length_come_back(size: int) -> None:
    content = bytes(n * 7 % 256 for n in range(size))
    payload = encode_payload(content)
    assert b"".join(decode_payload(payload)) == content
    assert json.loads(bytes(payload)) == list(content)


def test_blanks_between_numbers_are_fine() -> None:
    assert b"".join(decode_payload(Raw(b" [ 1 ,\n2 ] "))) == b"\1\2"


@pytest.mark.parametrize(
    "text", ["", "[", "{}", "[256]", "[-1]", "[1.5]", "[true]", "[1,]", "[,1]", "[1,,2]", '["a"]']
)
def test_other_payloads_are_malformed(text: str) -> None:
    with pytest.raises(m.MalformedMessage):
        list(decode_payload(Raw(text.encode())))


@pytest.mark.parametrize("end", [",", ",]", ",,1]", ",[1]]"])
def test_a_long_payload_is_malformed_wherever_it_breaks(end: str) -> None:
    text = "[" + ",".join(["255"] * (PIECE_CHARS // 4)) + end
    with pytest.raises(m.MalformedMessage):
        list(decode_payload(Raw(text.encode())))


@pytest.mark.parametrize("size", [0, 1, 2, 3, PIECE_BYTES, PIECE_BYTES + 1, 1_000_003])
def test_payloads_in_base64_come_back(size: int) -> None:
    content = bytes(n * 7 % 256 for n in range(size))
    payload = encode_payload(content, m.COMPACT_ENCODING)
    assert base64.b64decode(json.loads(bytes(payload)), validate=True) == content
    assert b"".join(decode_payload(payload, m.COMPACT_ENCODING)) == content


@pytest.mark.parametrize(
    "text", ["", '"', "[1]", '"A"', '"AA==AAAA"', '"A-_A"', '"AAAA', '"AA AA"']
)
def test_other_texts_are_no_base64(text: str) -> None:
    with pytest.raises(m.MalformedMessage):
        list(decode_payload(Raw(text.encode()), m.COMPACT_ENCODING))


def test_padding_in_the_middle_of_a_long_text_is_refused() -> None:
    half = base64.b64encode(bytes(PIECE_CHARS // 4 * 3 - 1))
    with pytest.raises(m.MalformedMessage):
        list(decode_payload(Raw(b'"' + half + half + b'"'), m.COMPACT_ENCODING))
