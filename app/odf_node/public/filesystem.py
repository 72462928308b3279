"""`odf://` for programs that read through fsspec: pandas, Dask, pyarrow, DuckDB."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any, NoReturn
from urllib.parse import urlsplit
from weakref import finalize

from fsspec.spec import AbstractBufferedFile, AbstractFileSystem

from odf_protocol.errors import NotFound, Refused
from odf_protocol.instant import Instant

from .arrow_exit import wait_for_arrow_at_exit
from .node_files import NodeFiles, SliceFile, is_file

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
