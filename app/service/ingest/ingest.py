"""Push ingest: check what can be checked at once, keep the body, leave the rest to a worker."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from odf_node.protocol.chain.state import ChainState
from odf_node.protocol.errors import BadInput
from odf_node.protocol.instant import NANOS, Instant
from odf_node.protocol.metadata.events import DatasetKind
from odf_node.protocol.multihash import Multihash
from odf_node.storage.datasets.dataset.dataset import Dataset
from odf_node.storage.datasets.job_payloads import ingest_job
from odf_node.storage.datasets.job_payloads.ingest_job import IngestPayload, OnBadRows
from odf_node.storage.datasets.node.stores import Stores
from odf_node.storage.runtime.clock import Clock
from odf_node.storage.stores.ports.values import (
    AccountId,
    DatasetEntry,
    JobId,
    JobSpec,
    ObjectKey,
    ObjectKind,
    RequestKey,
)

from ..auth.actors import Actor
from ..http.event_time import parsed_event_time
from ..http.media_types import MEDIA_TYPES, UnsupportedMediaType
from ..http.request_keys import request_key
from ..http.spool import spooled
from ..limits.pressure import Pressure
from .auto_source import add_auto_source, takes_first_source
from .uploads import Uploads

INLINE_BYTES = 64 * 1024
"""Bodies up to this travel in their job: an object of their own costs more."""
UNTOLD = frozenset({"application/x-www-form-urlencoded", "application/octet-stream"})
"""What clients say that were not told what they send: the source's own format counts."""


class NothingSetAside(BadInput):
    """A limit of bad rows that are set aside, where none are."""

    def __init__(self) -> None:
        super().__init__(
            "maxBadRows limits the rows that onBadRows=quarantine sets aside; without it one bad "
            "row fails the batch",
            parameter="maxBadRows",
        )


