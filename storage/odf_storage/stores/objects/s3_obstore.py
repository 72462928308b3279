"""A fast client for a bucket, `obstore`, for calls that are made by the thousand.

It needs a tenth of the processor time of boto3, and makes one try. A result is complete and
correct; on any failure (absent, refused, cut short, too slow) it returns nothing, and `Bucket`
calls boto3, which alone decides which error it is and whether to retry. So errors, retries and
credentials are those of boto3, and this module cannot cause a wrong result.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from obstore.exceptions import AlreadyExistsError, BaseError
from obstore.store import S3Store

CHUNK_BYTES = 256 * 1024
PAGE = 1000
FRESH = timedelta(minutes=5)
"""How long credentials are used before they are requested again from boto3, which renews them."""
WITHOUT_END = "7d"
"""Timeout of a whole response body: in effect none. The read timeout limits each piece."""

NOTHING = (BaseError, OSError, ValueError)
"""All exceptions of obstore."""

_started = _lost = False
"""Its threads do not exist in a forked process, where every call would wait for ever."""


def _after_fork() -> None:
    global _lost
    _lost = _lost or _started


os.register_at_fork(after_in_child=_after_fork)


class BrokeOff(Exception):
    """The listing failed, and boto3 has to continue it."""


@dataclass(frozen=True, slots=True)
class FoundObject:
    """A key in a listing, below the prefix. `size` is in bytes."""

    name: str
    size: int
    etag: str
    modified: datetime


class BucketBody:
    """The body of a response, in pieces. It ends early if the connection breaks."""

    def __init__(self, answer: Any) -> None:
        self.start, self.stop = answer.range
        self.size: int = answer.meta["size"]
        self.etag: str | None = answer.meta.get("e_tag")
        self._pieces = iter(answer.stream(CHUNK_BYTES))
        self._piece = memoryview(b"")

    def read(self, most: int) -> bytes:
        """Return between one and `most` bytes; none at the end or after a broken connection."""
        if not self._piece:
            try:
                self._piece = memoryview(next(self._pieces, b""))
            except NOTHING:
                return b""
        chunk, self._piece = self._piece[:most], self._piece[most:]
        return bytes(chunk)

    def close(self) -> None:
        self._pieces, self._piece = iter(()), memoryview(b"")


class Obstore:
    """The keys of a bucket below a prefix. Safe to use from several threads.

    In a process forked from one that has used it, it returns nothing.
    """

    def __init__(
        self,
        bucket: str,
        prefix: str,
        *,
        endpoint: str,
        region: str,
        credentials: Any,
        connect_s: float,
        read_s: float,
        ca_bundle: str | None = None,
    ) -> None:
        """`credentials` are botocore's, from which the current ones are requested regularly.

        `ca_bundle` is a file with further certificates to trust.
        """
        self._prefix, self._credentials = prefix, credentials
        options: Any = {
            "allow_http": endpoint.startswith("http://"),
            "http1_only": True,
            "connect_timeout": timedelta(seconds=connect_s),
            "read_timeout": timedelta(seconds=read_s),
            "timeout": WITHOUT_END,
        }
        if ca_bundle is not None:
            options["root_certificate"] = Path(ca_bundle).read_bytes()
        self._store = S3Store(
            bucket,
            endpoint=endpoint,
            region=region,
            virtual_hosted_style_request=False,
            skip_signature=False,
            credential_provider=self._current,
            retry_config={"max_retries": 0, "retry_timeout": timedelta(seconds=read_s)},
            client_options=options,
        )

    def get(self, name: str, *, offset: int = 0, etag: str | None = None) -> BucketBody | None:
        """Return the object from `offset` on; with `etag` only that content. None on failure."""
        options: Any = {} if etag is None else {"if_match": etag}
        if offset:
            options["range"] = {"offset": offset}
        if not _can(name):
            return None
        try:
            return BucketBody(self._store.get(self._prefix + name, options=options))
        except NOTHING:
            return None

    def stat(self, name: str) -> FoundObject | None:
        """Return facts about the object under the key; None on failure."""
        if not _can(name):
            return None
        try:
            return self._found(self._store.head(self._prefix + name))
        except NOTHING:
            return None

    def create(self, name: str, content: bytes) -> bool | None:
        """Write the object. Return True, or False if the key is taken; None on failure."""
        if not _can(name):
            return None
        try:
            self._store.put(self._prefix + name, content, mode="create", use_multipart=False)
        except AlreadyExistsError:
            return False
        except NOTHING:
            return None
        return True

    def walk(self, folder: str) -> Iterator[FoundObject]:
        """Yield keys below a folder, in order. Raises `BrokeOff` if the listing is incomplete."""
        if not _can(folder):
            raise BrokeOff
        try:
            for page in self._store.list(self._prefix + folder, chunk_size=PAGE):
                yield from map(self._found, page)
        except NOTHING:
            raise BrokeOff from None

    def _found(self, seen: Any) -> FoundObject:
        name = str(seen["path"]).removeprefix(self._prefix)
        return FoundObject(name, seen["size"], seen["e_tag"], seen["last_modified"])

    def _current(self) -> Any:
        frozen = self._credentials.get_frozen_credentials()
        return {
            "access_key_id": frozen.access_key,
            "secret_access_key": frozen.secret_key,
            "token": frozen.token,
            "expires_at": datetime.now(UTC) + FRESH,
        }


def _can(name: str) -> bool:
    """Return whether obstore works in this process and would not rewrite the key."""
    global _started
    _started = not _lost
    return _started and bool(name) and "//" not in name and not name.endswith("/")
