"""The rows of datasets on a node as files with paths: list them, and read parts of them.

    HOST[:PORT]/[ACCOUNT/]DATASET/{first offset, 20 digits}-{hash}.parquet
    HOST[:PORT]/[ACCOUNT/]DATASET/current-{block}.parquet
    HOST[:PORT]/[ACCOUNT/]DATASET@changelog/{first offset, 20 digits}-{hash}.parquet

The files of a dataset have its current rows: its slices, or, if rows were taken back, one file that
is made here from what `Dataset.batches` reads. A name contains the hash of its file or its block,
so the content never changes. The files of a dataset are listed again whenever its folder is listed.

`odf://` for programs that read through fsspec: pandas, Dask, pyarrow, DuckDB.
"""

from __future__ import annotations

import errno
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from shutil import rmtree
from tempfile import mkdtemp
from typing import Any, BinaryIO, NoReturn
from urllib.parse import quote, urlsplit
from weakref import finalize

import httpx
import pyarrow.parquet as pq
from fsspec.spec import AbstractBufferedFile, AbstractFileSystem

from odf_protocol.errors import BadInput, NotFound, Refused
from odf_protocol.instant import Instant
from odf_protocol.multihash import Multihash
from odf_storage.datasets.integrity.healing import hash_of_stream
from odf_storage.stores.ports.values import ObjectKind

from ..client.folder import FolderRepository, chunks_of
from ..client.home import is_home, token_for
from ..client.http import open_http
from ..client.linked import read_range
from ..client.node_api import NodeApi
from ..client.repositories import HttpRepository
from ..service.read.read import CHANGELOG, FACTS, ReadRequest
from .arrow_exit import wait_for_arrow_at_exit
from .following import FromChain, FromNode, place_of

_FILE = re.compile(r"(?:\d{20}|current)-f1620[0-9a-f]{64}\.parquet")
_OF_CHANGELOG = f"@{CHANGELOG}"


class AnotherNode(BadInput):
    """A path on a host other than the token's node, or a token without a host."""


@dataclass(frozen=True, slots=True)
class SliceFile:
    """A data slice as a file, or a file of current rows."""

    path: str
    size: int
    records: int
    hash: Multihash
    system_time: str
    block: str
    made: Path | None = None
    """The file itself, if it was made here."""

    @classmethod
    def of(cls, folder: str, told: dict[str, Any]) -> SliceFile:
        """Convert an entry of the response of `GET files`."""
        return cls(
            path=f"{folder}/{int(told['offsets']['start']):020}-{told['physicalHash']}.parquet",
            size=told["size"],
            records=told["records"],
            hash=Multihash.parse(told["physicalHash"]),
            system_time=told["systemTime"],
            block=told["block"],
        )

    @property
    def folder(self) -> str:
        return self.path.rpartition("/")[0]


