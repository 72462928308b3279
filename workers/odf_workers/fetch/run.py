"""Fetch new bytes for a fetch step: the tables of kinds and schemes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any
from urllib.parse import unquote, urlsplit

import msgspec

from odf_protocol.errors import NodeError
from odf_protocol.kartothek import source as kartothek
from odf_protocol.metadata.sources import (
    EventTimeSourceFromPath,
    FetchStep,
    FetchStepContainer,
    FetchStepFilesGlob,
    FetchStepUrl,
)
from odf_protocol.multihash import Multihash
from odf_protocol.source_marks import BODY_KEY
from odf_storage.datasets.dataset.local_files import chunks

from ..slices.frame import Unsupported
from .container import fetch_container
from .event_time import from_path
from .files import fetch_file
from .ftp import fetch_ftp
from .glob import fetch_files_glob
from .http import fetch_http
from .kartothek import fetch_kartothek
from .templates import expand
from .values import EventTimeNotFound, Fetched, FetchRequest, MalformedSource
from .written import as_written


def fetch(step: FetchStep, request: FetchRequest) -> Fetched | None:
    """Fetch new bytes of the source into `request.folder`; None if it is up to date.

    Raises:
        Unsupported: this node does not fetch this kind of source or address.
        NodeError: the errors of each kind, defined in its module.
    """
    fetcher = KINDS.get(type(step))
    if fetcher is None:
        kind = msgspec.to_builtins(step)["kind"]
        raise Unsupported(
            f"this node does not fetch from {kind} sources: push their data, or use a container",
            kind=kind,
        )
    try:
        return fetcher(step, request)
    except NodeError as error:
        raise as_written(error, step) from error.__cause__


def _fetch_url(step: FetchStepUrl, request: FetchRequest) -> Fetched | None:
    if step.cache is not None and request.state is not None:
        return None  # cached for ever: never read again
    url = expand(step.url, request.rules.variables)
    try:
        parts = urlsplit(url)
        scheme, place = parts.scheme, unquote(parts.path)
    except ValueError:
        raise MalformedSource("the address of the source cannot be read") from None
    fetcher = SCHEMES.get(scheme)
    if fetcher is None:
        raise Unsupported(
            f"sources of the scheme {scheme!r} are not fetched; known are {', '.join(SCHEMES)}",
            scheme=scheme,
        )
    if not isinstance(step.event_time, EventTimeSourceFromPath):
        return _marked(fetcher(step, url, request), "")
    try:
        when = from_path(step.event_time, place)
    except EventTimeNotFound:
        if "${{" not in step.url:
            raise
        raise EventTimeNotFound("the path of the source holds no time of the pattern") from None
    found = fetcher(step, url, request)
    return None if found is None else _marked(replace(found, event_time=when), f"@{when}")


def _marked(found: Fetched | None, time: str) -> Fetched | None:
    """Note the hash of the bytes, with the time that the path gives them. The state of a table says
    which files it has."""
    if found is None or found.table is not None:
        return found
    return replace(found, marks={BODY_KEY: f"{Multihash.of_chunks(chunks(found.path))}{time}"})


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