class SourceNotUsable(BadInput):
    """The dataset has no push source that this request could mean."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IngestRequest:
    """What a publisher asks for, beside the body."""

    source_name: str | None = None
    media_type: str | None = None
    event_time: str | None = None
    expected_head: str | None = None
    dry_run: bool = False
    max_vanish_percent: int | None = None
    on_bad_rows: OnBadRows = "fail"
    max_bad_rows: int | None = None
    key: str | None = None
    creates_source: bool = False

    def canonical(self) -> IngestRequest:
        """Times and media type in the form they are compared by.

        Raises:
            UnsupportedMediaType, InvalidEventTime, NothingSetAside.
        """
        if self.max_bad_rows is not None and self.on_bad_rows == "fail":
            raise NothingSetAside
        return replace(
            self,
            media_type=_media_type(self.media_type),
            event_time=parsed_event_time(self.event_time),
        )


class Content:
    """A body to be read once. What it is may show only while it is read."""

    def __init__(self, chunks: Iterable[bytes], media_type: str | None) -> None:
        self.chunks, self.media_type = chunks, media_type


@dataclass(frozen=True, slots=True)
class Posted:
    """A batch that has a job. `upload` is to be cleared away once that has ended."""

    job: JobId
    upload: ObjectKey | None = None
    repeated: bool = False


@dataclass(frozen=True)
class Ingesting:
    """What batches are queued with, and where their bodies are meanwhile."""

    stores: Stores
    pressure: Pressure
    uploads: Uploads
    data: Path
    """The folder that bodies are spooled in."""
    key_ttl_s: int
    clock: Clock


def post(
    ingesting: Ingesting,
    actor: Actor,
    entry: DatasetEntry,
    request: IngestRequest,
    content: Content,
) -> Posted:
    """Queue a batch behind others of the same dataset; a repeated request gets its first job.

    Raises:
        UnsupportedMediaType, InvalidEventTime, NothingSetAside, SourceNotUsable.
        QueueFull, NodeBusy: too much is waiting already.
        RequestKeyReused: the key was used for something else.
        What reading the content raises.
    """
    account = actor.account.id if actor.account is not None else AccountId("")
    ingesting.pressure.admit(entry.id, account)
    asked = replace(request, media_type=content.media_type).canonical()
    # A repeat is answered whatever has become of the source; who has no key cannot be one.
    resolved = None if request.key else resolve_source(ingesting, entry, asked)
    with spooled(ingesting.data, content.chunks) as body:
        asked = replace(request, media_type=content.media_type).canonical()
        key = _key(ingesting, entry, account, asked, body.hash)
        if key is not None and (known := ingesting.stores.jobs.repeated(key)) is not None:
            return Posted(known, repeated=True)
        resolved = resolve_source(ingesting, entry, asked) if resolved is None else resolved
        resolved = replace(resolved, media_type=asked.media_type)
        small = b"".join(body.chunks()) if body.size <= INLINE_BYTES else None
        spec = spec_of(entry, account, resolved, body.hash, small)
        if small is not None:
            return _submitted(ingesting, spec, key)
        upload = ObjectKey(entry.id, ObjectKind.UPLOAD, body.hash)
        ingesting.uploads.need(upload)
        try:
            ingesting.stores.objects.put(upload, body.chunks())
            return replace(_submitted(ingesting, spec, key), upload=upload)
        except BaseException:
            ingesting.uploads.done_with(upload)
            raise


def _submitted(ingesting: Ingesting, spec: JobSpec, key: RequestKey | None) -> Posted:
    """A new job; or that of the same request, which came at the same time and was first."""
    if key is None:
        return Posted(ingesting.stores.jobs.submit(spec))
    submitted = ingesting.stores.jobs.submit_request(spec, key)
    return Posted(submitted.job, repeated=submitted.repeated)


def spec_of(
    entry: DatasetEntry,
    account: AccountId,
    resolved: IngestRequest,
    body: Multihash,
    small: bytes | None,
) -> JobSpec:
    """The job of a batch; a small body travels in it."""
    return JobSpec(
        ingest_job.KIND,
        entry.id,
        ingest_job.to_json(_payload(resolved, body)),
        lock=str(entry.id),
        account=account or None,
        body=small,
    )


def resolve_source(
    ingesting: Ingesting, entry: DatasetEntry, request: IngestRequest
) -> IngestRequest:
    """The request, once a source is meant; with `creates_source` the first one is made.

    Raises:
        SourceNotUsable, UnsupportedMediaType.
    """
    state = Dataset(entry, ingesting.stores).state()
    if request.creates_source and request.source_name is None and takes_first_source(state):
        made = add_auto_source(ingesting.stores, ingesting.clock, entry, request.media_type)
        return replace(request, source_name=made)
    check_source(state, request.source_name)
    return request


def _key(
    ingesting: Ingesting,
    entry: DatasetEntry,
    account: AccountId,
    asked: IngestRequest,
    body: Multihash,
) -> RequestKey | None:
    if asked.key is None:
        return None
    told = {**asdict(asked), "body": str(body)}
    if asked.on_bad_rows == "fail":  # told as it was before there was anything else
        del told["on_bad_rows"], told["max_bad_rows"]
    until = Instant(ingesting.clock().ns + ingesting.key_ttl_s * NANOS)
    return request_key(entry, account, asked.key, told, until=until)


def _payload(request: IngestRequest, body: Multihash) -> IngestPayload:
    return IngestPayload(
        upload=str(body),
        source_name=request.source_name,
        media_type=request.media_type,
        source_event_time=request.event_time,
        expected_head=request.expected_head,
        dry_run=request.dry_run,
        max_vanish_percent=request.max_vanish_percent,
        on_bad_rows=request.on_bad_rows,
        max_bad_rows=request.max_bad_rows,
    )


def _media_type(given: str | None) -> str | None:
    """Without parameters, in lower case: a documented extension of the reference."""
    if given is None or not given.strip():
        return None
    plain = given.partition(";")[0].strip().lower()
    if plain in UNTOLD:
        return None
    if plain not in MEDIA_TYPES:
        raise UnsupportedMediaType(plain[:100])
    return plain


def check_source(state: ChainState, name: str | None) -> None:
    """Exactly one push source must be meant. Texts as the reference has them.

    Raises:
        SourceNotUsable.
    """
    if state.kind is DatasetKind.Derivative:
        raise SourceNotUsable("Derivative datasets compute their data; only a root takes data")
    if state.polling_source is not None:
        raise SourceNotUsable("Dataset polls its data; disable the polling source to push")
    sources = state.push_sources
    if name is not None and name not in sources:
        raise SourceNotUsable(f"Source '{name[:200]}' not found", active=sorted(sources))
    if name is None and not sources:
        raise SourceNotUsable(
            "Dataset does not define a default push source, consider specifying the source name"
        )
    if name is None and len(sources) > 1:
        raise SourceNotUsable(
            "Explicit source name is required to pick between several active push sources",
            active=sorted(sources),
        )
