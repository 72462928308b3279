"""The quick way to a bucket: `obstore`, for calls that come by the thousand.

It needs a tenth of the processor time that boto3 does, and is asked once. What it brings is
whole and right; anything else (absent, refused, cut short, too slow) is nothing here: `Bucket`
then asks boto3, which alone decides what went wrong and what is worth another try. So errors,
retries and credentials are those of boto3, and no answer can be a false one by this module.
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
"""How long credentials are used before boto3, which renews them, is asked again."""
WITHOUT_END = "7d"
"""A whole body may take any time; each piece of it is bounded by the read timeout."""

NOTHING = (BaseError, OSError, ValueError)
"""Everything obstore raises."""

_started = _lost = False
"""Its threads do not live on in a forked process, where every call would wait for ever."""


def _after_fork() -> None:
    global _lost
    _lost = _lost or _started


os.register_at_fork(after_in_child=_after_fork)


class BrokeOff(Exception):
    """A listing that boto3 has to go on with."""


@dataclass(frozen=True, slots=True)
class Found:
    """One key of a listing, below the prefix. `size` in bytes."""

    name: str
    size: int
    etag: str
    modified: datetime


class Body:
    """What follows in an answer, a piece at a time. Ends early when the connection does."""

    def __init__(self, answer: Any) -> None:
        self.start, self.stop = answer.range
        self.size: int = answer.meta["size"]
        self.etag: str | None = answer.meta.get("e_tag")
        self._pieces = iter(answer.stream(CHUNK_BYTES))
        self._piece = memoryview(b"")

    def read(self, most: int) -> bytes:
        """Between one and `most` bytes; none at the end or where it broke off."""
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
    """A bucket, seen below a prefix. Safe to use from several threads.

    In a process forked from one that has used it, it brings nothing.
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
        """`credentials` are botocore's, asked for the current ones now and then.

        `ca_bundle` is a file of further certificates to trust.
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

    def get(self, name: str, *, offset: int = 0, etag: str | None = None) -> Body | None:
        """The object from `offset` on, if it is there and, with `etag`, that content."""
        options: Any = {} if etag is None else {"if_match": etag}
        if offset:
            options["range"] = {"offset": offset}
        if not _can(name):
            return None
        try:
            return Body(self._store.get(self._prefix + name, options=options))
        except NOTHING:
            return None

    def stat(self, name: str) -> Found | None:
        """What is under the key."""
        if not _can(name):
            return None
        try:
            return self._found(self._store.head(self._prefix + name))
        except NOTHING:
            return None

    def create(self, name: str, content: bytes) -> bool | None:
        """Whether it was written; False: something is there already."""
        if not _can(name):
            return None
        try:
            self._store.put(self._prefix + name, content, mode="create", use_multipart=False)
        except AlreadyExistsError:
            return False
        except NOTHING:
            return None
        return True

    def walk(self, folder: str) -> Iterator[Found]:
        """Keys below a folder, in order. Raises `BrokeOff` when there may be more."""
        if not _can(folder):
            raise BrokeOff
        try:
            for page in self._store.list(self._prefix + folder, chunk_size=PAGE):
                yield from map(self._found, page)
        except NOTHING:
            raise BrokeOff from None

    def _found(self, seen: Any) -> Found:
        name = str(seen["path"]).removeprefix(self._prefix)
        return Found(name, seen["size"], seen["e_tag"], seen["last_modified"])

    def _current(self) -> Any:
        frozen = self._credentials.get_frozen_credentials()
        return {
            "access_key_id": frozen.access_key,
            "secret_access_key": frozen.secret_key,
            "token": frozen.token,
            "expires_at": datetime.now(UTC) + FRESH,
        }


def _can(name: str) -> bool:
    """It is our process, and a key that obstore does not write in another way."""
    global _started
    _started = not _lost
    return _started and bool(name) and "//" not in name and not name.endswith("/")