def is_file(path: str) -> bool:
    """Whether the path is a file, by its name."""
    return _FILE.fullmatch(path.rpartition("/")[2]) is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeFiles:
    """Files of one node or, without a token, of several."""

    host: str | None = None
    """The only node to which requests are sent; None allows any."""
    scheme: str | None = None
    """Protocol; None means http on this machine, and otherwise https."""
    token: str | None = None
    at: str | None = None
    """Hash of the block as of which files are listed; None means the newest."""
    cache: FolderRepository | None = None
    """Store of whole, hashed files. None means that only the parts read are fetched."""
    http: httpx.Client = field(default_factory=open_http)
    _known: dict[str, SliceFile] = field(default_factory=dict)
    _tenancy: dict[str, str] = field(default_factory=dict)
    _folders: list[Path] = field(default_factory=list)
    """Temporary folders with the files that were made here."""

    @classmethod
    def of(
        cls, host: str | None, scheme: str | None, token: str | None, at: str | None, cache: Any
    ) -> NodeFiles:
        """Check the options and create an instance. Raises `AnotherNode`."""
        if token is not None and host is None:
            raise AnotherNode("name the node that the token is for: host='node.example'")
        folder = None if cache is None else FolderRepository(Path(cache))
        return cls(host=host, scheme=scheme, token=token, at=at, cache=folder)

    def close(self) -> None:
        """Close connections, and remove the files that were made here."""
        self.http.close()
        while self._folders:
            rmtree(self._folders.pop(), ignore_errors=True)

    def entries(self, path: str) -> list[SliceFile | str]:
        """Return the files of a dataset, oldest first, or the paths of the entries of a node or an
        account.

        Raises `NotFound`, `AnotherNode`, and the errors of `NodeApi`.
        """
        host, _, inner = path.partition("/")
        if "/" in inner or (inner and not self._has_accounts(host)):
            return [*self._slices(path)]
        below = f"{inner}/" if inner else ""
        aliases = [str(each["alias"]) for each in self._api(host).datasets()]
        names = [each.removeprefix(below) for each in aliases if each.startswith(below)]
        if inner and not names:
            raise NotFound(f"no account at {path}, or none of whose datasets may be seen")
        return list(dict.fromkeys(f"{path}/{each.partition('/')[0]}" for each in names))

    def file(self, path: str) -> SliceFile:
        """Return the file with this path. Raises `NotFound` if the dataset has no such file (any
        more)."""
        if path not in self._known:
            self._slices(path.rpartition("/")[0])
        if path not in self._known:
            raise NotFound(f"the dataset has no such file: {path}")
        return self._known[path]

    def read(self, file: SliceFile, start: int, end: int) -> bytes:
        """Read a range of bytes. Raises the errors of `read_range` and `HttpRepository`; with a
        cache `HashMismatch`."""
        if file.made is not None:
            with file.made.open("rb") as stream:
                stream.seek(start)
                return stream.read(max(0, end - start))
        if self.cache is not None:
            with self._kept(file, self.cache) as stream:
                stream.seek(start)
                return stream.read(max(0, end - start))
        base = self._url(file.folder)
        url = f"{base}data/{file.hash}"
        return read_range(self.http, url, start, end, token=self._token_for(base))

    def _kept(self, file: SliceFile, cache: FolderRepository) -> BinaryIO:
        """Open the whole file from the cache, and fetch it first if needed."""
        kind = ObjectKind.DATA
        if cache.size_of(kind, file.hash) != file.size:
            base = self._url(file.folder)
            node = HttpRepository(base, self._token_for(base), http=self.http)
            with node.open_object(kind, file.hash) as stream:
                cache.put(kind, file.hash, chunks_of(stream))
        return cache.open_object(kind, file.hash)

    def _slices(self, folder: str) -> list[SliceFile]:
        """List the files of a dataset, oldest first."""
        found: list[SliceFile] = []
        for page in self._api(folder).file_pages(self.at):
            if page.get("hasRetractions") and not folder.endswith(_OF_CHANGELOG):
                found = [self._current(folder, page["at"], page["files"][0]["systemTime"])]
                break
            found += [SliceFile.of(folder, each) for each in page["files"]]
        self._known.update((each.path, each) for each in found)
        return found[::-1]

    def _current(self, folder: str, block: str, system_time: str) -> SliceFile:
        """Return the file of the rows that stand as of a block, and make it first if needed. With
        a cache the rows come from hashed slices, else from the node."""
        path = f"{folder}/current-{block}.parquet"
        if path in self._known:
            return self._known[path]
        url = self._url(folder)
        place = place_of(url, self._token_for(url))
        source = FromNode(place) if self.cache is None else FromChain(place)
        self._folders.append(Path(mkdtemp(prefix="odf-files-")))
        file = self._folders[-1] / f"{block}.parquet"
        request = ReadRequest(as_at=block, projection=FACTS)
        with source.rows(request) as rows, pq.ParquetWriter(file, rows.reader.schema) as out:
            for batch in rows.reader:
                out.write_batch(batch)
        with file.open("rb") as stream:
            name = hash_of_stream(stream)
        return SliceFile(
            path=path,
            size=file.stat().st_size,
            records=pq.read_metadata(file).num_rows,
            hash=name,
            system_time=system_time,
            block=block,
            made=file,
        )

    def _has_accounts(self, host: str) -> bool:
        """Whether paths of datasets on the host begin with an account."""
        if host not in self._tenancy:
            self._tenancy[host] = str(self._api(host).look("system/info")["tenancy"])
        return self._tenancy[host] == "multi"

    def _api(self, path: str) -> NodeApi:
        url = self._url(path)
        return NodeApi(url, self._token_for(url), http=self.http)

    def _url(self, path: str) -> str:
        """Return the URL of a node or a dataset, with a slash at the end. Raises `AnotherNode`."""
        host, _, inner = path.partition("/")
        if self.host is not None and host != self.host:
            raise AnotherNode(f"these are files of {self.host}, not of {host}", host=host)
        scheme = self.scheme or ("http" if is_home(f"http://{host}", None) else "https")
        inner = inner.removesuffix(_OF_CHANGELOG)
        return f"{scheme}://{host}/{quote(inner)}{'/' if inner else ''}"

    def _token_for(self, url: str) -> str | None:
        return self.token or token_for(url)


_SCHEMES = {"odf+http": "http", "odf+https": "https"}


