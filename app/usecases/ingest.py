"""Push ingest: check what can be checked at once, spool the body, leave the rest to a worker."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from protocol.chain.state import ChainState
from protocol.errors import BadInput
from protocol.identity import DatasetRef
from protocol.instant import Instant, MalformedInstant
from protocol.metadata.events import DatasetKind
from storage import ingest_job
from storage.ingest_job import IngestPayload
from storage.values import DatasetEntry, Job, JobId, JobSpec, ObjectKey, ObjectKind

from ..wiring import Node
from .formats import MEDIA_TYPES, UnsupportedMediaType, add_auto_source, takes_first_source
from .spool import spooled
from .uploads import FINISHED


class InvalidEventTime(BadInput):
    """The `odf-event-time` header is no RFC 3339 instant."""


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
    creates_source: bool = False


def check_ingest(node: Node, entry: DatasetEntry, request: IngestRequest) -> IngestRequest:
    """The request in canonical form, once nothing speaks against it before the body is read.

    With `creates_source` a dataset without a push source gets one for the media type.

    Raises:
        UnsupportedMediaType, InvalidEventTime, SourceNotUsable.
    """
    media_type = _media_type(request.media_type)
    event_time = parsed_event_time(request.event_time)
    state = node.stores.dataset(DatasetRef(id=entry.id)).state()
    source_name = request.source_name
    if request.creates_source and source_name is None and takes_first_source(state):
        source_name = add_auto_source(node, entry, media_type)
    else:
        _check_source(state, source_name)
    return IngestRequest(
        source_name=source_name,
        media_type=media_type,
        event_time=event_time,
        expected_head=request.expected_head,
        dry_run=request.dry_run,
        max_vanish_percent=request.max_vanish_percent,
    )


def _media_type(given: str | None) -> str | None:
    """Without parameters, in lower case: a documented extension of the reference."""
    if given is None or not given.strip():
        return None
    plain = given.partition(";")[0].strip().lower()
    if plain not in MEDIA_TYPES:
        raise UnsupportedMediaType(plain[:100])
    return plain


def parsed_event_time(given: str | None) -> str | None:
    """The `odf-event-time` header in canonical form. Raises `InvalidEventTime`."""
    if given is None:
        return None
    try:
        return str(Instant.parse(given.strip()))
    except MalformedInstant as broken:
        raise InvalidEventTime(f"odf-event-time: {broken.message}") from None


def _check_source(state: ChainState, name: str | None) -> None:
    """Exactly one push source must be meant. Texts as the reference has them."""
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


def spool(node: Node, entry: DatasetEntry, chunks: Iterable[bytes]) -> ObjectKey:
    """Keep a body as an `upload` object of the dataset, needed until `Uploads.done_with`.

    The hash names the object, so the body waits in a temporary file until it is known.
    """
    with spooled(node.settings.data, chunks) as body:
        key = ObjectKey(entry.id, ObjectKind.UPLOAD, body.hash)
        node.uploads.need(key)
        try:
            node.stores.objects.put(key, body.chunks())
        except BaseException:
            node.uploads.done_with(key)
            raise
    return key


def submit(node: Node, entry: DatasetEntry, request: IngestRequest, upload: ObjectKey) -> JobId:
    """Queue the batch behind others of the same dataset."""
    payload = IngestPayload(
        upload=str(upload.hash),
        source_name=request.source_name,
        media_type=request.media_type,
        source_event_time=request.event_time,
        expected_head=request.expected_head,
        dry_run=request.dry_run,
        max_vanish_percent=request.max_vanish_percent,
    )
    try:
        return node.stores.jobs.submit(
            JobSpec(ingest_job.KIND, entry.id, ingest_job.to_json(payload), lock=str(entry.id))
        )
    except BaseException:
        node.uploads.done_with(upload)
        raise


def look(node: Node, job: JobId, upload: ObjectKey) -> Job | None:
    """The job once it has ended, and its upload gone; else None."""
    found = node.stores.jobs.get(job)
    if found.status not in FINISHED:
        return None
    node.uploads.done_with(upload)
    return found
