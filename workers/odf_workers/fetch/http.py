"""Sources at `http` and `https` addresses: conditional requests, redirects, pinned addresses.

Redirects are followed by our code, so that every target is checked before it receives a request,
and so that headers of the source are sent to no other origin.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC
from email.utils import format_datetime, parsedate_to_datetime
from importlib.metadata import version
from pathlib import Path
from types import MappingProxyType
from urllib.parse import unquote

import httpx

from odf_protocol.errors import BadInput, RemoteFailed
from odf_protocol.instant import Instant, MalformedInstant
from odf_protocol.metadata.events import SourceState
from odf_protocol.metadata.sources import EventTimeSourceFromSystemTime, FetchStepUrl
from odf_protocol.sources.source_marks import REDIRECT_KEY, address_mark
from odf_protocol.sources.source_options import ContentType, options_of
from odf_protocol.sources.source_rules import check_headers

from ..prepare.run import members
from ..readers.values.features import BEGIN_BYTES, is_page_type, is_text, web_page
from .values import (
    ETAG,
    LAST_MODIFIED,
    Deadline,
    Fetched,
    FetchRequest,
    FetchRules,
    allowed_addresses,
    expand,
    spooled,
    state,
)

MAX_REDIRECTS = 10
MAX_VALIDATOR_CHARS = 4_096
REDIRECTS = frozenset({301, 302, 303, 307, 308})
_PORTS = {"http": 80, "https": 443}


def fetch_http(step: FetchStepUrl, url: str, request: FetchRequest) -> Fetched | None:
    """Return new bytes, or None if the server reports no change.

    Raises:
        SourceMissing: status 404.
        SourceUnreachable: no connection, another status, too many redirects, an unknown encoding.
        SourceRefused: an address is not allowed, here or after a redirect.
        MalformedArchive: the body is not the gzip that the server declares.
        WebPage: the server declares that the answer is a web page.
    """
    deadline = Deadline(request.rules)
    asked = parsed(url), headers_of(step, request.rules.variables)
    conditions = _conditions(request)
    with (
        client_of(request.rules) as client,
        answered(client, *asked, request.rules, deadline, conditions=conditions) as response,
    ):
        redirect = _redirect_mark(response, asked[0], request)
        if response.status_code == 304 and request.state is not None:
            if redirect == request.marks.get(REDIRECT_KEY):
                return None
            return fetch_http(step, url, replace(request, state=None))
        if response.status_code == 404:
            raise RemoteFailed(
                "SourceMissing", "the web server has nothing at this address (404)", status=404
            )
        if response.status_code != 200:
            raise RemoteFailed(
                "SourceUnreachable",
                f"the source answers with status {response.status_code}",
                status=response.status_code,
            )
        path = spooled(body_of(response), request.folder / "fetched", request.rules, deadline)
        check_type(response, path, request)
        left_off = _state_of(response.headers)
        return Fetched(
            path=path,
            state=left_off,
            event_time=_event_time(step, left_off, request),
            warnings=_further(response),
            marks={} if redirect is None else {REDIRECT_KEY: redirect},
        )


def _redirect_mark(response: httpx.Response, asked: httpx.URL, request: FetchRequest) -> str | None:
    """Return the mark of the address that a redirect led to, None without one: `latest` leads to
    another file each day, and an older one has not changed since the time of the last. With an
    entity tag the query does not count, as stores of files sign it anew for each answer."""
    found: httpx.URL = response.extensions["address"]
    if found == asked:
        return None
    if request.state_of(ETAG) or response.headers.get("etag"):
        found = found.copy_with(query=None)
    return address_mark(str(found), (), request.rules.mark_key)


def check_type(response: httpx.Response, path: Path, request: FetchRequest) -> None:
    """Raise `WebPage` if the server declares a web page, unless the bytes or the source tell
    otherwise: packed and binary files begin with bytes of their own, and JSON with a bracket."""
    if request.source is None or not is_page_type(response.headers.get("content-type", "")):
        return
    read = request.source.read
    with path.open("rb") as stream:
        begin = stream.read(BEGIN_BYTES)
    if options_of(read).content_type is ContentType.CHECKED and is_text(begin, read):
        raise web_page(begin)


def _further(response: httpx.Response) -> tuple[str, ...]:
    """Return a warning if the answer links to another page of the same data."""
    try:
        has_next = "next" in response.links
    except ValueError:
        return ()
    return ("the answer may be one page of several: it has a Link of rel=next",) if has_next else ()


def body_of(response: httpx.Response) -> Iterator[bytes]:
    """Return the body in chunks of limited size; the caller limits their sum. Some servers pack it
    by gzip although the request asks for plain bytes; it is unpacked.

    Raises:
        SourceUnreachable: the body is packed in another way, or several times.
        MalformedArchive: the body is not the gzip that the server declares.
    """
    declared = response.headers.get("content-encoding", "").lower().split(",")
    encodings = [each for each in map(str.strip, declared) if each not in ("", "identity")]
    if not encodings:
        return response.iter_raw()
    if encodings in (["gzip"], ["x-gzip"]):
        return members(response.iter_raw(), read=[0])
    raise RemoteFailed(
        "SourceUnreachable",
        f"the source packs its answer by {', '.join(encodings)[:100]!r}; at most one gzip is read",
        encodings=", ".join(encodings)[:100],
    )


@contextmanager
def client_of(rules: FetchRules) -> Iterator[httpx.Client]:
    """Yield a client for one fetch: it uses no proxies, and does not follow redirects itself."""
    timeout = httpx.Timeout(rules.idle_s, connect=rules.connect_s)
    transport = httpx.HTTPTransport(verify=rules.tls())
    with httpx.Client(transport=transport, timeout=timeout, trust_env=False) as client:
        yield client


@contextmanager
def answered(
    client: httpx.Client,
    url: httpx.URL,
    headers: Mapping[str, str],
    rules: FetchRules,
    deadline: Deadline,
    *,
    conditions: Mapping[str, str] = MappingProxyType({}),
) -> Iterator[httpx.Response]:
    """Yield the response after all redirects, with its body unread and its address among its
    extensions. `headers` are sent only to the
    origin of the address, `conditions` to all redirect targets, too.

    Raises:
        SourceUnreachable: no connection, a broken one, too many redirects.
        SourceRefused: an address is not allowed, here or after a redirect.
    """
    try:
        for _ in range(MAX_REDIRECTS + 1):
            deadline.check()
            response = _sent(client, url, {**headers, **conditions}, rules)
            try:
                if response.status_code not in REDIRECTS:
                    response.extensions["address"] = url
                    yield response
                    return
                target = parsed(_location(response), base=url)
            finally:
                response.close()
            headers = headers if _origin(target) == _origin(url) else {}
            url = target
    except (httpx.HTTPError, httpx.StreamError, httpx.InvalidURL) as bad:
        raise RemoteFailed(
            "SourceUnreachable",
            f"the source at {url.host!r} cannot be read ({type(bad).__name__})",
            host=url.host,
        ) from bad
    raise RemoteFailed(
        "SourceUnreachable", f"the source redirects more than {MAX_REDIRECTS} times", host=url.host
    )


def _location(response: httpx.Response) -> str:
    found = response.headers.get("location", "")
    if not found:
        raise RemoteFailed(
            "SourceUnreachable",
            f"the source answers with status {response.status_code}, a redirect, and does not say "
            "where to",
            status=response.status_code,
        )
    return str(found)


def _sent(
    client: httpx.Client, url: httpx.URL, headers: Mapping[str, str], rules: FetchRules
) -> httpx.Response:
    """Send the request to the first address that accepts a connection; Host and TLS keep the
    name."""
    addresses = allowed_addresses(url.host, url.port or _PORTS[url.scheme], rules)
    given = {
        "User-Agent": f"odf-node/{version('odf-node')}",
        "Accept": "*/*",
        "Accept-Encoding": "identity",
        **_login(url),
        **headers,
        "Host": url.netloc.decode("ascii"),
    }
    for at, address in enumerate(addresses):
        pinned = client.build_request(
            "GET",
            url.copy_with(host=address, username="", password="", fragment=None),
            headers=list(given.items()),
            extensions={"sni_hostname": url.host},
        )
        try:
            return client.send(pinned, stream=True)
        except httpx.ConnectError:
            if at == len(addresses) - 1:
                raise
    raise RemoteFailed("SourceUnreachable", f"the host {url.host!r} has no address", host=url.host)


def parsed(text: str, *, base: httpx.URL | None = None) -> httpx.URL:
    """Parse an address of a web server. Raises `MalformedSource`."""
    try:
        url = base.join(text) if base is not None else httpx.URL(text)
    except (httpx.InvalidURL, ValueError, TypeError) as bad:
        raise BadInput(
            "MalformedSource", f"the address of the source cannot be read ({bad})", reason=str(bad)
        ) from None
    if url.scheme not in _PORTS or not url.host:
        raise BadInput(
            "MalformedSource", "the source leads to an address that is not http or https"
        )
    # A redirect must not provide credentials.
    return url if base is None else url.copy_with(username="", password="")


def headers_of(step: FetchStepUrl, variables: Mapping[str, str]) -> dict[str, str]:
    """Return the headers of the source with their values. Raises `MalformedSource`,
    `InvalidPattern`, `ValueNotFound`."""
    given = [(each.name, expand(each.value, variables)) for each in step.headers or ()]
    check_headers(given)
    return dict(given)


def _login(url: httpx.URL) -> dict[str, str]:
    if not url.userinfo:
        return {}
    word = base64.b64encode(unquote(url.userinfo.decode()).encode()).decode()
    return {"Authorization": f"Basic {word}"}


def _conditions(request: FetchRequest) -> dict[str, str]:
    """Return headers that let a server respond 304. Times have the form that all servers know
    (GMT)."""
    tag = request.state_of(ETAG)
    if tag is not None:
        printable = tag.isascii() and tag.isprintable()
        return {"If-None-Match": tag} if printable else {}
    since = request.state_of(LAST_MODIFIED)
    if since is None:
        return {}
    try:
        when = Instant.parse(since).to_datetime().astimezone(UTC)
    except MalformedInstant:
        return {}
    return {"If-Modified-Since": format_datetime(when, usegmt=True)}


def _state_of(headers: httpx.Headers) -> SourceState | None:
    tag = headers.get("etag")
    if tag and len(tag) <= MAX_VALIDATOR_CHARS:
        return state(ETAG, tag)
    modified = http_time(headers.get("last-modified"))
    return None if modified is None else state(LAST_MODIFIED, str(modified))


def http_time(text: str | None) -> Instant | None:
    """Parse the time of a header; None if it is missing or unreadable."""
    if not text:
        return None
    try:
        when = parsedate_to_datetime(text)
        return Instant.from_datetime(when if when.tzinfo else when.replace(tzinfo=UTC))
    except (ValueError, TypeError, OverflowError, MalformedInstant):
        return None


def _event_time(step: FetchStepUrl, left_off: SourceState | None, request: FetchRequest) -> Instant:
    """Return the modification time, known only without an entity tag; else the time of the poll."""
    asked = isinstance(step.event_time, EventTimeSourceFromSystemTime)
    if asked or left_off is None or left_off.kind != LAST_MODIFIED:
        return request.system_time
    return Instant.parse(left_off.value)


def _origin(url: httpx.URL) -> tuple[str, str, int]:
    return url.scheme, url.host, url.port or _PORTS[url.scheme]
