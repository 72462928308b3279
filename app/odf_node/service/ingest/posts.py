"""Push ingest: check a post as far as possible without its rows, store its body, submit its job.

One code path handles n ≥ 1 posts. Posts with short bodies are taken together, and share a lookup in
the index and a transaction. A long body is read between these two steps, so its post is taken
alone.

The push source that the node creates for the first file of a dataset, by the file's format.

One lookup in the index for posts that are taken together: find datasets, authorize actors, check
sources.

Stored bodies of posts, which are deleted after their jobs have ended.

Each post has its own copy, because services and workers do not know of each other's posts of the
same bytes. If a service is killed, its uploads are deleted at the next start.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import cache, partial
from pathlib import Path
from typing import ParamSpec, TypeVar

from anyio import to_thread

from odf_protocol.chain.rules import author
from odf_protocol.chain.state import ChainState
from odf_protocol.errors import BadInput, NodeError
from odf_protocol.identity import DatasetId, DatasetRef
from odf_protocol.instant import NANOS, Instant
from odf_protocol.metadata.events import AddPushSource, DatasetKind
from odf_protocol.metadata.sources import MergeStrategyAppend
from odf_protocol.multihash import Multihash
from odf_protocol.trust.posts import PostSignature
from odf_storage.datasets.dataset.dataset import Dataset
from odf_storage.datasets.job_payloads import ingest_job
from odf_storage.datasets.job_payloads.ingest_job import IngestPayload
from odf_storage.datasets.node.reader import Reader
from odf_storage.datasets.node.stores import Stores
from odf_storage.runtime.clock import Clock
from odf_storage.runtime.logs import add_facts
from odf_storage.stores.index.sql_sizes import account_of
from odf_storage.stores.jobs.sql import JobQueue
from odf_storage.stores.ports import Objects
from odf_storage.stores.ports.errors import RefConflict
from odf_storage.stores.ports.values import (
    DatasetEntry,
    Job,
    JobSpec,
    ObjectKey,
    ObjectKind,
    RequestKey,
    Submitted,
)

from ..auth.access import Action, DatasetHidden, IsRemote, authorize
from ..auth.dataset_access import DatasetAccess
from ..http.answers import MEDIA_TYPES, unsupported_media_type
from ..http.multipart import Spooled
from ..http.parameters import request_key
from ..jobs.job_watch import FINISHED, Waiting
from ..limits.pressure import Pressure
from .asked import IngestRequest, check_source
from .content import Post, Posted

AUTO_SOURCE = "auto"
APPEND_ATTEMPTS = 5


def takes_first_source(state: ChainState) -> bool:
    """Return whether a first push source may be added: the dataset is a root without sources."""
    is_root = state.kind is not DatasetKind.Derivative
    return is_root and state.polling_source is None and not state.push_sources


def add_auto_source(
    datasets: Stores, clock: Clock, entry: DatasetEntry, media_type: str | None
) -> str:
    """Add a push source that reads the format and appends all rows; return its name.

    If another request added the source first, that one is used.

    Raises:
        UnsupportedMediaType, ChainRuleBroken.
        RefConflict: other writers moved the head at every attempt.
    """
    read = MEDIA_TYPES.get(media_type or "")
    if read is None:
        raise unsupported_media_type(media_type or "")
    event = AddPushSource(source_name=AUTO_SOURCE, read=read, merge=MergeStrategyAppend())
    dataset = datasets.dataset(DatasetRef(id=entry.id))
    for attempt in range(1, APPEND_ATTEMPTS + 1):
        head = dataset.head()
        state = dataset.state(head)
        if AUTO_SOURCE in state.push_sources:
            break
        now = clock()
        time = now if state.system_time is None else max(now, state.system_time)
        blocks, _ = author(state, (event,), system_time=time)
        try:
            dataset.commit(blocks, expected=head)
        except RefConflict:
            if attempt == APPEND_ATTEMPTS:
                raise
        else:
            break
    return AUTO_SOURCE


P = ParamSpec("P")
T = TypeVar("T")
KEPT_S = 5.0
"""Seconds for which the result of a check of a source is kept, because each check reads the chain,
which changes with every post. After a source is disabled, posts may be accepted for that long."""
MAX_SOURCES = 4096
Destination = tuple[DatasetEntry, NodeError | None]
"""The dataset of a post, and the error if no source of it accepts the post."""


class Destinations:
    """Finds the datasets of posts, and caches for some seconds which sources accept posts.

    It does not cache refusals, so a post is never refused because of outdated facts. A worker
    refuses a post to a source that was removed meanwhile.
    """

    def __init__(self, access: DatasetAccess, *, now: Callable[[], float] = time.monotonic) -> None:
        self._access, self._now = access, now
        self._takes: dict[tuple[DatasetId, str | None, bool], float] = {}

    def find(self, reader: Reader, posts: Sequence[Post]) -> list[Destination | Exception]:
        """Return for each post its dataset, or the error: `DatasetHidden`, `IsRemote` or an error
        of `authorize`."""
        entries = reader.registry.find_named({post.dataset for post in posts})
        mirrors = reader.mirrors.among({entry.id for entry in entries.values()})
        trouble = cache(partial(self._trouble, reader))

        def destination(post: Post) -> Destination:
            entry = entries.get(post.dataset)
            if entry is not None:
                post.work.run(add_facts, dataset=str(entry.id))
            try:
                entry = authorize(post.actor, entry, Action.WRITE, self._access.reads)
            except DatasetHidden:
                entry = None
            if entry is None:
                raise self._access.hidden(post.actor, post.dataset, reader.registry)
            if entry.id in mirrors:
                raise IsRemote
            return entry, trouble(entry.id, post.request.source_name, post.request.changelog)

        return [result_or_error(destination, post) for post in posts]

    def _trouble(
        self, reader: Reader, dataset: DatasetId, source: str | None, changelog: bool
    ) -> NodeError | None:
        """Return the error if the dataset has no such source, else None."""
        asked = (dataset, source, changelog)
        if self._now() < self._takes.get(asked, 0.0):
            return None
        try:
            check_source(reader.chain(dataset).state(), source, changelog=changelog)
        except NodeError as trouble:
            return trouble
        if len(self._takes) >= MAX_SOURCES:
            self._takes.clear()
        self._takes[asked] = self._now() + KEPT_S
        return None


def result_or_error(work: Callable[P, T], *given: P.args, **named: P.kwargs) -> T | Exception:
    """Call `work`, and return its result or its exception."""
    try:
        return work(*given, **named)
    except Exception as error:
        return error


SWEEP_PAGE = 500


class Uploads:
    """Deletes uploads that no job needs any more."""

    def __init__(self, objects: Objects) -> None:
        self._objects = objects

    def done_with(self, key: ObjectKey) -> None:
        """Delete the upload of a post."""
        self._objects.delete(key)

    def sweep(self, jobs: JobQueue) -> int:
        """Delete the uploads of jobs that have ended, unless other jobs need them. Return the
        number of uploads of ended jobs."""
        ended: set[ObjectKey] = set()
        waited_for: set[ObjectKey] = set()
        for job in _all_jobs(jobs):
            key = upload_of(job)
            if key is not None:
                (ended if job.status in FINISHED else waited_for).add(key)
        for key in ended - waited_for:
            self._objects.delete(key)
        return len(ended)


def upload_of(job: Job) -> ObjectKey | None:
    """Return the upload that an ingest job reads, None for other jobs."""
    if job.spec.kind != ingest_job.KIND or job.spec.dataset is None:
        return None
    try:
        return ingest_job.upload_of(job.spec.dataset, ingest_job.payload_of(job.spec.payload))
    except BadInput:
        return None


def _all_jobs(jobs: JobQueue) -> Iterator[Job]:
    after = None
    while page := jobs.page(after=after, limit=SWEEP_PAGE):
        yield from page
        after = page[-1].id


REQUEST_KEY_TTL_S = 86_400
"""Seconds a request is known by its Idempotency-Key."""

INLINE_BYTES = 64 * 1024
"""Limit in bytes up to which a body is stored in its job, because an object would cost more."""


@dataclass(frozen=True, slots=True)
class _Draft:
    """A job that is ready to be submitted."""

    spec: JobSpec
    key: RequestKey | None
    upload: ObjectKey | None


@dataclass(frozen=True)
class Posts:
    """Takes posts. Long bodies are kept in the folder `data` while they arrive."""

    stores: Stores
    destinations: Destinations
    pressure: Pressure
    uploads: Uploads
    data: Path
    key_ttl_s: int
    clock: Clock

    def take_one(self, post: Post) -> Posted:
        """Queue a batch behind others of the same dataset; a repeated request gets its first job.

        Raises:
            DatasetHidden, IsRemote, and the errors of `authorize`.
            UnsupportedMediaType, InvalidEventTime, NothingSetAside, SourceNotUsable.
            QueueFull, NodeBusy: too many jobs are waiting already.
            QuotaExceeded: a worker could store nothing of a large body.
            RequestKeyReused: the key was used for another request.
            The errors of opening and reading the content.
        """
        (posted,) = self.take([post])
        if isinstance(posted, Exception):
            raise posted
        return posted

    async def ended(self, posted: Posted, waiting: Waiting, patience: float | None) -> Job | None:
        """Return the job after it has ended and its upload is cleared away, or None when patience
        ends first."""
        ended = await waiting.watch.ended(posted.job, patience)
        if ended is not None and posted.upload is not None:
            await to_thread.run_sync(self.uploads.done_with, posted.upload)
        return ended

    def take(self, posts: Sequence[Post]) -> list[Posted | Exception]:
        """Do the same as `take_one` for each post. Return its result or its exception."""
        with self.stores.reading() as reader:
            destinations = self.destinations.find(reader, posts)
        drafts = [
            destination
            if isinstance(destination, Exception)
            else result_or_error(self._drafted, post, destination)
            for post, destination in zip(posts, destinations, strict=True)
        ]
        submitted = iter(self._submit([each for each in drafts if isinstance(each, _Draft)]))
        return [next(submitted) if isinstance(each, _Draft) else each for each in drafts]

    def _drafted(self, post: Post, destination: Destination) -> _Draft | Posted:
        return post.work.run(self._draft, post, *destination)

    def _draft(self, post: Post, entry: DatasetEntry, trouble: NodeError | None) -> _Draft | Posted:
        content = post.open()
        self.pressure.admit(entry.id, post.account)
        asked = post.asked(content)
        # A repeat gets its first job even if the source is gone, so a post with a key is checked
        # for repetition first.
        source = None if asked.key else self._source(entry, asked, trouble)
        with content.arrived(self.data) as body:
            asked = post.asked(content)
            if asked.signature is not None:
                PostSignature.parse(asked.signature).require(entry.id, body.hash)
            key = self._key(post, entry, asked, body.hash)
            if key is not None:
                if (known := self.stores.jobs.repeated(key)) is not None:
                    return Posted(known, repeated=True)
                source = self._source(entry, asked, trouble)
            small = b"".join(body.chunks()) if body.size <= INLINE_BYTES else None
            if small is None and not asked.changelog:  # a changelog may take rows back alone
                self.stores.quotas.require_room(account_of(entry.alias))
            upload = None if small is not None else self._kept(entry, body)
        payload = _payload(asked, source, body.hash, "" if upload is None else upload.copy)
        return _Draft(_spec(post, entry, payload, small), key, upload)

    def _source(
        self, entry: DatasetEntry, asked: IngestRequest, trouble: NodeError | None
    ) -> str | None:
        """Return the name of the source, None for the only one. Create a first source if the
        request allows it, else raise `trouble`."""
        if trouble is None:
            return asked.source_name
        first = asked.creates_source and asked.source_name is None
        if first and takes_first_source(Dataset(entry, self.stores).state()):
            return add_auto_source(self.stores, self.clock, entry, asked.media_type)
        raise trouble

    def _key(
        self, post: Post, entry: DatasetEntry, asked: IngestRequest, body: Multihash
    ) -> RequestKey | None:
        if asked.key is None:
            return None
        told = {**asdict(asked), "body": str(body)}
        if asked.on_bad_rows == "fail":  # keeps the hash of requests from before this parameter
            del told["on_bad_rows"], told["max_bad_rows"]
        if not asked.changelog:
            del told["changelog"]
        if not asked.add_columns:
            del told["add_columns"]
        if asked.signature is None:
            del told["signature"]
        until = Instant(self.clock().ns + self.key_ttl_s * NANOS)
        return request_key(entry, post.account, asked.key, told, until=until)

    def _kept(self, entry: DatasetEntry, body: Spooled) -> ObjectKey:
        upload = ObjectKey(entry.id, ObjectKind.UPLOAD, body.hash, secrets.token_hex(8))
        self.stores.objects.put(upload, body.chunks())
        return upload

    def _submit(self, drafts: Sequence[_Draft]) -> list[Posted | Exception]:
        answers: Sequence[Submitted | NodeError] = ()
        try:
            answers = self.stores.jobs.submit_all([(draft.spec, draft.key) for draft in drafts])
        finally:
            for draft in drafts[len(answers) :]:
                self._drop(draft)
        posted: list[Posted | Exception] = []
        for draft, answer in zip(drafts, answers, strict=True):
            if isinstance(answer, Submitted):
                posted.append(Posted(answer.job, draft.upload, answer.repeated))
            else:
                self._drop(draft)
                posted.append(answer)
        return posted

    def _drop(self, draft: _Draft) -> None:
        if draft.upload is not None:
            self.uploads.done_with(draft.upload)


def _spec(post: Post, entry: DatasetEntry, payload: IngestPayload, small: bytes | None) -> JobSpec:
    """Return the job of a batch. A small body is stored in it."""
    return JobSpec(
        ingest_job.KIND,
        entry.id,
        ingest_job.to_json(payload),
        lock=str(entry.id),
        account=post.account or None,
        body=small,
    )


def _payload(asked: IngestRequest, source: str | None, body: Multihash, copy: str) -> IngestPayload:
    return IngestPayload(
        upload=str(body),
        upload_copy=copy,
        source_name=source,
        changelog=asked.changelog,
        add_columns=asked.add_columns,
        media_type=asked.media_type,
        source_event_time=asked.event_time,
        expected_head=asked.expected_head,
        dry_run=asked.dry_run,
        max_vanish_percent=asked.max_vanish_percent,
        on_bad_rows=asked.on_bad_rows,
        max_bad_rows=asked.max_bad_rows,
        signature=asked.signature,
    )
