"""Fetch new bytes for a fetch step: the tables of kinds and schemes, and the schemes of FTP.

Sources at `ftp` and `ftps` addresses (TLS from the first byte, as the URL scheme means it) are
always fetched, since these servers report no state that could be remembered.
"""

from __future__ import annotations

import ftplib
import socket
import ssl
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Any
from urllib.parse import unquote, urlsplit

import msgspec

from odf_protocol.errors import BadInput, NodeError, RemoteFailed
from odf_protocol.kartothek import source as kartothek
from odf_protocol.metadata.sources import (
    EventTimeSourceFromPath,
    FetchStep,
    FetchStepContainer,
    FetchStepFilesGlob,
    FetchStepUrl,
)
from odf_protocol.multihash import Multihash
from odf_protocol.sources.source_marks import (
    ADDRESS_KEY,
    BODY_KEY,
    DEFINITION_KEY,
    address_mark,
    definition_mark,
)
from odf_storage.datasets.dataset.info import chunks

from .container import fetch_container
from .files import fetch_file
from .glob import fetch_files_glob, from_path
from .http import fetch_http, headers_of
from .kartothek import fetch_kartothek
from .values import (
    Deadline,
    EventTimeNotFound,
    Fetched,
    FetchRequest,
    FetchRules,
    allowed_addresses,
    as_written,
    check_size,
    expand,
)

BLOCK_BYTES = 256 * 1024
MAX_LINES = 1_000
"""Limit of lines in the control connection; the library has none."""
_PORTS = {"ftp": 21, "ftps": 990}
_NO_FILE = "550"


class _Ftp(ftplib.FTP):
    """FTP to a checked address; `deadline` and a count of lines limit the dialogue."""

    lines = 0
    deadline: Deadline

    def getline(self) -> str:
        self.lines += 1
        self.deadline.check()
        if self.lines > MAX_LINES:
            raise ftplib.error_proto("the server does not stop talking")  # noqa: S321
        return super().getline()


class _FtpTls(_Ftp, ftplib.FTP_TLS):
    """The same through TLS, for the host name of the source."""

    def connect_tls(self, address: str, port: int, name: str, tls: ssl.SSLContext) -> None:
        plain = socket.create_connection((address, port), self.timeout)
        self.af = plain.family
        self.sock: Any = tls.wrap_socket(plain, server_hostname=name)
        self.file = self.sock.makefile("r", encoding=self.encoding)
        self.host = name
        self.welcome = self.getresp()


def fetch_ftp(_: FetchStepUrl, url: str, request: FetchRequest) -> Fetched:
    """Fetch the file; the time of the poll is its event time.

    Raises:
        SourceMissing: the server has no such file.
        SourceUnreachable, SourceRefused, FetchedTooLarge, EventTimeNotFound.
    """
    parts = urlsplit(url)
    try:
        host, port = parts.hostname or "", parts.port or _PORTS[parts.scheme]
    except ValueError:
        raise BadInput("MalformedSource", "the address of the source has no such port") from None
    path = unquote(parts.path).removeprefix("/")
    if not host or not path or "\r" in url or "\n" in url:
        raise BadInput("MalformedSource", "an ftp address names a host and a file")
    login = (unquote(parts.username or "anonymous"), unquote(parts.password or "anonymous@"))
    deadline = Deadline(request.rules)
    ftp: _Ftp | None = None
    try:
        ftp = _connected(parts.scheme, host, port, request, deadline)
        ftp.login(*login) if not isinstance(ftp, _FtpTls) else ftp.login(*login, secure=False)
        if isinstance(ftp, _FtpTls):
            ftp.prot_p()
        _retrieve(ftp, path, request, deadline)
    except ftplib.error_perm as bad:
        if str(bad).startswith(_NO_FILE):
            raise RemoteFailed(
                "SourceMissing", "the ftp server has no such file", host=host
            ) from None
        said = str(bad)[:200]
        raise RemoteFailed(
            "SourceUnreachable", f"the ftp server refuses ({said})", host=host, reason=said
        ) from None
    except (ftplib.Error, OSError, EOFError, ValueError) as bad:
        raise RemoteFailed(
            "SourceUnreachable",
            f"the ftp server {host!r} cannot be read ({type(bad).__name__})",
            host=host,
        ) from bad
    finally:
        if ftp is not None:
            with suppress(OSError):
                ftp.close()
    return Fetched(path=request.folder / "fetched", state=None, event_time=request.system_time)


