"""What the worker does: it lends files to executors and collects what they deliver.

Everything is in one bucket at a time, that of the node, and goes when the job has ended (`clear`).
"""

from __future__ import annotations

import os
import re
import secrets
import threading
from collections import OrderedDict
from datetime import timedelta
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from odf_node.protocol.multihash import Multihash
from odf_node.storage.datasets.integrity.hashing import hash_of_stream
from odf_node.storage.stores.objects.layout import EXCHANGE

from .files import ATTEMPTS, Delivered, ExchangeFailed, ExchangeFault, Loan, Outbox, name_of

if TYPE_CHECKING:
    from odf_node.storage.stores.objects.s3_bucket import Bucket

LINK_TTL = timedelta(days=1)
"""How long a link is good for: longer than any query may take, unless a setting says otherwise."""
REMEMBERED = 10_000
_FAULT = re.compile(rf"\b{ExchangeFault.__name__}: (.{{1,200}})")


class Place(NamedTuple):
    """An object of the bucket, and the hash of its bytes."""

    name: str
    hash: Multihash


_url: str | None = None
_sent: list[tuple[str, str]] = []
"""Bucket and folder of what was made for a job and may still be read."""
_copies: OrderedDict[str, Place] = OrderedDict()
"""Files of this disk that are copies of objects, by their path."""
_lock = threading.Lock()


def use(url: str | None) -> None:
    """The bucket files go through from now on; None: executors see the worker's disk."""
    global _url
    _url = url


def exchange_of() -> str | None:
    """URL of the bucket that files go through; None when none has to."""
    return _url


def remember(path: Path, name: str, content: Multihash) -> None:
    """A file of this disk is a copy of that object of the bucket, whose hash is `content`."""
    with _lock:
        _copies[str(path)] = Place(name, content)
        while len(_copies) > REMEMBERED:
            _copies.popitem(last=False)


def lend(url: str, path: Path) -> Loan:
    """The file for executors elsewhere: the object that it is a copy of, or one that is sent.

    Raises:
        StoreUnavailable, StoreMisconfigured: of the bucket.
    """
    return lend_object(url, _copies.get(str(path)) or _send(url, path))


def lend_object(url: str, place: Place) -> Loan:
    """An object of a dataset for executors elsewhere, where it lies, if it is there at all."""
    return Loan(_bucket(url).presign("get_object", place.name, LINK_TTL), str(place.hash))


def outbox(url: str, folder: Path, partitions: int) -> Outbox:
    """Links for what each attempt at each partition writes; the files are to be in `folder`."""
    place, bucket = _new_folder(url), _bucket(url)
    names = [name_of(part, attempt) for part in range(partitions) for attempt in range(ATTEMPTS)]
    links = {name: bucket.presign("put_object", f"{place}/{name}", LINK_TTL) for name in names}
    return Outbox(folder=folder, links=links, bucket_folder=place)


def collect(url: str, box: Outbox, delivered: Delivered) -> Path:
    """The file that an executor delivered, fetched.

    Raises:
        ExchangeFailed: it is not what the executor wrote, or not there.
        StoreUnavailable, StoreMisconfigured: of the bucket.
    """
    from odf_node.storage.stores.objects.s3_bucket import KeyMissing
    from odf_node.storage.stores.objects.s3_stream import open_stream

    try:
        with (
            open_stream(_bucket(url), f"{box.bucket_folder}/{delivered.name}") as content,
            delivered.path.open("wb") as target,
        ):
            found = hash_of_stream(content, target.write)
    except KeyMissing:
        raise ExchangeFailed("the bucket has lost what an executor wrote") from None
    if str(found) != delivered.hash:
        delivered.path.unlink()
        raise ExchangeFailed("the bucket has other bytes than an executor wrote")
    return delivered.path


def empty(url: str, box: Outbox) -> None:
    """Remove what was collected, before the job ends."""
    _bucket(url).delete_below(f"{box.bucket_folder}/")


def clear() -> None:
    """Remove what was made for jobs, which have ended."""
    while _sent:
        url, folder = _sent.pop()
        _bucket(url).delete_below(f"{folder}/")


def failed(error: Exception) -> ExchangeFailed | None:
    """What went wrong between executors and the bucket, if that is what an error of Spark says."""
    if _url is None or not isinstance(error, PySparkException | Py4JError):
        return None
    try:
        found = _FAULT.search(str(error))  # which asks the Java runtime
    except (Py4JError, OSError):  # it is gone: that is another trouble
        return None
    return None if found is None else ExchangeFailed(found[1])


def _send(url: str, path: Path) -> Place:
    name = f"{_new_folder(url)}/0"
    with path.open("rb") as content:
        found = hash_of_stream(content)
        content.seek(0)
        _bucket(url).call("put_object", name, Body=content)
    return Place(name, found)


def _new_folder(url: str) -> str:
    folder = f"{EXCHANGE}/{secrets.token_hex(16)}"
    _sent.append((url, folder))
    return folder


@lru_cache(maxsize=4)
def _bucket_in(url: str, _process: int) -> Bucket:
    from odf_node.storage.stores.objects.s3_bucket import Bucket, S3Location  # boto3 is an extra

    return Bucket(S3Location.parse(url))


def _bucket(url: str) -> Bucket:
    """One client a process."""
    return _bucket_in(url, os.getpid())
