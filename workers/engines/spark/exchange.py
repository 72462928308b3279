"""Files between a worker and executors on other machines, which see none of its disk.

They go through the node's bucket, in `.exchange/<random>/…`: executors read and write them there
themselves, with PyArrow. Slices of datasets are read where they lie. What is left of a worker
that died is collected with other abandoned writes.

Executors run queries of strangers, so they have no key of the bucket: the worker gives each job
links, signed for a while, to read the files it reads and to write the files it makes. They need
the same Python packages as a worker.

The bucket is trusted to keep bytes, not to keep them right: with each link goes the hash of what
is there, and the reader, an executor or the worker, hashes before it looks at a row.
"""

from __future__ import annotations

import hashlib
import io
import os
import re
import secrets
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import lru_cache
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from py4j.protocol import Py4JError
from pyspark import TaskContext
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as T  # noqa: N812
from pyspark.sql.pandas.types import to_arrow_schema

from odf_node.protocol.errors import Unavailable
from odf_node.protocol.multihash import SHA3_256, Multihash
from odf_node.storage.datasets.integrity.hashing import hash_of_stream
from odf_node.storage.stores.objects.layout import EXCHANGE

if TYPE_CHECKING:
    from urllib3 import PoolManager

    from odf_node.storage.stores.objects.s3_bucket import Bucket

LINK_TTL = timedelta(days=1)
"""How long a link is good for: longer than any query may take, unless a setting says otherwise."""
ATTEMPTS = 4
"""How often Spark tries a task, each time to write another file."""
AGENT = "odf-node-executor"
TRIES = 5
BATCH_ROWS = 65_536
COPY_BYTES = 1 << 20
REMEMBERED = 10_000
_WRITTEN = "partition int, name string, hash string"
_url: str | None = None
_sent: list[tuple[str, str]] = []
"""Bucket and folder of what was sent and may still be read."""
_lock = threading.Lock()

Rows = Iterator[pa.RecordBatch]


class Place(NamedTuple):
    """An object of the bucket, and the hash of its bytes."""

    name: str
    hash: Multihash


class ExchangeFault(OSError):
    """In an executor: the bucket does not answer, or has other bytes than it should."""


class ExchangeFailed(Unavailable):
    """Executors could not read or write the bucket; the job may be begun again."""


_places: OrderedDict[str, Place] = OrderedDict()
_FAULT = re.compile(rf"\b{ExchangeFault.__name__}: (.{{1,200}})")


def use(url: str | None) -> None:
    """The bucket files go through from now on; None: executors see the worker's disk."""
    global _url
    _url = url


def exchange_of() -> str | None:
    """URL of the bucket that files go through; None when none has to."""
    return _url


def failed(error: Exception) -> ExchangeFailed | None:
    """What went wrong between executors and the bucket, if that is what an error of Spark says."""
    if _url is None or not isinstance(error, PySparkException | Py4JError):
        return None
    try:
        found = _FAULT.search(str(error))  # which asks the Java runtime
    except (Py4JError, OSError):  # it is gone: that is another trouble
        return None
    return None if found is None else ExchangeFailed(found[1])


def remember(path: Path, name: str, content: Multihash) -> None:
    """A file of this disk is a copy of that object of the bucket, whose hash is `content`."""
    with _lock:
        _places[str(path)] = Place(name, content)
        while len(_places) > REMEMBERED:
            _places.popitem(last=False)


def read_remotely(
    session: SparkSession, url: str, paths: Sequence[Path], schema: T.StructType
) -> DataFrame:
    """Rows of the files, read by executors from the bucket; a file's order is kept."""
    folder = f"{EXCHANGE}/{secrets.token_hex(16)}"
    _sent.append((url, folder))
    places = [
        _places.get(str(path)) or _send(url, path, f"{folder}/{at}")
        for at, path in enumerate(paths)
    ]
    listed = session.createDataFrame(
        [
            (_bucket(url).presign("get_object", each.name, LINK_TTL), str(each.hash))
            for each in places
        ],
        "link string, hash string",
    )
    return listed.repartition(max(1, len(places))).mapInArrow(reading(schema), schema)


