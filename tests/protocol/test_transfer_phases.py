"""The exchanges run as the tables say, and no other way."""

from __future__ import annotations

from typing import Any

import pytest
from refusals import refusing

from odf_protocol.multihash import Multihash
from odf_protocol.transfer import messages as m
from odf_protocol.transfer.bundle import pack
from odf_protocol.transfer.phases import (
    MAY_CLOSE,
    NEXT,
    PHASES,
    SPEAKER,
    PullState,
    PushState,
    Side,
    State,
    advance,
    awaited,
    transfer_plan,
)

PLAN = transfer_plan([])
EMPTY = pack([])
BATCH = m.MetadataBlocksBatch(
    num_blocks=1, media_type=EMPTY.media_type, encoding=EMPTY.encoding, payload=EMPTY.payload
)
HASH = Multihash.of(b"")
OK = m.Accepted()
SEED_ERROR = m.SeedBlockOverwriteRestricted()

PULL_REQUEST = m.DatasetPullRequest(force_update_if_diverged=False)
PULL_OK = m.DatasetPullResponse(result=m.DatasetPullSuccess(transfer_plan=PLAN))
PULL_ERR = m.DatasetPullResponse(result=m.InvalidInterval(head=HASH, tail=HASH))
PULL_OBJECTS = (
    m.DatasetPullObjectsTransferRequest(object_files=()),
    m.DatasetPullObjectsTransferResponse(object_transfer_strategies=()),
)
PULL_METADATA = (m.DatasetPullMetadataRequest(), m.DatasetMetadataPullResponse(blocks=EMPTY))

PUSH_REQUEST = m.DatasetPushRequest(
    transfer_plan=PLAN,
    force_update_if_diverged=False,
    visibility_for_created_dataset=m.Visibility.Private,
)
PUSH_START = (PUSH_REQUEST, m.DatasetPushResponse(result=OK))
PUSH_METADATA = (
    m.DatasetPushMetadataRequest(new_blocks=BATCH),
    m.DatasetPushMetadataResponse(result=OK),
)
ASK = m.DatasetPushObjectsUploadProgressRequest()
RUNNING = m.DatasetPushObjectsUploadProgressResponse(
    details=m.Running(running=m.UploadedSoFar(uploaded_objects_count=1))
)
DONE = m.DatasetPushObjectsUploadProgressResponse(details="Complete")
COMMIT = (m.DatasetPushComplete(), m.DatasetPushCompleteConfirmed())


def _objects(is_truncated: bool = False) -> tuple[m.Message, m.Message]:
    return (
        m.DatasetPushObjectsTransferRequest(object_files=(), is_truncated=is_truncated),
        m.DatasetPushObjectsTransferResponse(
            result=m.ObjectsTransferStrategies(object_transfer_strategies=())
        ),
    )


def _run(state: State, *messages: m.Message) -> State:
    for message in messages:
        assert awaited(state, SPEAKER[type(message)]) is type(message)
        state = advance(state, message)
    return state


def test_a_pull_goes_from_request_to_objects_and_may_ask_again() -> None:
    state = _run(PullState.START, PULL_REQUEST, PULL_OK)
    assert state in MAY_CLOSE
    state = _run(state, *PULL_METADATA)
    assert state in MAY_CLOSE
    assert _run(state, *PULL_OBJECTS, *PULL_OBJECTS) is PullState.OBJECTS


def test_a_refused_pull_is_over() -> None:
    assert _run(PullState.START, PULL_REQUEST, PULL_ERR) is PullState.END


def test_a_push_goes_from_request_to_confirmation() -> None:
    uploading = _run(PushState.START, *PUSH_START, *PUSH_METADATA, *_objects())
    assert _run(uploading, ASK, RUNNING, RUNNING, ASK, RUNNING, DONE, *COMMIT) is PushState.END


def test_truncated_objects_are_followed_by_more() -> None:
    uploading = _run(PushState.START, *PUSH_START, *PUSH_METADATA, *_objects(is_truncated=True))
    assert _run(uploading, RUNNING, DONE) is PushState.OBJECTS
    assert _run(uploading, DONE, *_objects(), DONE, *COMMIT) is PushState.END


def test_a_push_without_blocks_goes_straight_to_commit() -> None:
    empty = m.DatasetPushMetadataRequest(new_blocks=EMPTY)
    assert _run(PushState.START, *PUSH_START, empty, PUSH_METADATA[1]) is PushState.COMMIT


@pytest.mark.parametrize(
    ("before", "error"),
    [
        ((PUSH_REQUEST,), m.DatasetPushResponse(result=m.InvalidHead())),
        ((*PUSH_START, PUSH_METADATA[0]), m.DatasetPushMetadataResponse(result=SEED_ERROR)),
        (
            (*PUSH_START, *PUSH_METADATA, _objects()[0]),
            m.DatasetPushObjectsTransferResponse(result=m.NameCollision(dataset_alias="a/b")),
        ),
    ],
    ids=["head moved", "other seed", "alias taken"],
)
def test_a_refused_push_is_over(before: Any, error: m.Message) -> None:
    assert _run(PushState.START, *before, error) is PushState.END


def test_no_progress_is_asked_for_once_the_uploads_are_complete() -> None:
    state = _run(PushState.START, *PUSH_START, *PUSH_METADATA, *_objects(), DONE)
    for message in (ASK, RUNNING, COMMIT[1]):
        with refusing("UnexpectedMessage"):
            advance(state, message)
    with refusing("UnexpectedMessage"):
        awaited(state, Side.SERVER)


def test_messages_of_the_other_flow_do_not_belong() -> None:
    with refusing("UnexpectedMessage") as refused:
        advance(PullState.START, PUSH_REQUEST)
    assert refused.value.facts == {"state": "start", "received": "DatasetPushRequest"}


def test_every_state_has_its_line_and_its_phase() -> None:
    states = {*PullState, *PushState}
    assert set(NEXT) == set(PHASES) == states


def test_from_each_side_at_most_one_kind_of_message_can_come() -> None:
    for line in NEXT.values():
        for side in Side:
            assert len({kind for kind, _ in line if SPEAKER[kind] is side}) <= 1


def test_every_state_is_reachable_and_every_end_is_final() -> None:
    reached = {PullState.START, PushState.START}
    for _ in NEXT:
        reached |= {after for state in reached for after in NEXT[state].values()}
    assert reached == {*PullState, *PushState}
    assert [state for state, line in NEXT.items() if not line] == [PullState.END, PushState.END]
