"""The table of routes that are served in front of the framework.

`main.py` provides the rows. The framework serves every address that no row matches.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple
from urllib.parse import parse_qs

from starlette.types import ASGIApp, Scope

from odf_storage.datasets.node.naming import RESERVED

from ..setting_groups.words import Tenancy

SOCKET = "WS"
"""The method by which a WebSocket upgrade is found in the table."""
DATASET = "/{dataset}"
BUCKET = "/{bucket}"
"""The path at which S3 clients request lists of objects."""
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
    """The segments of `[/account]/dataset/word[/name]`, not yet validated."""

    account: str | None
    dataset: str
    word: str
    name: str


@dataclass(frozen=True, slots=True)
class Route:
    """A pattern of addresses, and the ASGI application that serves them."""

    path: str
    """The pattern. Metrics, the log and the audit log name the route by it."""
    serve: ASGIApp
    methods: tuple[str, ...] = ()
    """The HTTP methods, for a dataset, addresses below it, and buckets. Elsewhere `serve` checks
    the method itself."""
    is_page: bool = False
    """Whether the route is a page for browsers, which identifies the actor and shows errors
    itself."""
    is_transfer: bool = False
    """Whether the transfer protocols prescribe its responses, errors included."""
    takes_signed: bool = False
    """Whether a signed URL grants access in place of a token."""
    takes_s3: bool = False
    """Whether requests with an S3 signature may read it."""
    is_audited: bool = True
    """Whether the audit log records requests that change something, also successful ones."""


LISTS = b"list-type"
"""The query parameter by which requests of S3 clients for lists are recognized."""
Found = tuple[Route | None, DatasetPath | None]


class Addresses:
    """The table of routes of a node with the given tenancy."""

    def __init__(self, tenancy: Tenancy, routes: Iterable[Route]) -> None:
        self._has_account = tenancy is Tenancy.MULTI
        self._word = 3 if self._has_account else 2
        """Index of the path segment after the dataset. Index 0 is the empty text before the first
        slash."""
        self._below: dict[tuple[str, str, int], Route] = {}
        self._exact: dict[str, Route] = {}
        self._forms: dict[str, list[tuple[list[str], Route]]] = {}
        """Routes with placeholders outside datasets, by their first segment."""
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
        """Return the route of a request, or None if the framework serves it, and the segments of
        the path if it is below a dataset or in a bucket."""
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
        """Return the dataset of a list request of an S3 client, None for other requests. It is
        the bucket, or with accounts the first segment of the prefix."""
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
    """Return whether `Accept` names HTML and not JSON, as browsers send it."""
    accepted = b",".join(value for name, value in scope["headers"] if name == b"accept")
    return b"text/html" in accepted and b"json" not in accepted


def is_open(path: str) -> bool:
    """Return whether even a node without anonymous access serves the path to everybody."""
    return path in OPEN or path.startswith(OPEN_FOLDERS)


def path_of(scope: Scope) -> DatasetPath:
    """Return the segments of the address, for routes below a dataset."""
    path: DatasetPath = scope["state"]["path"]
    return path