class OdfFileSystem(AbstractFileSystem):  # type: ignore[misc] # fsspec has no types
    """A read-only file system. Create it by a path `odf://HOST[:PORT]/[ACCOUNT/]DATASET`, or with
    `fsspec.filesystem`.

    The files of a dataset have its current rows; those of `DATASET@changelog` have every row. If
    rows were retracted or corrected, the first are one file, which is read whole.

    A node on this machine is read by http, any other by https; `odf+http://` and `odf+https://` set
    the protocol.

    Storage options:
        token: for private datasets; default: `ODF_NODE_TOKEN`, if it is for that node.
        at: hash of the block as of which files are listed; default: the newest.
        cache: a folder. Files are fetched whole, hashed, and stored there under their hashes;
            without it, only the parts that are read are fetched, and the node is trusted.
        host, scheme: of the node, as in paths; a token requires its host.

    Raises `FileNotFoundError` and `PermissionError` like other file systems, an `OSError` for any
    attempt to write, and otherwise `NodeError`.
    """

    protocol = ("odf", *_SCHEMES)

    def __init__(
        self,
        host: str | None = None,
        *,
        scheme: str | None = None,
        token: str | None = None,
        at: str | None = None,
        cache: str | None = None,
        **options: Any,
    ) -> None:
        super().__init__(**options)
        self._node = NodeFiles.of(host, scheme, token, at, cache)
        finalize(self, self._node.close)
        wait_for_arrow_at_exit()

    @classmethod
    def _strip_protocol(cls, path: Any) -> Any:
        if isinstance(path, list):
            return [cls._strip_protocol(each) for each in path]
        return str(path).rpartition("://")[2].strip("/")

    @staticmethod
    def _get_kwargs_from_urls(path: str) -> dict[str, str]:
        parts = urlsplit(path)
        scheme = _SCHEMES.get(parts.scheme)
        return {"host": parts.netloc, **({"scheme": scheme} if scheme else {})}

    def ls(self, path: str, detail: bool = True, **_: Any) -> list[Any]:
        """List the entries of a node, an account or a dataset; files of a dataset oldest first."""
        path = self._strip_protocol(path)
        with _as_files(path):
            found = [self._node.file(path)] if is_file(path) else self._node.entries(path)
        told = [_folder(each) if isinstance(each, str) else _told(each) for each in found]
        return told if detail else [each["name"] for each in told]

    def info(self, path: str, **_: Any) -> dict[str, Any]:
        """Describe a path; for a file also `size`, `records`, `physical_hash`, `block`,
        `system_time`."""
        path = self._strip_protocol(path)
        if is_file(path):
            return _told(self._file(path))
        with _as_files(path):
            self._node.entries(path)
        return _folder(path)

    def modified(self, path: str) -> datetime:
        """Return the system time of the block of a file."""
        recorded = Instant.parse(self._file(path).system_time)
        return datetime.fromtimestamp(recorded.millis / 1000, UTC)

    def ukey(self, path: str) -> str:
        """Return the hash of a file."""
        return str(self._file(path).hash)

    def cat_file(
        self, path: str, start: int | None = None, end: int | None = None, **_: Any
    ) -> bytes:
        file = self._file(path)
        first, last, _step = slice(start, end).indices(file.size)
        with _as_files(path):
            return self._node.read(file, first, last)

    def _open(self, path: str, mode: str = "rb", **options: Any) -> Any:
        if mode != "rb":
            self._refuse()
        return OdfFile(self, path, mode, size=self._file(path).size, **options)

    def _file(self, path: str) -> SliceFile:
        path = self._strip_protocol(path)
        with _as_files(path):
            return self._node.file(path)

    def _refuse(self, *_: Any, **__: Any) -> NoReturn:
        raise OSError(errno.EROFS, "odf:// is read-only; odf_node.publish adds rows to a dataset")

    mkdir = makedirs = rmdir = rm = rm_file = _rm = cp_file = mv = touch = _refuse
    pipe_file = put_file = _refuse


class OdfFile(AbstractBufferedFile):  # type: ignore[misc] # fsspec has no types
    """A file that is read in ranges of bytes."""

    def _fetch_range(self, start: int, end: int) -> bytes:
        return bytes(self.fs.cat_file(self.path, start, end))


def _folder(path: str) -> dict[str, Any]:
    return {"name": path, "size": 0, "type": "directory"}


def _told(file: SliceFile) -> dict[str, Any]:
    return {
        "name": file.path,
        "size": file.size,
        "type": "file",
        "records": file.records,
        "physical_hash": str(file.hash),
        "block": file.block,
        "system_time": file.system_time,
    }


@contextmanager
def _as_files(path: str) -> Iterator[None]:
    """Translate errors to those that file systems usually raise."""
    try:
        yield
    except NotFound as missing:
        raise FileNotFoundError(errno.ENOENT, missing.message, path) from missing
    except Refused as refused:
        raise PermissionError(errno.EACCES, refused.message, path) from refused