def write_remotely(frame: DataFrame, url: str, folder: Path) -> list[Path]:
    """The frame's rows, written by executors to the bucket and fetched: a file a partition.

    Raises:
        ExchangeFailed: a file is not what its executor wrote.
    """
    place, bucket = f"{EXCHANGE}/{secrets.token_hex(16)}", _bucket(url)
    names = [
        f"{place}/{partition}-{attempt}"
        for partition in range(_most_partitions(frame))
        for attempt in range(ATTEMPTS)
    ]
    links = {
        name.rpartition("/")[2]: bucket.presign("put_object", name, LINK_TTL) for name in names
    }
    written = frame.mapInArrow(_writing(links), _WRITTEN).collect()
    folder.mkdir(parents=True)
    files = list[Path]()
    for row in sorted(written, key=lambda row: int(row["partition"])):
        path = folder / f"part-{row['partition']:05}.parquet"
        content = bucket.call("get_object", f"{place}/{row['name']}")["Body"].read()
        if str(Multihash.of(content)) != row["hash"]:
            raise ExchangeFailed("the bucket has other bytes than an executor wrote")
        path.write_bytes(content)
        files.append(path)
    bucket.delete_below(f"{place}/")
    return files


def _most_partitions(frame: DataFrame) -> int:
    """As many as there may be. Spark knows it from most plans; else it has to prepare the rows."""
    execution = frame._jdf.queryExecution()
    return int(
        execution.executedPlan().outputPartitioning().numPartitions()
        or execution.toRdd().getNumPartitions()
    )


@dataclass(frozen=True, slots=True)
class Loan:
    """A file in the bucket for executors: a link to read it, and the hash of its bytes."""

    link: str
    hash: str


@dataclass(frozen=True, slots=True)
class Letterbox:
    """A folder of the bucket in which executors put files, and a link for each name they use."""

    folder: str
    links: Mapping[str, str]


def lend(url: str, path: Path) -> Loan:
    """The file for executors elsewhere: the object that it is a copy of, or one that is sent."""
    known = _places.get(str(path))
    if known is None:
        folder = f"{EXCHANGE}/{secrets.token_hex(16)}"
        _sent.append((url, folder))
        known = _send(url, path, f"{folder}/0")
    return Loan(_bucket(url).presign("get_object", known.name, LINK_TTL), str(known.hash))


def lend_object(url: str, place: Place) -> Loan:
    """An object of a dataset for executors elsewhere, where it lies, if it is there at all."""
    return Loan(_bucket(url).presign("get_object", place.name, LINK_TTL), str(place.hash))


def letterbox(url: str, partitions: int) -> Letterbox:
    """Links for what each attempt at each partition writes."""
    folder, bucket = f"{EXCHANGE}/{secrets.token_hex(16)}", _bucket(url)
    _sent.append((url, folder))
    names = [f"{part}-{attempt}" for part in range(partitions) for attempt in range(ATTEMPTS)]
    return Letterbox(
        folder,
        {name: bucket.presign("put_object", f"{folder}/{name}", LINK_TTL) for name in names},
    )


def collect(url: str, box: Letterbox, name: str, wanted: str, path: Path) -> None:
    """Fetch what an executor put. Raises `ExchangeFailed`: it is not what the executor wrote."""
    content = _bucket(url).call("get_object", f"{box.folder}/{name}")["Body"]
    found = _hashed_to(path, iter(lambda: content.read(COPY_BYTES), b""))
    if str(found) != wanted:
        raise ExchangeFailed("the bucket has other bytes than an executor wrote")


def clear() -> None:
    """Remove what was sent: the jobs that read it have ended."""
    while _sent:
        url, folder = _sent.pop()
        _bucket(url).delete_below(f"{folder}/")


def _hashed_to(path: Path, chunks: Iterator[bytes]) -> Multihash:
    digest = hashlib.sha3_256()
    with path.open("wb") as target:
        for chunk in chunks:
            digest.update(chunk)
            target.write(chunk)
    return Multihash(SHA3_256, digest.digest())


def _send(url: str, path: Path, name: str) -> Place:
    with path.open("rb") as content:
        found = hash_of_stream(content)
        content.seek(0)
        _bucket(url).call("put_object", name, Body=content)
    return Place(name, found)


# --- on the executors -----------------------------------------------------------------------


def reading(schema: T.StructType) -> Callable[[Rows], Rows]:
    """From rows of `link` and `hash` to the rows of the files there, each file hashed before."""
    wanted = to_arrow_schema(schema, timezone="UTC")

    def read(batches: Rows) -> Rows:
        for batch in batches:
            for each in batch.to_pylist():
                content = _asked("GET", each["link"])
                if str(Multihash.of(content)) != each["hash"]:
                    raise ExchangeFault(f"the bucket has other bytes than those of {each['hash']}")
                with pq.ParquetFile(pa.BufferReader(content)) as file:
                    known = [each.name for each in wanted if each.name in file.schema_arrow.names]
                    for part in file.iter_batches(BATCH_ROWS, columns=known):
                        yield fitted(part, wanted)

    return read


