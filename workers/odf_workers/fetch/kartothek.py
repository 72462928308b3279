"""Kartothek tables as sources: each fetch reads one state file, which determines the data files.

If a data file is missing, the writer has collected it meanwhile: the state file is read once more.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from urllib.parse import unquote, urlsplit

from odf_protocol.attributes import MalformedAttributes
from odf_protocol.kartothek.errors import KartothekFileMissing, MalformedState
from odf_protocol.kartothek.source import (
    SourceAddress,
    check_source,
    file_list,
    parse_address,
    state_of,
)
from odf_protocol.metadata.reading import MergeStrategyLedger
from odf_protocol.metadata.sources import EventTimeSourceFromSystemTime, FetchStepUrl
from odf_storage.datasets.kartothek.tables import Table, open_table
from odf_storage.stores.keyed.folder import FolderKeyedStore
from odf_storage.stores.ports import KeyedReads

from ..readers.table_files import TableFile, TableFiles
from .files import allowed_folder
from .http import checked, client_of, parsed
from .http_store import HttpKeyedStore
from .table_copies import copied
from .templates import expand
from .values import (
    ETAG,
    Deadline,
    Fetched,
    FetchRequest,
    MalformedSource,
    SourceRefused,
    SourceUnreachable,
    state,
)
from .written import HIDDEN, saying

TRIES = 2
"""Attempts in one poll, each with its own state file."""


def fetch_kartothek(step: FetchStepUrl, url: str, request: FetchRequest) -> Fetched | None:
    """Return the data files of a table, or None if it has the same files as the state.

    Raises:
        UnfitSource, MalformedAddress: the definition cannot be polled.
        SourceRefused, SourceMissing, SourceUnreachable: the store cannot be read.
        BadKartothek, KartothekFileMissing, NoKartothek: the content is wrong; the error names key
            and reason.
    """
    if request.source is not None:
        check_source(request.source)
    address = parse_address(url)
    hidden = [text for text in (address.uuid, address.table) if text and text not in step.url]
    deadline = Deadline(request.rules)
    with (
        saying(hidden, is_template="${{" in step.url),
        STORES[address.scheme.partition("+")[0]](address, step, request, deadline) as store,
    ):
        for attempt in range(1, TRIES + 1):
            try:
                table = open_table(store, address.uuid, address.table)
                return _fetched(table, step, request, deadline, hidden)
            except KartothekFileMissing:
                if attempt == TRIES:
                    raise
    raise AssertionError("unreachable: the loop returns or raises")


def _fetched(
    table: Table,
    step: FetchStepUrl,
    request: FetchRequest,
    deadline: Deadline,
    hidden: Sequence[str],
) -> Fetched | None:
    pairs = [(each.label, each.key) for each in table.partitions]
    try:
        listed = file_list(table.name, table.partition_keys, pairs, table.schema)
    except MalformedAttributes:
        raise MalformedState(table.found.key, "a label in it is no Unicode text") from None
    value = state_of(listed)
    if request.state_of(ETAG) == value:
        return None
    known = _known(request)
    wanted = [each for each in table.partitions if (each.label, each.key) not in known]
    files = copied(table, sorted(wanted, key=lambda each: each.label), request, deadline)
    if request.rules.lists is not None:
        request.rules.lists.keep(listed)
    from_clock = isinstance(step.event_time, EventTimeSourceFromSystemTime)
    modified = table.found.content.modified
    return Fetched(
        path=request.folder,
        table=TableFiles(tuple(_shown(each, hidden) for each in files)),
        state=state(ETAG, value),
        event_time=request.system_time if from_clock else modified,
    )


def _known(request: FetchRequest) -> frozenset[tuple[str, str]]:
    """Return the files that need not be read again: a Ledger has their rows; other merges compare
    all."""
    source, lists = request.source, request.rules.lists
    if lists is None or source is None or not isinstance(source.merge, MergeStrategyLedger):
        return frozenset()
    return lists.of(request.state_of(ETAG))


def _shown(file: TableFile, hidden: Sequence[str]) -> TableFile:
    """Return the file with a key that may appear in errors."""
    key = file.part.key
    for text in hidden:
        key = key.replace(text, HIDDEN)
    return replace(file, part=replace(file.part, key=key))


@contextmanager
def _folder(
    address: SourceAddress,
    step: FetchStepUrl,  # noqa: ARG001
    request: FetchRequest,
    deadline: Deadline,  # noqa: ARG001
) -> Iterator[KeyedReads]:
    parts = urlsplit(address.store)
    if parts.netloc not in ("", "localhost"):
        raise MalformedSource("a file address names a local path: kartothek+file:///path/uuid")
    path = allowed_folder(Path(unquote(parts.path) or "/"), request.rules)
    try:
        yield FolderKeyedStore(path)
    except PermissionError as bad:
        raise SourceUnreachable(f"a file of the source cannot be read ({bad.strerror})") from None


@contextmanager
def _bucket(
    address: SourceAddress,
    step: FetchStepUrl,  # noqa: ARG001
    request: FetchRequest,
    deadline: Deadline,  # noqa: ARG001
) -> Iterator[KeyedReads]:
    from odf_storage.stores.keyed.bucket import BucketKeyedStore  # boto3 is slow to import
    from odf_storage.stores.objects.s3_bucket import (
        Bucket,
        S3Location,
        StoreMisconfigured,
        StoreUnavailable,
    )

    place = S3Location.parse(address.store)
    allowed = [S3Location.parse(each) for each in request.rules.buckets]
    if not any(
        (place.endpoint, place.bucket) == (each.endpoint, each.bucket)
        and place.prefix.startswith(each.prefix)
        for each in allowed
    ):
        raise SourceRefused(
            "the source is in a bucket that this node does not read; its administrator can allow "
            "a bucket, or a prefix in one",
            setting="ODF_WORKER_FETCH_BUCKETS",
        )
    try:
        yield BucketKeyedStore(Bucket(place))
    except (StoreUnavailable, StoreMisconfigured) as bad:
        raise SourceUnreachable(f"the bucket of the source: {bad.message}") from bad


@contextmanager
def _web(
    address: SourceAddress, step: FetchStepUrl, request: FetchRequest, deadline: Deadline
) -> Iterator[KeyedReads]:
    variables = request.rules.variables
    headers = {header.name: expand(header.value, variables) for header in step.headers or ()}
    parsed(address.store)
    with client_of(request.rules) as client:
        yield HttpKeyedStore(
            client,
            address.store,
            checked(headers),
            request.rules,
            deadline=deadline,
            folder=request.folder,
            now=request.system_time,
        )


STORES = {"file": _folder, "s3": _bucket, "http": _web, "https": _web}
"""By the scheme of the store, without the part after a plus."""
