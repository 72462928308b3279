"""The parameters of an ingest request, read from its query and headers.

Selection of the push source of a dataset that accepts a batch.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from pydantic import BaseModel, ConfigDict, Field
from starlette.types import Scope

from odf_protocol.chain.state import ChainState
from odf_protocol.errors import BadInput
from odf_protocol.metadata.events import DatasetKind
from odf_storage.datasets.job_payloads.ingest_job import OnBadRows

from ..auth.signed_urls import MAX_UPLOAD_TOKEN_CHARS
from ..http.answers import MEDIA_TYPES, unsupported_media_type
from ..http.parameters import parse_key, parsed_event_time, query_of


def check_source(state: ChainState, name: str | None, *, changelog: bool = False) -> None:
    """Check that the name selects exactly one push source. The messages are those of the
    reference. A changelog needs no source, but a dataset that has rows.

    Raises:
        SourceNotUsable.
    """
    if state.kind is DatasetKind.Derivative:
        raise BadInput(
            "SourceNotUsable", "Derivative datasets compute their data; only a root takes data"
        )
    if changelog:
        if state.schema is None:
            raise BadInput(
                "SourceNotUsable", "Dataset has no rows yet, so there is nothing to correct"
            )
        return
    if state.polling_source is not None:
        raise BadInput(
            "SourceNotUsable", "Dataset polls its data; disable the polling source to push"
        )
    sources = state.push_sources
    if name is not None and name not in sources:
        raise BadInput(
            "SourceNotUsable", f"Source '{name[:200]}' not found", active=sorted(sources)
        )
    if name is None and not sources:
        raise BadInput(
            "SourceNotUsable",
            "Dataset does not define a default push source, consider specifying the source name",
        )
    if name is None and len(sources) > 1:
        raise BadInput(
            "SourceNotUsable",
            "Explicit source name is required to pick between several active push sources",
            active=sorted(sources),
        )


FORM = "multipart/form-data"
UNTOLD = frozenset({"application/x-www-form-urlencoded", "application/octet-stream"})
"""Content types that clients send by default. They say nothing about the format, so the format of
the source applies."""
_HEADERS = frozenset(
    (
        b"content-type",
        b"content-length",
        b"content-encoding",
        b"idempotency-key",
        b"odf-event-time",
        b"odf-signature",
        b"prefer",
    )
)


class IngestQuery(BaseModel):
    """The query parameters."""

    model_config = ConfigDict(frozen=True)
    source_name: str | None = Field(None, alias="sourceName", max_length=1000)
    changelog: bool = False
    add_columns: bool = Field(False, alias="addColumns")
    upload_token: str | None = Field(None, alias="uploadToken", max_length=MAX_UPLOAD_TOKEN_CHARS)
    expected_head: str | None = Field(None, alias="expectedHead", max_length=200)
    dry_run: bool = Field(False, alias="dryRun")
    max_vanish_percent: int | None = Field(None, alias="maxVanishPercent", ge=0, le=100)
    on_bad_rows: OnBadRows = Field("fail", alias="onBadRows")
    max_bad_rows: int | None = Field(None, alias="maxBadRows", ge=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class IngestRequest:
    """The parameters of an ingest request, without its body."""

    source_name: str | None = None
    changelog: bool = False
    """Whether the rows are a changelog of the dataset's own columns."""
    add_columns: bool = False
    """Whether columns that the dataset lacks extend its schema."""
    media_type: str | None = None
    event_time: str | None = None
    expected_head: str | None = None
    dry_run: bool = False
    max_vanish_percent: int | None = None
    on_bad_rows: OnBadRows = "fail"
    max_bad_rows: int | None = None
    key: str | None = None
    signature: str | None = None
    """The publisher's, of the body (`odf_protocol/trust/posts.py`)."""
    creates_source: bool = False
    """Whether a dataset without any push source gets one."""

    def canonical(self) -> IngestRequest:
        """Return the request with event time and media type in canonical form.

        Raises:
            UnsupportedMediaType, InvalidEventTime, NothingSetAside, SourceOfChangelog,
            ColumnsOfChangelog.
        """
        if self.changelog and self.source_name is not None:
            raise BadInput(
                "SourceOfChangelog",
                "changelog=true is about the columns of the dataset, whatever its sources are: "
                "leave out sourceName",
                parameter="changelog",
            )
        if self.changelog and self.add_columns:
            raise BadInput(
                "ColumnsOfChangelog",
                "changelog=true is about rows with the columns of the dataset, so it adds none: "
                "leave out addColumns",
                parameter="addColumns",
            )
        if self.max_bad_rows is not None and self.on_bad_rows == "fail":
            raise BadInput(
                "NothingSetAside",
                "maxBadRows limits the rows that onBadRows=quarantine sets aside; without it one "
                "bad row fails the batch",
                parameter="maxBadRows",
            )
        return replace(
            self,
            media_type=_media_type(self.media_type),
            event_time=parsed_event_time(self.event_time),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """An ingest request, and how its body is sent. `length` is the Content-Length in bytes, if
    the client sent one."""

    request: IngestRequest
    upload_token: str | None
    media_type: str | None
    encoding: str
    length: int | None
    prefer: str

    @property
    def is_form(self) -> bool:
        return (self.media_type or "").lower().startswith(FORM)


def asked_of(scope: Scope) -> Asked:
    """Read the request from the ASGI scope.

    Raises:
        UnknownParameter, InvalidRequest, MalformedRequestKey.
    """
    query = query_of(IngestQuery, scope)
    headers: dict[bytes, str] = {}
    for name, value in scope["headers"]:
        if name in _HEADERS:
            headers.setdefault(name, value.decode("latin-1"))
    length = headers.get(b"content-length", "")
    return Asked(
        request=IngestRequest(
            source_name=query.source_name,
            changelog=query.changelog,
            add_columns=query.add_columns,
            event_time=headers.get(b"odf-event-time"),
            expected_head=query.expected_head,
            dry_run=query.dry_run,
            max_vanish_percent=query.max_vanish_percent,
            on_bad_rows=query.on_bad_rows,
            max_bad_rows=query.max_bad_rows,
            key=parse_key(headers.get(b"idempotency-key")),
            signature=headers.get(b"odf-signature"),
            creates_source=query.upload_token is not None
            and not (query.dry_run or query.changelog),
        ),
        upload_token=query.upload_token,
        media_type=headers.get(b"content-type"),
        encoding=headers.get(b"content-encoding", ""),
        length=int(length) if length.isdigit() and len(length) < 20 else None,
        prefer=headers.get(b"prefer", ""),
    )


def _media_type(given: str | None) -> str | None:
    """Return the media type without parameters, in lower case, None if it says nothing about the
    format. The reference does not normalize it; this extension is documented."""
    if given is None or not given.strip():
        return None
    plain = given.partition(";")[0].strip().lower()
    if plain in UNTOLD:
        return None
    if plain not in MEDIA_TYPES:
        raise unsupported_media_type(plain[:100])
    return plain
