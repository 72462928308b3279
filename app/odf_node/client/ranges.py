"""Read parts of an object at a URL by HTTP ranges."""

from __future__ import annotations

from functools import partial

import httpx

from .gateways import refuse_overloaded, with_retries
from .http import (
    TransferFailed,
    bearer,
    origin,
    raise_for_object,
    read_bounded,
    refuse_challenged,
    unreachable,
)
from .limits import LIMITS, ClientLimits


class NotTheRange(TransferFailed):
    """The server did not send the requested bytes."""


def read_range(
    http: httpx.Client,
    url: str,
    start: int,
    end: int,
    *,
    token: str | None = None,
    limits: ClientLimits = LIMITS,
) -> bytes:
    """Return bytes `start` to `end` (exclusive) of the object at `url`, which must have as many.

    Raises:
        NotTheRange, Unreachable, Overloaded, and the same errors as `raise_for_object`.
    """
    if start >= end:
        return b""
    once = partial(_read, http, url, start, end, token, limits)
    return with_retries(once, limits=limits)


def _read(
    http: httpx.Client, url: str, start: int, end: int, token: str | None, limits: ClientLimits
) -> bytes:
    headers = {"range": f"bytes={start}-{end - 1}", **bearer(token)}
    try:
        with http.stream("GET", url, headers=headers) as response:
            status = response.status_code
            refuse_overloaded(response.headers, status, url, "a part of a file")
            refuse_challenged(response.headers, status)
            raise_for_object(response, url, "file")
            said = response.headers.get("content-range", "")
            if status != 206 or not said.startswith(f"bytes {start}-{end - 1}/"):
                raise NotTheRange(
                    f"{origin(url)} does not send parts of files", status=status, range=said[:100]
                )
            body = read_bounded(response, end - start, "a part of a file", limits=limits)
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise unreachable(url, error) from error
    if len(body) != end - start:
        raise NotTheRange(f"{origin(url)} sent {len(body)} of {end - start} bytes")
    return body
