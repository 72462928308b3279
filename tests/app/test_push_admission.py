"""A node that validates pushed executions: nothing counts before a worker made it again."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pytest
from damaged import DatasetMaker
from raw_peer import bundled, files_of, head_of, named, push, talking, upload
from service import Service, serving

from odf_protocol.codec.blocks import decode_block
from odf_protocol.identity import DatasetRef
from odf_protocol.metadata.events import DatasetKind, HashedBlock
from odf_protocol.multihash import Multihash
from odf_storage.datasets.job_payloads import verify_job
from odf_storage.datasets.job_payloads.verify_job import VerifyAnswer
from odf_storage.stores.ports.values import Failed, Job, JobOutcome, ObjectKind, Succeeded

EVENTS = ["Seed", "SetTransform", "SetDataSchema", "ExecuteTransform", "ExecuteTransform"]
REFUSED = Failed(
    "NotValidated",
    "block 4 was not validated: DataNotReproducible: …",
    {"kind": "DataNotReproducible", "block": "f1620", "sequence_number": 4},
)


@dataclass
class Pushed:
    """A derivative as `raw_peer` takes it."""

    blocks: list[HashedBlock]
    objects: dict[tuple[ObjectKind, Multihash], bytes] = field(default_factory=dict)


@pytest.fixture
def made() -> Pushed:
    maker = DatasetMaker(DatasetKind.Derivative).play(EVENTS)
    objects = {k: v for k, v in maker.source.objects.items() if k[0] is not ObjectKind.BLOCK}
    return Pushed(maker.blocks, objects)


@contextmanager
def served(folder: Path, **settings: Any) -> Iterator[Service]:
    given = {"poll_s": 0.05, "validate_pushed_derivatives": True, **settings}
    with serving(folder, **given) as service:
        yield service


@contextmanager
def working(service: Service, outcome: Callable[[Job], JobOutcome]) -> Iterator[list[Job]]:
    seen: list[Job] = []
    stop, jobs = Event(), service.node.stores.jobs

    def work() -> None:
        while not stop.wait(0.01):
            job = jobs.claim("w", [verify_job.KIND], lease=timedelta(seconds=30))
            if job is not None:
                seen.append(job)
                jobs.finish(job.id, "w", outcome(job))

    thread = Thread(target=work, daemon=True)
    thread.start()
    try:
        yield seen
    finally:
        stop.set()
        thread.join()


def letting_in(service: Service) -> Callable[[Job], JobOutcome]:
    """What a worker does with blocks that it found valid."""

    def done(job: Job) -> JobOutcome:
        payload = verify_job.payload_of(job.spec.payload)
        dataset = service.node.stores.dataset(DatasetRef.parse(str(job.spec.dataset)))
        blocks: list[HashedBlock] = []
        following: Multihash | None = Multihash.parse(str(payload.candidate))
        while following is not None and following != dataset.head():
            with dataset.open_object(ObjectKind.BLOCK, following) as stream:
                blocks.append(decode_block(stream.read()))
            following = blocks[-1].prev
        dataset.commit(blocks[::-1], expected=Multihash.parse(str(payload.expected)))
        head = str(payload.candidate)
        return Succeeded(verify_job.to_json(VerifyAnswer(ok=True, head=head, datasets=())))

    return done


def test_valid_executions_are_in_when_the_push_is_confirmed(tmp_path: Path, made: Pushed) -> None:
    with served(tmp_path) as service, working(service, letting_in(service)) as seen:
        push(service, "/tens", made, service.token())
        assert head_of(service, "/tens") == str(made.blocks[-1].hash)
    [job] = seen
    payload = verify_job.payload_of(job.spec.payload)
    assert payload.candidate == str(made.blocks[-1].hash)
    assert payload.expected == str(made.blocks[0].hash)
    assert job.spec.lock == str(job.spec.dataset)


def refused(service: Service, made: Pushed) -> str:
    """The reason in the Close frame of a push."""
    with talking(service, "/tens/push", service.token()) as peer:
        assert peer.request_push(None, len(made.blocks)) == {"Ok": {}}
        assert peer.ask(bundled(named(made.blocks))) == {"Ok": {}}
        upload(peer.ask({"object_files": files_of(made), "is_truncated": False}), made)
        peer.say({"details": "Complete"})
        peer.say({})
        code, reason = peer.close_frame()
    assert code == 1011
    message = json.loads(reason)["Err"]["Internal"]
    return str(message.get("error_message", message.get("errorMessage")))


def test_executions_that_are_not_reproduced_never_count_and_the_peer_is_told_why(
    tmp_path: Path, made: Pushed
) -> None:
    with served(tmp_path) as service, working(service, lambda _: REFUSED):
        assert refused(service, made) == "not validated: block 4: DataNotReproducible"
        assert head_of(service, "/tens") == str(made.blocks[0].hash)


@pytest.mark.parametrize(
    ("failed", "reason"),
    [
        (
            Failed("RefConflict", "expected head a, found b", {"expected": "a", "actual": "b"}),
            "the head was moved by somebody else: push again",
        ),
        (
            Failed("ObjectMissing", "block x names …", {"kind": "data", "block": "x"}),
            "not validated: ObjectMissing",
        ),
        (Failed("JobAbandoned", "the job was given up"), "not validated: JobAbandoned"),
    ],
    ids=lambda value: value.error if isinstance(value, Failed) else "",
)
def test_other_ends_of_a_validation_are_told_by_their_names(
    tmp_path: Path, made: Pushed, failed: Failed, reason: str
) -> None:
    with served(tmp_path) as service, working(service, lambda _: failed):
        assert refused(service, made) == reason
        assert head_of(service, "/tens") == str(made.blocks[0].hash)


def test_a_push_that_waits_too_long_is_told_to_come_back_and_finds_its_blocks_in(
    tmp_path: Path, made: Pushed
) -> None:
    with served(tmp_path, validation_wait_s=0.05) as service:
        assert refused(service, made) == "still being validated: push again later"
        [waiting] = service.node.stores.jobs.page()
        with working(service, letting_in(service)):
            while head_of(service, "/tens") != str(made.blocks[-1].hash):
                time.sleep(0.01)
        assert service.node.stores.jobs.get(waiting.id).outcome is not None
        with talking(service, "/tens/push", service.token()) as peer:
            answer = peer.request_push(made.blocks[-1].hash, 0)
            assert answer == {"Ok": {}}


def test_definitions_and_nodes_without_the_policy_wait_for_nobody(
    tmp_path: Path, made: Pushed
) -> None:
    with served(tmp_path / "a") as service:
        push(service, "/tens", Pushed(made.blocks[:3]), service.token())
        assert head_of(service, "/tens") == str(made.blocks[2].hash)
    with served(tmp_path / "b", validate_pushed_derivatives=False) as service:
        push(service, "/tens", made, service.token())
        assert head_of(service, "/tens") == str(made.blocks[-1].hash)
