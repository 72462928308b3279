"""Kartothek tables as sources: each fetch reads one state file, which determines the data files.

If a data file is missing, the writer has collected it meanwhile: the state file is read once more.

Copy the data files of a table: several in parallel, with a common limit of bytes.

Copies are numbered in the order of the partitions, whichever is finished first.

Files on a web server, by key: a read-only keyed store that cannot list its keys.

A percent sign in a key is encoded again for the URL. The checks of other fetches apply to every
request.
"""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import CancelledError, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from threading import Lock
from typing import BinaryIO
from urllib.parse import quote, unquote, urlsplit

import httpx
import pyarrow.parquet as pq

from odf_protocol.errors import BadInput, LimitExceeded, RemoteFailed
from odf_protocol.instant import Instant
from odf_protocol.kartothek.keys import BadKartothek, KartothekFileMissing
from odf_protocol.kartothek.source import (
    SourceAddress,
    check_source,
    file_list,
    parse_address,
    state_of,
)
from odf_protocol.metadata.attributes import MalformedAttributes
from odf_protocol.metadata.sources import (
    EventTimeSourceFromSystemTime,
    FetchStepUrl,
    MergeStrategyLedger,
)
from odf_storage.datasets.kartothek.rows import open_partition
from odf_storage.datasets.kartothek.select import Partition, SelectedTable, open_table
from odf_storage.stores.keyed.folder import FolderKeyedStore
from odf_storage.stores.ports import KeyedReads
from odf_storage.stores.ports.errors import (
    KeyedFileTooLarge,
    KeyNotFound,
    KeyRefused,
    keys_not_listed,
)
from odf_storage.stores.ports.keyed import KeyedContent, KeyInfo

from ..readers.formats.plain import PlainTables, TableFile, TablePart
from .files import CHUNK_BYTES, allowed_folder
from .http import answered, body_of, client_of, headers_of, http_time, parsed
from .values import (
    ETAG,
    HIDDEN,
    Deadline,
    Fetched,
    FetchRequest,
    FetchRules,
    check_size,
    saying,
    spooled,
    state,
)


class _Total:
    """Bytes of all files together, and whether copying has ended."""

    def __init__(self, rules: FetchRules) -> None:
        self._rules, self._lock, self._bytes = rules, Lock(), 0
        self.is_over = False

    def chunks(self, stream: BinaryIO) -> Iterator[bytes]:
        """Yield the bytes of a file. Raises `FetchedTooLarge`, and `CancelledError` once copying
        has ended."""
        while chunk := stream.read(CHUNK_BYTES):
            if self.is_over:
                raise CancelledError
            with self._lock:
                self._bytes += len(chunk)
                check_size(self._bytes, self._rules)
            yield chunk


def copied(
    table: SelectedTable, partitions: Sequence[Partition], request: FetchRequest, deadline: Deadline
) -> list[TableFile]:
    """Copy data files into the folder of the request; a table without rows becomes one file without
    rows.

    Raises:
        TooManyFiles, FetchedTooLarge, SourceUnreachable: a limit of number, size or time.
        KartothekFileMissing: the first missing file.
    """
    rules = request.rules
    if len(partitions) > rules.max_files:
        raise LimitExceeded(
            "TooManyFiles",
            f"the table has {len(partitions)} new data files, more than the {rules.max_files} "
            "that one poll takes",
            limit="max_fetched_files",
            value=rules.max_files,
        )
    if not partitions:
        empty = request.folder / "empty.parquet"
        pq.write_table(table.schema.empty_table(), empty)
        return [TableFile(empty, TablePart(table.found.key, table.schema))]
    total = _Total(rules)

    def copy(at: int, partition: Partition) -> TableFile:
        path = request.folder / f"part-{at}.parquet"
        with open_partition(table, partition) as stream:
            spooled(total.chunks(stream), path, rules, deadline)
        return TableFile(path, TablePart(partition.key, table.schema, partition.values))

    with ThreadPoolExecutor(rules.threads, thread_name_prefix="fetching") as pool:
        copies = [pool.submit(copy, at, each) for at, each in enumerate(partitions)]
        try:
            return [each.result() for each in copies]
        finally:
            total.is_over = True
            pool.shutdown(wait=False, cancel_futures=True)


