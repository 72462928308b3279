"""Repositories from which a dataset can be read by the simple protocol: folders and URLs.

All have the same paths (`refs/head`, `blocks/…`, `data/…`, `checkpoints/…`), so a pull, a
comparison and a verification work with any of them. Repositories are not trusted: the reader checks
hashes.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import BinaryIO, Protocol

from odf_protocol.errors import Damaged
from odf_protocol.multihash import MalformedHash, MalformedMultibase, Multihash
from odf_storage.stores.objects.layout import HEAD, object_path, ref_path
from odf_storage.stores.ports.values import ObjectKind

from .http import (
    DatasetMissing,
    Pace,
    TransferFailed,
    bearer,
    missing_of,
    origin,
    raise_for_access,
    raise_for_object,
    read_bounded,
    refuse_challenged,
    refuse_overloaded,
    unreachable,
    with_retries,
)
from .later import httpx
from .limits import LIMITS, ClientLimits


class Repository(Protocol):
    """One readable dataset. `name` is its address for messages."""

    @property
    def name(self) -> str: ...
    def find_head(self) -> Multihash | None:
        """Return the hash of the newest block, or None if there is no dataset."""

    def head(self) -> Multihash:
        """Return the hash of the newest block. Raises `DatasetMissing`."""

    def block_bytes(self, block: Multihash) -> bytes:
        """Return the unchecked raw bytes of a block. Raises `NotFound`."""

    def open_object(self, kind: ObjectKind, object_hash: Multihash) -> BinaryIO:
        """Open an object as an unchecked stream. Raises `NotFound`."""


class HttpRepository:
    """A dataset at an `http(s)` URL ending in `/`: a node, a bucket or a static file server."""

    def __init__(
        self,
        base: str,
        token: str | None = None,
        *,
        http: httpx.Client,
        limits: ClientLimits = LIMITS,
    ) -> None:
        self.base = base
        self._token, self._http, self._limits = token, http, limits

    @property
    def name(self) -> str:
        return self.base

    def find_head(self) -> Multihash | None:
        try:
            return self.head()
        except DatasetMissing:
            return None

    def head(self) -> Multihash:
        return with_retries(self._head, limits=self._limits)

    def _head(self) -> Multihash:
        url = self.base + str(ref_path(HEAD))
        with self._get(url) as response:
            if response.status_code == 404:
                refuse_challenged(response.headers, 404)
                raise missing_of(response, self.base)
            raise_for_access(response.status_code)
            if not response.is_success:
                raise TransferFailed(
                    f"{origin(url)} answered {response.status_code} for refs/head",
                    status=response.status_code,
                )
            bound = self._limits.ref_bytes
            body = read_bounded(response, bound, "refs/head", limits=self._limits)
        return parse_head(body, self.base)

    def block_bytes(self, block: Multihash) -> bytes:
        return with_retries(partial(self._block_bytes, block), limits=self._limits)

    def _block_bytes(self, block: Multihash) -> bytes:
        url, what = self._object(ObjectKind.BLOCK, block)
        with self._get(url) as response:
            raise_for_object(response, url, what)
            return read_bounded(response, self._limits.block_bytes, what, limits=self._limits)

    def open_object(self, kind: ObjectKind, object_hash: Multihash) -> BinaryIO:
        url, what = self._object(kind, object_hash)
        headers = list(bearer(self._token).items())
        return open_body(self._http, url, headers, what, limits=self._limits)

    def _object(self, kind: ObjectKind, object_hash: Multihash) -> tuple[str, str]:
        return self.base + str(object_path(kind, object_hash)), f"{kind.value} {object_hash}"

    @contextmanager
    def _get(self, url: str) -> Iterator[httpx.Response]:
        try:
            with self._http.stream("GET", url, headers=bearer(self._token)) as response:
                what = url.removeprefix(self.base)
                refuse_overloaded(response.headers, response.status_code, url, what)
                yield response
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise unreachable(url, error) from error


def parse_head(body: bytes, where: str) -> Multihash:
    """Parse `refs/head` without trimming it, as every client does. Raises `MalformedHead`."""
    try:
        return Multihash.parse(body.decode("ascii"))
    except (UnicodeDecodeError, MalformedHash, MalformedMultibase):
        raise malformed_head(body, where) from None


def malformed_head(body: bytes, where: str) -> Damaged:
    return Damaged(
        "MalformedHead",
        f"refs/head of {where} is no hash (it must hold the hash alone, without a newline)",
        head=body[:100].decode("latin-1"),
    )


def open_body(
    http: httpx.Client,
    url: str,
    headers: Sequence[tuple[str, str]],
    what: str,
    *,
    limits: ClientLimits = LIMITS,
) -> BinaryIO:
    """Return the body of a GET as a stream, which the caller must close.

    Raises on any status other than 2xx.
    """
    if not url.startswith(("http://", "https://")):
        raise TransferFailed(f"cannot fetch {what}: only http and https URLs are used")
    try:
        response = http.send(http.build_request("GET", url, headers=list(headers)), stream=True)
    except (httpx.HTTPError, httpx.InvalidURL, UnicodeError) as error:
        raise unreachable(url, error) from error
    try:
        refuse_overloaded(response.headers, response.status_code, url, what)
        raise_for_object(response, url, what)
    except BaseException:
        response.close()
        raise
    return body_of(response, url, what, limits=limits)


def body_of(
    response: httpx.Response, url: str, what: str, *, limits: ClientLimits = LIMITS
) -> BinaryIO:
    """Return the body of a response as a stream; closing it closes the response."""
    return io.BufferedReader(_Body(response, url, Pace(what, limits)))


class _Body(io.RawIOBase):
    """A response body as a raw stream; it raises network failures as the client's errors."""

    def __init__(self, response: httpx.Response, url: str, pace: Pace) -> None:
        super().__init__()
        self._response, self._url, self._pace = response, url, pace
        self._chunks = response.iter_raw()
        self._rest = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        while not self._rest:
            try:
                self._rest = memoryview(next(self._chunks))
            except StopIteration:
                return 0
            except httpx.HTTPError as error:
                raise unreachable(self._url, error) from error
            self._pace.received(len(self._rest))
        size = min(len(buffer), len(self._rest))
        buffer[:size] = self._rest[:size]
        self._rest = self._rest[size:]
        return size

    def close(self) -> None:
        self._response.close()
        super().close()
