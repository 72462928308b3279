"""The worker's side: lend files to executors, and collect the files that they deliver.

All files are in one bucket, that of the node. `clear` removes those of a job when it has ended, and
`close` those that were kept for further jobs. If a worker or its Spark ends in the midst of a job,
executors may go on for a moment and deliver files that nobody expects: they are in a folder of the
job, which the worker that repeats the job removes with its own.
"""

from __future__ import annotations

import os
import re
import secrets
import threading
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from odf_protocol.errors import Unavailable
from odf_protocol.multihash import SHA3_256, HashMismatch, Multihash
from odf_storage.datasets.integrity.healing import hash_of_stream
from odf_storage.lanes import THREADS, expect, hash_all
from odf_storage.stores.objects.layout import EXCHANGE
from odf_storage.stores.ports.values import ObjectKey, StoredFile

from .links import ATTEMPTS, ExchangeFault, Loan, Outbox, Spans, name_of, pieces

if TYPE_CHECKING:
    from odf_storage.stores.objects.s3_bucket import Bucket

LINK_TTL = timedelta(days=1)
"""How long a link is valid: longer than the default limit of a query's time."""
REMEMBERED = 10_000
KEPT_BYTES = 32 << 30
"""Limit of the bytes of files that stay in the bucket between two jobs; the files that were not
lent for the longest time are removed first."""
KEPT_FOR = timedelta(hours=12)
"""Age at which a kept file is sent again: a job may take the rest of the day after which the node
removes abandoned files."""
LOST = "the bucket has lost what an executor wrote"
CHANGED = "the bucket has other bytes than an executor wrote"
_FAULT = re.compile(rf"\b{ExchangeFault.__name__}: (.{{1,200}})")


class ExchangePlace(NamedTuple):
    """An object of the bucket, and the hash of its bytes."""

    name: str
    hash: Multihash


@dataclass(frozen=True, slots=True)
class KeptFile:
    """A file that stays in the bucket between two jobs."""

    place: ExchangePlace
    size: int


_url: str | None = None
_sent: list[tuple[str, str]] = []
"""URL of the bucket and folder of each set of files that `clear` has to remove."""
_job: str | None = None
"""Id of the job whose files are sent."""
_copies: OrderedDict[str, ExchangePlace] = OrderedDict()
"""Files of this disk that are copies of objects, by their path."""
_kept: OrderedDict[str, KeptFile] = OrderedDict()
"""Files that stay in the bucket, by their digests, the one lent last at the end."""
_kept_in: dict[str, str] = {}
"""Folder of the files that stay in a bucket, by its URL."""
_lock = threading.Lock()


def use(url: str | None) -> None:
    """Set the bucket for the exchange of files. None means that executors see the worker's disk."""
    global _url
    _url = url


def exchange_of() -> str | None:
    """Return the URL of the bucket for the exchange of files; None if no bucket is needed."""
    return _url


def begin(job: str, repeated: Iterable[str]) -> None:
    """Name the job whose files are sent from now on, and the jobs that have been begun before:
    `clear` also removes what is left of these."""
    global _job
    _job = job
    if _url is not None:
        _sent.extend((_url, _folder_of(each)) for each in repeated)


def remember(path: Path, name: str, content: Multihash) -> None:
    """Record that a file of this disk is a copy of the object `name` of the bucket, whose hash is
    `content`."""
    with _lock:
        _copies[str(path)] = ExchangePlace(name, content)
        while len(_copies) > REMEMBERED:
            _copies.popitem(last=False)


def lend(url: str, path: Path) -> Loan:
    """Lend a file to executors on other machines. If the file is not a copy of an object of the
    bucket, upload it.

    Raises:
        StoreUnavailable, StoreMisconfigured: the bucket failed.
    """
    place = _copies.get(str(path)) or _send(url, path, f"{_new_folder(url)}/0")
    return lend_object(url, place)


def lend_lasting(url: str, path: Path, digest: str) -> Loan:
    """As `lend` of a file that further jobs will need as well, and that never changes. It is sent
    only if the bucket has no file with that digest from this worker."""
    with _lock:
        kept = _kept.pop(digest, None)
    if kept is None or not _is_fresh(url, kept.place):
        folder = _kept_in.setdefault(url, _random_folder())
        kept = KeptFile(_send(url, path, f"{folder}/{digest}"), path.stat().st_size)
    with _lock:
        _kept[digest] = kept
    return lend_object(url, kept.place)


def lend_spans(url: str, path: Path, parts: Sequence[Spans | None]) -> list[Loan]:
    """Lend a file once for each part, of which an executor fetches only these bytes; None means all
    of them. Raises as `lend`."""
    whole = lend(url, path)
    some = [spans for spans in parts if spans is not None]
    expect(sum(span.end - span.start for spans in some for span in spans))
    digests = hash_all([pieces(path, spans) for spans in some], threads=THREADS)
    lent = {
        spans: replace(whole, hash=str(Multihash(SHA3_256, digest)), spans=spans)
        for spans, digest in zip(some, digests, strict=True)
    }
    return [whole if spans is None else lent[spans] for spans in parts]


