"""Upload objects to the URLs that a node names: whole, or resumed after an interruption.

An upload of a large object to the node itself survives a kill of either side: the client requests
how many bytes have arrived, and sends only the rest. Uploads to other URLs (presigned), or to a
node without this feature, are sent whole.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterator

from odf_protocol.multihash import SHA3_256, HashMismatch, Multihash
from odf_protocol.transfer.messages import TransferUrl
from odf_storage.stores.objects.layout import object_path

from ..nodes.http import (
    Overloaded,
    TransferFailed,
    origin,
    raise_for_access,
    refuse_overloaded,
    unreachable,
    with_retries,
)
from ..nodes.later import httpx
from ..nodes.limits import ClientLimits
from .folder import FolderRepository, chunks_of
from .receive import NeededObject, Progress, mismatch, object_size_mismatch

OFFSET, LENGTH = "upload-offset", "upload-length"
OCTETS = ("content-type", "application/octet-stream")
Headers = list[tuple[str, str]]


class Uploader:
    """Uploads objects of a folder to the URLs of one push; `base` is the dataset's URL."""

    def __init__(
        self,
        folder: FolderRepository,
        base: str,
        http: httpx.Client,
        stop: threading.Event,
        limits: ClientLimits,
        progress: Progress,
    ) -> None:
        self._folder, self._base, self._http, self._stop = folder, base, http, stop
        self._limits, self._progress = limits, progress

    def upload(self, needed: NeededObject, target: TransferUrl) -> None:
        """Upload one object.

        Raises `UploadRefused`, `ObjectSizeMismatch`, `HashMismatch`, `TransferFailed`.
        """
        if not target.url.startswith(("http://", "https://")):
            raise TransferFailed(
                "UnintelligibleAnswer", f"cannot put {needed.name}: only http(s) URLs are used"
            )
        with_retries(lambda: self._attempt(needed, target), limits=self._limits)
        self._progress.object_done()

    def _attempt(self, needed: NeededObject, target: TransferUrl) -> None:
        own = self._base + str(object_path(needed.kind, needed.hash))
        if target.url == own and needed.size >= self._limits.resumable_bytes:
            there = self._send("HEAD", target, [])
            if there.status_code == 200:  # everything has arrived; only the response was lost
                return
            offset = _offset(there)
            if offset is not None and self._go_on(needed, target, min(offset, needed.size)):
                return
        self._put(needed, target)

    def _go_on(self, needed: NeededObject, target: TransferUrl, offset: int) -> bool:
        """Send the rest. Return False if the node cannot resume from what it has."""
        rest = needed.size - offset
        headers = [(OFFSET, str(offset)), (LENGTH, str(needed.size)), ("content-length", str(rest))]
        answer = self._send("PATCH", target, [*headers, OCTETS], self._content(needed, offset))
        if answer.status_code == 409:
            raise Overloaded(f"{origin(target.url)} still takes the upload that broke off")
        if answer.status_code in (400, 405, 501) and offset:
            return False
        _check_accepted(answer, needed, target.url)
        return True

    def _put(self, needed: NeededObject, target: TransferUrl) -> None:
        headers = [OCTETS, ("content-length", str(needed.size))]
        answer = self._send("PUT", target, headers, self._content(needed, 0))
        _check_accepted(answer, needed, target.url)

    def _send(
        self,
        method: str,
        target: TransferUrl,
        headers: Headers,
        content: Iterator[bytes] | None = None,
    ) -> httpx.Response:
        """Send a request without following redirects, so that credentials reach only the named URL.
        Return the response without its body."""
        given = [*((header.name, header.value) for header in target.headers), *headers]
        try:
            request = self._http.build_request(method, target.url, headers=given, content=content)
            response = self._http.send(request, stream=True, follow_redirects=False)
        except (httpx.HTTPError, httpx.InvalidURL, UnicodeError) as error:
            raise unreachable(target.url, error) from error
        response.close()
        return response

    def _content(self, needed: NeededObject, offset: int) -> Iterator[bytes]:
        """Yield the bytes from `offset` on; the last piece only if the whole has the right hash."""
        digest, last, size = hashlib.sha3_256(), b"", 0
        with self._folder.open_object(needed.kind, needed.hash) as stream:
            for chunk in chunks_of(stream):
                if self._stop.is_set():
                    raise TransferFailed(
                        "UploadRefused", "given up because another transfer failed"
                    )
                digest.update(chunk)
                size += len(chunk)
                if size > needed.size:
                    raise object_size_mismatch(needed, needed.size, at_least=True)
                if last:
                    yield last
                    self._progress.object_bytes(len(last))
                last = chunk[max(0, len(chunk) - (size - offset)) :] if size > offset else b""
        actual = Multihash(SHA3_256, digest.digest())
        if actual != needed.hash:
            found = HashMismatch(needed.hash, actual)
            raise mismatch(found, needed.name, object=needed.name)
        if last:
            yield last
            self._progress.object_bytes(len(last))


def _offset(answer: httpx.Response) -> int | None:
    """Return how many bytes have arrived; None if the node accepts only whole objects."""
    text = answer.headers.get(OFFSET, "")
    usable = answer.status_code == 404 and text.isascii() and text.isdigit()
    return int(text) if usable and len(text) < 18 else None


def _check_accepted(answer: httpx.Response, needed: NeededObject, url: str) -> None:
    if answer.is_success:
        return
    status = answer.status_code
    refuse_overloaded(answer.headers, status, url, needed.name)
    raise_for_access(status)
    raise TransferFailed(
        "UploadRefused",
        f"{origin(url)} did not take {needed.name}: status {status}",
        object=needed.name,
        status=status,
    )
