"""Which address is this: one table of all that is served in front of the framework.

The rows are given by `main.py`. What no row names is the framework's.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple
from urllib.parse import parse_qs

from starlette.types import ASGIApp, Scope

from odf_node.storage.datasets.node.naming import RESERVED

from ..setting_groups.words import Tenancy

SOCKET = "WS"
"""The method of a WebSocket upgrade."""
DATASET = "/{dataset}"
BUCKET = "/{bucket}"
"""Where S3 clients ask for lists."""
OPEN = frozenset(
    {
        "/platform/login",
        "/ui-config",
        "/system/health",
        "/system/metrics",
        "/system/info",
        "/openapi",
        "/openapi.json",
        "/assets/runtime-config.json",
        "/v/login",
    }
)
OPEN_FOLDERS = ("/platform/token/", "/delta-sharing/changes/")


class DatasetPath(NamedTuple):
    """`[/account]/dataset/word[/name]`, in pieces; nothing is checked yet."""

    account: str | None
    dataset: str
    word: str
    name: str


@dataclass(frozen=True, slots=True)
class Route:
    """One form of address, and the ASGI application that answers there."""

    path: str
    """The pattern, by which it is found, counted, logged and audited."""
    serve: ASGIApp
    methods: tuple[str, ...] = ()
    """Below a dataset; elsewhere what serves the address knows its methods."""
    is_page: bool = False
    """For browsers: a page finds out itself who asks, and shows its own errors."""
    is_transfer: bool = False
    """Whether the transfer protocols fix its answers, errors included."""
    takes_signed: bool = False
    """Whether a signed URL opens it in place of a token."""
    takes_s3: bool = False
    """Whether requests that are signed as those to S3 may read there."""
    is_audited: bool = True
    """Whether requests for a change go into the audit log, also those that succeed."""


LISTS = b"list-type"
"""A parameter of requests for lists."""
Found = tuple[Route | None, DatasetPath | None]


class Addresses:
    """The table, for nodes of one tenancy."""

    def __init__(self, tenancy: Tenancy, routes: Iterable[Route]) -> None:
        self._has_account = tenancy is Tenancy.MULTI
        self._word = 3 if self._has_account else 2
        """Index of the segment behind the dataset; the one before the first slash is empty."""
        self._below: dict[tuple[str, str, int], Route] = {}
        self._exact: dict[str, Route] = {}
        self._forms: dict[str, list[tuple[list[str], Route]]] = {}
        """By their first word: addresses with names in them."""
        self._page: Route | None = None
        self._bucket: Route | None = None
        for route in routes:
            self._add(route)

    def _add(self, route: Route) -> None:
        if route.path == BUCKET:
            self._bucket = route
            return
        own, is_below, rest = route.path.partition(DATASET)
        words = rest.split("/")[1:]
        if not is_below and "{" in own:
            segments = own.split("/")
            self._forms.setdefault(segments[1], []).append((segments, route))
        elif not is_below:
            self._exact[own] = route
        elif not words:
            self._page = route
        for method in route.methods if words else ():
            self._below[method, words[0], len(words)] = route

    def find(self, scope: Scope) -> Found:
        """What serves a request, and the pieces of the path of a dataset; None: the framework."""
        if scope["type"] == "http" and LISTS in scope["query_string"]:
            listed = self._in_bucket(scope)
            if listed is not None:
                return self._bucket, listed
        path, at = scope["path"], self._word
        parts = path.split("/")
        if len(parts) > at and parts[at - 1] and parts[-1]:
            route = self._below.get((scope.get("method", SOCKET), parts[at], len(parts) - at))
            if route is not None:
                account = parts[1] if self._has_account else None
                name = parts[at + 1] if len(parts) > at + 1 else ""
                return route, DatasetPath(account, parts[at - 1], parts[at], name)
        if scope["type"] != "http":
            return None, None
        exact = self._exact.get(path) or self._with_names(parts)
        return exact or self._page_of_dataset(scope, path), None

    def _with_names(self, parts: list[str]) -> Route | None:
        for segments, route in self._forms.get(parts[1] if len(parts) > 1 else "", ()):
            pairs = zip(segments, parts, strict=False)
            fits = (one == part or (part and one.startswith("{")) for one, part in pairs)
            if len(segments) == len(parts) and all(fits):
                return route
        return None

    def _in_bucket(self, scope: Scope) -> DatasetPath | None:
        """The dataset of which S3 clients ask for a list: the bucket, or what the prefix says."""
        told = parse_qs(scope["query_string"].decode("latin-1"))
        bucket = scope["path"].strip("/")
        if self._bucket is None or scope["method"] not in self._bucket.methods:
            return None
        if told.get("list-type") != ["2"] or not bucket or "/" in bucket or bucket in RESERVED:
            return None
        if not self._has_account:
            return DatasetPath(None, bucket, "", "")
        (prefix,) = told.get("prefix", [""])[:1]
        return DatasetPath(bucket, prefix.partition("/")[0], "", "")

    def _page_of_dataset(self, scope: Scope, path: str) -> Route | None:
        parts = path.strip("/").split("/")
        if self._page is None or len(parts) != self._word - 1 or parts[0] in RESERVED:
            return None
        return self._page if scope["method"] in self._page.methods and prefers_html(scope) else None


def prefers_html(scope: Scope) -> bool:
    """Whether a browser asks: HTML is named, and JSON is not."""
    accepted = b",".join(value for name, value in scope["headers"] if name == b"accept")
    return b"text/html" in accepted and b"json" not in accepted


def is_open(path: str) -> bool:
    """Whether a node without anonymous access serves the path to everybody all the same."""
    return path in OPEN or path.startswith(OPEN_FOLDERS)


def path_of(scope: Scope) -> DatasetPath:
    """The pieces of the address, for what serves a path of a dataset."""
    path: DatasetPath = scope["state"]["path"]
    return path
