"""Push ingest: check a post as far as possible without its rows, store its body, submit its job.

One code path handles n ≥ 1 posts. Posts with short bodies are taken together, and share a lookup in
the index and a transaction. A long body is read between these two steps, so its post is taken
alone.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from odf_protocol.errors import NodeError
from odf_protocol.instant import NANOS, Instant
from odf_protocol.multihash import Multihash
from odf_storage.datasets.dataset.dataset import Dataset
from odf_storage.datasets.job_payloads import ingest_job
from odf_storage.datasets.job_payloads.ingest_job import IngestPayload
from odf_storage.datasets.node.stores import Stores
from odf_storage.runtime.clock import Clock
from odf_storage.stores.ports.values import (
    DatasetEntry,
    JobSpec,
    ObjectKey,
    ObjectKind,
    RequestKey,
    Submitted,
)

from ..http.request_keys import request_key
from ..http.spool import Spooled
from ..limits.pressure import Pressure
from .asked import IngestRequest
from .auto_source import add_auto_source, takes_first_source
from .destinations import Destination, Destinations, result_or_error
from .post import Post, Posted
from .uploads import Uploads

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
            RequestKeyReused: the key was used for another request.
            The errors of opening and reading the content.
        """
        (posted,) = self.take([post])
        if isinstance(posted, Exception):
            raise posted
        return posted

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
            key = self._key(post, entry, asked, body.hash)
            if key is not None:
                if (known := self.stores.jobs.repeated(key)) is not None:
                    return Posted(known, repeated=True)
                source = self._source(entry, asked, trouble)
            small = b"".join(body.chunks()) if body.size <= INLINE_BYTES else None
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
    )