def _connected(
    scheme: str, host: str, port: int, request: FetchRequest, deadline: Deadline
) -> _Ftp:
    rules = request.rules
    address = allowed_addresses(host, port, rules)[0]
    if scheme == "ftp":
        plain = _Ftp(timeout=rules.connect_s)
        plain.deadline = deadline
        plain.connect(address, port)
        return plain
    tls = rules.tls()
    secure = _FtpTls(timeout=rules.connect_s, context=tls)
    secure.deadline = deadline
    secure.connect_tls(address, port, host, tls)
    return secure


def _retrieve(ftp: _Ftp, path: str, request: FetchRequest, deadline: Deadline) -> None:
    size = 0
    with (request.folder / "fetched").open("wb") as out:

        def keep(chunk: bytes) -> None:
            nonlocal size
            size += len(chunk)
            check_size(size, request.rules)
            deadline.check()
            out.write(chunk)

        ftp.retrbinary(f"RETR {path}", keep, BLOCK_BYTES)


def fetch(step: FetchStep, request: FetchRequest) -> Fetched | None:
    """Fetch new bytes of the source into `request.folder`; None if it is up to date.

    Raises:
        Unsupported: this node does not fetch this kind of source or address.
        NodeError: the errors of each kind, defined in its module.
    """
    fetcher = KINDS.get(type(step))
    if fetcher is None:
        kind = msgspec.to_builtins(step)["kind"]
        raise BadInput(
            "Unsupported",
            f"this node does not fetch from {kind} sources: push their data, or use a container",
            kind=kind,
        )
    try:
        return fetcher(step, request)
    except NodeError as error:
        raise as_written(error, step) from error.__cause__


def _fetch_url(step: FetchStepUrl, request: FetchRequest) -> Fetched | None:
    url = expand(step.url, request.rules.variables, is_address=True)
    address = _address_of(step, url, request.rules)
    if request.marks.get(ADDRESS_KEY) not in (None, address):
        request = replace(request, state=None)
    if step.cache is not None and request.state is not None:
        return None  # cached for ever: never read again
    try:
        parts = urlsplit(url)
        scheme, place = parts.scheme, unquote(parts.path)
    except ValueError:
        raise BadInput("MalformedSource", "the address of the source cannot be read") from None
    fetcher = SCHEMES.get(scheme)
    if fetcher is None:
        raise BadInput(
            "Unsupported",
            f"sources of the scheme {scheme!r} are not fetched; known are {', '.join(SCHEMES)}",
            scheme=scheme,
        )
    if not isinstance(step.event_time, EventTimeSourceFromPath):
        return _marked(fetcher(step, url, request), request, address)
    try:
        when = from_path(step.event_time, place)
    except EventTimeNotFound:
        if "${{" not in step.url:
            raise
        raise EventTimeNotFound("the path of the source holds no time of the pattern") from None
    found = fetcher(step, url, request)
    if found is None:
        return None
    return _marked(replace(found, event_time=when), request, address, f"@{when}")


def _address_of(step: FetchStepUrl, url: str, rules: FetchRules) -> str:
    """Return the mark of an address: its tag and time are no conditions for another one, whether
    the source or the value of a variable changed. Equal bytes are a repeat, wherever they lie."""
    headers = headers_of(step, rules.variables)
    is_template = any("${{" in text for text in (step.url, *(h.value for h in step.headers or ())))
    return address_mark(url, list(headers.items()), rules.mark_key if is_template else b"")


def _marked(
    found: Fetched | None, request: FetchRequest, address: str, time: str = ""
) -> Fetched | None:
    """Note the hash of the bytes, with the time that the path gives them, and where they came from.
    The state of a table says which files it has."""
    if found is None or found.table is not None:
        return found
    body = f"{Multihash.of_chunks(chunks(found.path))}{time}"
    marks = {**found.marks, BODY_KEY: body, ADDRESS_KEY: address}
    if request.source is not None:
        marks[DEFINITION_KEY] = definition_mark(request.source)
    return replace(found, marks=marks)


SCHEMES: dict[str, Callable[[FetchStepUrl, str, FetchRequest], Fetched | None]] = {
    "http": fetch_http,
    "https": fetch_http,
    "file": fetch_file,
    "ftp": fetch_ftp,
    "ftps": fetch_ftp,
    **dict.fromkeys(kartothek.SCHEMES, fetch_kartothek),
}
KINDS: dict[type, Callable[[Any, FetchRequest], Fetched | None]] = {
    FetchStepUrl: _fetch_url,
    FetchStepFilesGlob: fetch_files_glob,
    FetchStepContainer: fetch_container,
}
