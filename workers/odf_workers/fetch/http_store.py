"""Files on a web server, by key: a read-only keyed store that cannot list its keys.

A percent sign in a key is encoded again for the URL. The checks of other fetches apply to every
request.
"""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO
from urllib.parse import quote

import httpx

from odf_protocol.instant import Instant
from odf_storage.stores.ports.errors import (
    KeyedFileTooLarge,
    KeyNotFound,
    KeyRefused,
    KeysNotListed,
)
from odf_storage.stores.ports.keyed_values import Content, KeyInfo

from .http import answered, body_of, http_time, parsed
from .values import Deadline, FetchRules, SourceUnreachable, spooled


class HttpKeyedStore:
    """`KeyedReads` below `url`. `now` is the time of a file for which the server reports none."""

    def __init__(
        self,
        client: httpx.Client,
        url: str,
        headers: Mapping[str, str],
        rules: FetchRules,
        *,
        deadline: Deadline,
        folder: Path,
        now: Instant,
    ) -> None:
        self._client, self._url, self._headers = client, url, headers
        self._rules, self._deadline, self._folder, self._now = rules, deadline, folder, now

    def read(self, key: str, *, most: int) -> Content | None:
        with self._asked(key) as response:
            if response is None:
                return None
            raw = bytearray()
            for chunk in body_of(response):
                raw += chunk
                if len(raw) > most:
                    raise KeyedFileTooLarge(key, most)
                self._deadline.check()
            modified = http_time(response.headers.get("last-modified"))
            return Content(bytes(raw), hashlib.sha3_256(raw).hexdigest(), modified or self._now)

    def open(self, key: str) -> BinaryIO:
        with tempfile.NamedTemporaryFile(dir=self._folder, prefix="file-") as named:
            with self._asked(key) as response:
                if response is None:
                    raise KeyNotFound(key)
                path = Path(named.name)
                spooled(body_of(response), path, self._rules, self._deadline)
            return path.open("rb")  # the bytes remain until it is closed

    def list(self, folder: str) -> Iterator[KeyInfo]:
        raise KeysNotListed(folder, "a web server does not tell what it has")

    @contextmanager
    def _asked(self, key: str) -> Iterator[httpx.Response | None]:
        """Yield the response with the file; None if it does not exist."""
        parts = key.split("/")
        if not {"", ".", ".."}.isdisjoint(parts):
            raise KeyRefused(key, "it is no path below the address")
        url = parsed(f"{self._url}/{quote(key, safe='/')}")
        with answered(self._client, url, self._headers, self._rules, self._deadline) as response:
            if response.status_code == 404:
                yield None
            elif response.status_code == 200:
                yield response
            else:
                raise SourceUnreachable(
                    f"the source answers with status {response.status_code}",
                    status=response.status_code,
                )