def fitted(batch: pa.RecordBatch, wanted: pa.Schema) -> pa.RecordBatch:
    """The columns Spark expects, by name and in its types; those a file lacks are null."""
    columns = [
        pc.cast(batch.column(field.name), field.type, safe=False)
        if field.name in batch.schema.names
        else pa.nulls(batch.num_rows, field.type)
        for field in wanted
    ]
    return pa.RecordBatch.from_arrays(columns, schema=wanted)


def fetch(loan: Loan, path: Path) -> None:
    """Write the file that was lent to `path`, hashed on the way. Raises `ExchangeFault`."""
    content = _asked("GET", loan.link)
    if str(Multihash.of(content)) != loan.hash:
        raise ExchangeFault(f"the bucket has other bytes than those of {loan.hash}")
    path.write_bytes(content)


def opened(loan: Loan) -> BinaryIO | None:
    """The bytes of what was lent, as they come: not hashed. None: there is nothing.

    What is read raises `ExchangeFault` if the bucket stops to answer.
    """
    answer = _requested("GET", loan.link, preload_content=False)
    if answer.status == HTTPStatus.NOT_FOUND:
        answer.release_conn()
        return None
    if answer.status != HTTPStatus.OK:
        answer.release_conn()
        raise ExchangeFault(f"the bucket answers {answer.status} to GET")
    return io.BufferedReader(_Body(answer), COPY_BYTES)


class _Body(io.RawIOBase):
    """An answer of the bucket, read once from its begin."""

    def __init__(self, answer: Any) -> None:
        super().__init__()
        self._answer = answer

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any, /) -> int:
        from urllib3.exceptions import HTTPError

        try:
            part = self._answer.read(len(buffer))
        except HTTPError as failed:
            raise ExchangeFault(f"the bucket stops to answer: {type(failed).__name__}") from None
        buffer[: len(part)] = part
        return len(part)

    def close(self) -> None:
        if not self.closed:
            self._answer.close()
        super().close()


def give(path: Path, link: str) -> Multihash:
    """Put the file where a link leads; its hash. Raises `ExchangeFault`."""
    content = path.read_bytes()
    _asked("PUT", link, content)
    return Multihash.of(content)


def _writing(links: Mapping[str, str]) -> Callable[[Rows], Rows]:
    def write(batches: Rows) -> Rows:
        context: Any = TaskContext.get()
        first = next((batch for batch in batches if batch.num_rows), None)
        if first is None:
            return
        out = io.BytesIO()
        with pq.ParquetWriter(out, first.schema, compression="snappy") as writer:
            writer.write_batch(first)
            for batch in batches:
                writer.write_batch(batch)
        partition = context.partitionId()
        name = f"{partition}-{context.attemptNumber()}"
        content = out.getvalue()
        _asked("PUT", links[name], content)
        yield pa.RecordBatch.from_pydict(
            {
                "partition": pa.array([partition], pa.int32()),
                "name": pa.array([name]),
                "hash": pa.array([str(Multihash.of(content))]),
            }
        )

    return write


def _asked(method: str, link: str, body: bytes | None = None) -> bytes:
    """What the bucket answers."""
    answer = _requested(method, link, body=body)
    if answer.status != HTTPStatus.OK:
        raise ExchangeFault(f"the bucket answers {answer.status} to {method}")
    content: bytes = answer.data
    return content


def _requested(method: str, link: str, **how: Any) -> Any:
    """An answer of the bucket. Links stay out of messages: anybody who has one may use it."""
    from urllib3.exceptions import HTTPError  # comes with boto3, which is an extra

    try:
        return _pool(os.getpid()).request(method, link, **how)
    except HTTPError as failed:
        raise ExchangeFault(f"the bucket does not answer: {type(failed).__name__}") from None


@lru_cache(maxsize=1)
def _pool(_process: int) -> PoolManager:
    """One a process: Spark forks its Python workers."""
    from urllib3 import PoolManager, Retry

    again = Retry(
        TRIES,
        backoff_factor=0.5,
        status_forcelist=(500, 502, 503, 504),
        allowed_methods=("GET", "PUT"),
        raise_on_status=False,
    )
    return PoolManager(retries=again, timeout=60.0, headers={"User-Agent": AGENT})


# --- in the worker --------------------------------------------------------------------------


@lru_cache(maxsize=4)
def _bucket_in(url: str, _process: int) -> Bucket:
    from odf_node.storage.stores.objects.s3_bucket import Bucket, S3Location  # boto3 is an extra

    return Bucket(S3Location.parse(url))


def _bucket(url: str) -> Bucket:
    """One client a process."""
    return _bucket_in(url, os.getpid())