def lend_object(url: str, place: ExchangePlace) -> Loan:
    """Lend an object of the bucket to executors on other machines; it need not exist."""
    return Loan(_bucket(url).presign("get_object", place.name, LINK_TTL), str(place.hash))


def outbox(url: str, folder: Path, partitions: int) -> Outbox:
    """Return links for the files of each attempt at each partition. The worker will collect the
    files into `folder`."""
    place, bucket = _new_folder(url), _bucket(url)
    names = [name_of(part, attempt) for part in range(partitions) for attempt in range(ATTEMPTS)]
    links = {name: bucket.presign("put_object", f"{place}/{name}", LINK_TTL) for name in names}
    return Outbox(folder=folder, links=links, bucket_folder=place)


def collect(url: str, stored: StoredFile, path: Path) -> None:
    """Fetch a file that an executor delivered to `path`.

    Raises:
        ExchangeFailed: the file is missing, or differs from what the executor wrote.
        StoreUnavailable, StoreMisconfigured: the bucket failed.
    """
    from odf_storage.stores.objects.s3_bucket import KeyMissing
    from odf_storage.stores.objects.s3_stream import open_stream

    try:
        with open_stream(_bucket(url), stored.name) as content, path.open("wb") as target:
            found = hash_of_stream(content, target.write)
    except KeyMissing:
        raise Unavailable("ExchangeFailed", LOST) from None
    if found != stored.hash:
        path.unlink()
        raise Unavailable("ExchangeFailed", CHANGED)


def keep(url: str, stored: StoredFile, key: ObjectKey) -> None:
    """Let the bucket copy a file that an executor delivered to the key of an object.

    Raises:
        ExchangeFailed: the file is missing, or differs from what the executor wrote.
        StoreUnavailable, StoreMisconfigured: the bucket failed.
    """
    from odf_storage.stores.objects.s3 import S3ObjectStore
    from odf_storage.stores.objects.s3_bucket import KeyMissing, PreconditionLost

    try:
        S3ObjectStore(_bucket(url)).put_copy(key, stored)
    except KeyMissing:
        raise Unavailable("ExchangeFailed", LOST) from None
    except (PreconditionLost, HashMismatch):
        raise Unavailable("ExchangeFailed", CHANGED) from None


def empty(url: str, box: Outbox) -> None:
    """Remove the files of an outbox from the bucket, before the job ends."""
    _bucket(url).delete_below(f"{box.bucket_folder}/")


def clear() -> None:
    """Remove the files that this worker put in the bucket for jobs, except those that further jobs
    need, up to `KEPT_BYTES`. The jobs must have ended or been broken off."""
    while _sent:
        url, folder = _sent[-1]
        _bucket(url).delete_below(f"{folder}/")
        _sent.pop()  # not before it is removed: the bucket may have failed
    excess = sum(each.size for each in _kept.values()) - KEPT_BYTES
    while excess > 0:
        _, oldest = _kept.popitem(last=False)
        excess -= oldest.size
        for url in _kept_in:
            _bucket(url).delete([oldest.place.name])


def close() -> None:
    """Remove all files that this worker put in the bucket, before it ends."""
    clear()
    _kept.clear()
    while _kept_in:
        url, folder = _kept_in.popitem()
        _bucket(url).delete_below(f"{folder}/")


def failed(error: Exception) -> Unavailable | None:
    """Return the failure between executors and the bucket, if it is the cause of a Spark error."""
    if _url is None or not isinstance(error, PySparkException | Py4JError):
        return None
    try:
        found = _FAULT.search(str(error))  # `str` calls the Java runtime
    except (Py4JError, OSError):  # the runtime has ended, which is another failure
        return None
    return None if found is None else Unavailable("ExchangeFailed", found[1])


def _is_fresh(url: str, place: ExchangePlace) -> bool:
    """Return whether the bucket still has the file, and no cleanup will remove it soon."""
    from odf_storage.stores.objects.s3_bucket import KeyMissing

    try:
        modified = _bucket(url).stat(place.name).modified
    except KeyMissing:
        return False
    return datetime.now(UTC) - modified < KEPT_FOR


def _send(url: str, path: Path, name: str) -> ExchangePlace:
    with path.open("rb") as content:
        found = hash_of_stream(content)
        content.seek(0)
        _bucket(url).send(name, content)
    return ExchangePlace(name, found)


def _new_folder(url: str) -> str:
    """Return a new folder of the bucket, which `clear` removes."""
    folder = _random_folder(EXCHANGE if _job is None else _folder_of(_job))
    _sent.append((url, folder))
    return folder


def _folder_of(job: str) -> str:
    return f"{EXCHANGE}/{job}"


def _random_folder(within: str = EXCHANGE) -> str:
    return f"{within}/{secrets.token_hex(16)}"


@lru_cache(maxsize=4)
def _bucket_in(url: str, _process: int) -> Bucket:
    from odf_storage.stores.objects.s3_bucket import Bucket, S3Location  # boto3 is an extra

    return Bucket(S3Location.parse(url))


def _bucket(url: str) -> Bucket:
    """Return the client of this process."""
    return _bucket_in(url, os.getpid())