class HttpKeyedStore:
    """`KeyedReads` below `url`. `now` is the time of a file for which the server reports none."""

    def __init__(
        self,
        client: httpx.Client,
        url: str,
        headers: Mapping[str, str],
        rules: FetchRules,
        *,
        deadline: Deadline,
        folder: Path,
        now: Instant,
    ) -> None:
        self._client, self._url, self._headers = client, url, headers
        self._rules, self._deadline, self._folder, self._now = rules, deadline, folder, now

    def read(self, key: str, *, most: int) -> KeyedContent | None:
        with self._asked(key) as response:
            if response is None:
                return None
            raw = bytearray()
            for chunk in body_of(response):
                raw += chunk
                if len(raw) > most:
                    raise KeyedFileTooLarge(key, most)
                self._deadline.check()
            modified = http_time(response.headers.get("last-modified"))
            return KeyedContent(
                bytes(raw), hashlib.sha3_256(raw).hexdigest(), modified or self._now
            )

    def open(self, key: str) -> BinaryIO:
        with tempfile.NamedTemporaryFile(dir=self._folder, prefix="file-") as named:
            with self._asked(key) as response:
                if response is None:
                    raise KeyNotFound(key)
                path = Path(named.name)
                spooled(body_of(response), path, self._rules, self._deadline)
            return path.open("rb")  # the bytes remain until it is closed

    def list(self, folder: str) -> Iterator[KeyInfo]:
        raise keys_not_listed(folder, "a web server does not tell what it has")

    @contextmanager
    def _asked(self, key: str) -> Iterator[httpx.Response | None]:
        """Yield the response with the file; None if it does not exist."""
        parts = key.split("/")
        if not {"", ".", ".."}.isdisjoint(parts):
            raise KeyRefused(key, "it is no path below the address")
        url = parsed(f"{self._url}/{quote(key, safe='/')}")
        with answered(self._client, url, self._headers, self._rules, self._deadline) as response:
            if response.status_code == 404:
                yield None
            elif response.status_code == 200:
                yield response
            else:
                raise RemoteFailed(
                    "SourceUnreachable",
                    f"the source answers with status {response.status_code}",
                    status=response.status_code,
                )


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
    table: SelectedTable,
    step: FetchStepUrl,
    request: FetchRequest,
    deadline: Deadline,
    hidden: Sequence[str],
) -> Fetched | None:
    pairs = [(each.label, each.key) for each in table.partitions]
    try:
        listed = file_list(table.name, table.partition_keys, pairs, table.schema)
    except MalformedAttributes:
        raise BadKartothek(
            "MalformedState", table.found.key, "a label in it is no Unicode text"
        ) from None
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
        table=PlainTables(tuple(_shown(each, hidden) for each in files)),
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
        raise BadInput(
            "MalformedSource", "a file address names a local path: kartothek+file:///path/uuid"
        )
    path = allowed_folder(Path(unquote(parts.path) or "/"), request.rules)
    try:
        yield FolderKeyedStore(path)
    except PermissionError as bad:
        raise RemoteFailed(
            "SourceUnreachable", f"a file of the source cannot be read ({bad.strerror})"
        ) from None


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
        raise BadInput(
            "SourceRefused",
            "the source is in a bucket that this node does not read; its administrator can allow "
            "a bucket, or a prefix in one",
            setting="ODF_WORKER_FETCH_BUCKETS",
        )
    try:
        yield BucketKeyedStore(Bucket(place))
    except (StoreUnavailable, StoreMisconfigured) as bad:
        raise RemoteFailed("SourceUnreachable", f"the bucket of the source: {bad.message}") from bad


@contextmanager
def _web(
    address: SourceAddress, step: FetchStepUrl, request: FetchRequest, deadline: Deadline
) -> Iterator[KeyedReads]:
    headers = headers_of(step, request.rules.variables)
    parsed(address.store)
    with client_of(request.rules) as client:
        yield HttpKeyedStore(
            client,
            address.store,
            headers,
            request.rules,
            deadline=deadline,
            folder=request.folder,
            now=request.system_time,
        )


STORES = {"file": _folder, "s3": _bucket, "http": _web, "https": _web}
"""By the scheme of the store, without the part after a plus."""
