"""A keyed store in a folder: a key is the relative path of its file.

A swap takes a lock on the folder of the key. It excludes only programs that take this lock;
libraries of other projects do not.

Keyed stores by their URL: `file:///folder`, `s3://bucket/prefix`, `s3+http://host/bucket/…`.

One folder of a keyed store, presented as a keyed store.
"""

from __future__ import annotations

import errno
import hashlib
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import BinaryIO
from urllib.parse import unquote, urlsplit

from odf_protocol.errors import BadInput
from odf_protocol.instant import Instant

from ..objects import files
from ..objects.layout import PENDING_PREFIX
from ..ports import KeyedStore
from ..ports.errors import KeyedFileTooLarge, KeyNotFound, KeyRefused, SwapLost
from ..ports.keyed import KeyedContent, KeyInfo, LinkSource

_NO_FILE = (FileNotFoundError, NotADirectoryError, IsADirectoryError)


class FolderKeyedStore:
    """`KeyedStore` below `root`, a folder that the first write creates.

    With `durable=False` there are no syncs: files still appear at once and complete, but a power
    cut may undo it.
    """

    def __init__(self, root: Path, *, durable: bool = True) -> None:
        self.root = root
        self._durable = durable

    def read(self, key: str, *, most: int) -> KeyedContent | None:
        try:
            with self.open(key) as stream:
                raw = stream.read(most + 1)
                modified = os.fstat(stream.fileno()).st_mtime_ns
        except KeyNotFound:
            return None
        if len(raw) > most:
            raise KeyedFileTooLarge(key, most)
        return KeyedContent(raw, _tag(raw), Instant(modified))

    def open(self, key: str) -> BinaryIO:
        with _naming(key):
            path = self._path(key)
            try:
                if not path.is_file():  # not a folder, and not a pipe, which would block
                    raise KeyNotFound(key)
                return files.open_at(path, 0)
            except _NO_FILE:
                raise KeyNotFound(key) from None

    def list(self, folder: str) -> Iterator[KeyInfo]:
        with _naming(folder):
            start = self._path(folder)
        for place, _, names in os.walk(start):
            for name in names:
                path = Path(place, name)
                found = None if name.startswith(PENDING_PREFIX) else files.info_of(path)
                if found is not None:
                    key = path.relative_to(start).as_posix()
                    yield KeyInfo(f"{folder}/{key}", found.size, found.modified)

    def put(self, key: str, chunks: Iterable[bytes]) -> None:
        with _naming(key):
            files.write_chunks(self._path(key), chunks, durable=self._durable)

    def link(self, key: str, source: LinkSource) -> None:
        with _naming(key):
            path = self._path(key)
            if source.path is not None and files.link(source.path, path, durable=self._durable):
                return
        with source.open() as stream:
            self.put(key, iter(lambda: stream.read(files.READ_BYTES), b""))

    def swap(self, key: str, content: bytes, *, expected: str | None) -> str:
        with _naming(key):
            path = self._path(key)
            files.make_folder(path.parent, durable=self._durable)
            with files.folder_lock(path.parent, alone=True):
                if _tag_of_file(path) != expected:
                    raise SwapLost(key)
                files.write_chunks(path, (content,), durable=self._durable)
        return _tag(content)

    def delete(self, keys: Sequence[str]) -> None:
        for key in keys:
            with _naming(key):
                path = self._path(key)
                files.remove(path, durable=self._durable)
                self._remove_empty(path.parent)

    def _remove_empty(self, folder: Path) -> None:
        """Remove empty parent folders, because a folder exists here only as a part of keys."""
        while folder != self.root and self.root in folder.parents:
            try:
                folder.rmdir()
            except OSError:  # it is not empty, or already removed
                return
            folder = folder.parent

    def _path(self, key: str) -> Path:
        """Return the path of a key's file; refuse symbolic links that lead out of the folder."""
        parts = key.split("/")
        if key.startswith("/") or not {".", ".."}.isdisjoint(parts) or "\0" in key:
            raise KeyRefused(key, "it is no path below the folder")
        path = self.root.joinpath(*parts)
        if not path.resolve().is_relative_to(self.root.resolve()):
            raise KeyRefused(key, "a link leads out of the folder")
        return path


@contextmanager
def _naming(key: str) -> Iterator[None]:
    """Convert the file system's error for an impossible name to `KeyRefused`."""
    try:
        yield
    except OSError as error:
        if error.errno == errno.ENAMETOOLONG:
            raise KeyRefused(key, "a part of it is too long") from None
        raise


def _tag_of_file(path: Path) -> str | None:
    try:
        with path.open("rb") as stream:
            return hashlib.file_digest(stream, "sha3_256").hexdigest()
    except FileNotFoundError:
        return None


def _tag(raw: bytes) -> str:
    return hashlib.sha3_256(raw).hexdigest()


def open_keyed_store(url: str, *, durable: bool = True) -> KeyedStore:
    """Return the store at a URL, without accessing it yet.

    Raises:
        MalformedKeyedStoreUrl, or MalformedStoreUrl for a bucket.
    """
    scheme = url.partition("://")[0]
    if scheme == "file":
        parts = urlsplit(url)
        path = unquote(parts.path)
        if parts.netloc or parts.query or parts.fragment or not path.startswith("/"):
            raise BadInput(
                "MalformedKeyedStoreUrl", "a folder is named as file:///an/absolute/path"
            )
        return FolderKeyedStore(Path(path), durable=durable)
    if scheme in ("s3", "s3+http", "s3+https"):
        from ..objects.s3_bucket import Bucket, S3Location  # boto3 is slow to import
        from .bucket import BucketKeyedStore

        return BucketKeyedStore(Bucket(S3Location.parse(url)))
    raise BadInput(
        "MalformedKeyedStoreUrl",
        "a store is at file:///folder, s3://bucket/prefix or s3+http://host:port/bucket/prefix",
    )


class Below:
    """The keys below `folder` of another `KeyedStore`. Errors name the full keys of that store."""

    def __init__(self, store: KeyedStore, folder: str) -> None:
        self._store, self._prefix = store, f"{folder}/"

    def read(self, key: str, *, most: int) -> KeyedContent | None:
        return self._store.read(self._key(key), most=most)

    def open(self, key: str) -> BinaryIO:
        return self._store.open(self._key(key))

    def list(self, folder: str) -> Iterator[KeyInfo]:
        for found in self._store.list(self._key(folder)):
            yield replace(found, key=found.key.removeprefix(self._prefix))

    def put(self, key: str, chunks: Iterable[bytes]) -> None:
        self._store.put(self._key(key), chunks)

    def link(self, key: str, source: LinkSource) -> None:
        self._store.link(self._key(key), source)

    def swap(self, key: str, content: bytes, *, expected: str | None) -> str:
        return self._store.swap(self._key(key), content, expected=expected)

    def delete(self, keys: Sequence[str]) -> None:
        self._store.delete([self._key(key) for key in keys])

    def _key(self, key: str) -> str:
        """Return the full key. Raise `KeyRefused` if the key leads out of the folder."""
        if key.startswith("/") or not {".", ".."}.isdisjoint(key.split("/")):
            raise KeyRefused(key, "it is no path below the folder")
        return f"{self._prefix}{key}"
