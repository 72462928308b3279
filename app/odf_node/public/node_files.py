"""The rows of datasets on a node as files with paths: list them, and read parts of them.

    HOST[:PORT]/[ACCOUNT/]DATASET/{first offset, 20 digits}-{hash}.parquet
    HOST[:PORT]/[ACCOUNT/]DATASET/current-{block}.parquet
    HOST[:PORT]/[ACCOUNT/]DATASET@changelog/{first offset, 20 digits}-{hash}.parquet

The files of a dataset have its current rows: its slices, or, if rows were taken back, one file that
is made here from what `Dataset.batches` reads. A name contains the hash of its file or its block,
so the content never changes. The files of a dataset are listed again whenever its folder is listed.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from shutil import rmtree
from tempfile import mkdtemp
from typing import Any, BinaryIO
from urllib.parse import quote

import pyarrow.parquet as pq

from odf_protocol.errors import BadInput, NotFound
from odf_protocol.multihash import Multihash
from odf_storage.datasets.integrity.healing import hash_of_stream
from odf_storage.stores.ports.values import ObjectKind

from ..client.nodes.home import is_home, token_for
from ..client.nodes.http import open_http
from ..client.nodes.later import httpx
from ..client.nodes.node_api import NodeApi
from ..client.nodes.repositories import HttpRepository
from ..client.transfer.folder import FolderRepository, chunks_of
from ..client.transfer.linked import read_range
from ..service.read.read import CHANGELOG, FACTS, ReadRequest
from .following import FromChain, FromNode, place_of

_FILE = re.compile(r"(?:\d{20}|current)-f1620[0-9a-f]{64}\.parquet")
_OF_CHANGELOG = f"@{CHANGELOG}"


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
            raise BadInput(
                "AnotherNode", "name the node that the token is for: host='node.example'"
            )
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
            raise BadInput(
                "AnotherNode", f"these are files of {self.host}, not of {host}", host=host
            )
        scheme = self.scheme or ("http" if is_home(f"http://{host}", None) else "https")
        inner = inner.removesuffix(_OF_CHANGELOG)
        return f"{scheme}://{host}/{quote(inner)}{'/' if inner else ''}"

    def _token_for(self, url: str) -> str | None:
        return self.token or token_for(url)
