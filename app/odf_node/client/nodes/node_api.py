"""Client of the node's HTTP interface: create and list datasets, post records, watch jobs.

Unlike the transfer protocols, this works only with nodes of this project (for ingest also with
every node that has the reference's `POST …/ingest`).
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from types import MappingProxyType
from typing import Any, BinaryIO
from urllib.parse import urlencode, urljoin, urlsplit
from warnings import warn

from odf_protocol.errors import BadInput, Conflict, NodeError, NotFound

from .http import (
    SERVER_CHARS,
    Told,
    TransferFailed,
    Unauthenticated,
    Unauthorized,
    answer_facts,
    bearer,
    foreign_answer,
    in_front,
    is_foreign,
    origin,
    read_bounded,
    refuse_challenged,
    repeated,
    unreachable,
)
from .later import httpx
from .limits import LIMITS, ClientLimits, one_line, too_much
from .notices import Notice
from .repositories import body_of

JOB_LOOK_SECONDS = 0.5
PATIENCE_S = 20
"""Time in seconds for which the node waits for a job; proxies wait for a minute, some for half."""
REPLAYED = "replayed"
"""Key of receipts that the node gave to an earlier request of the same name."""
INFO, OURS = "/system/info", "pythonVersion"
"""Path of the facts about a node, and a fact that only nodes of this project tell."""
WAITING = "waiting"
ENDED = frozenset({"succeeded", "failed", "cancelled"})
MAX_PAGES = 10_000
FILES_A_PAGE = 500
"""Files per page, so that a page stays within the limit of a text response."""
Given = str | int | bool | Sequence[str] | None
"""The value of a parameter; None omits it."""
NOTHING: Mapping[str, Any] = MappingProxyType({})
Seen = Callable[[dict[str, Any]], None]
"""Called with a job each time it is polled."""
_NAMES = ("type", "title", "status", "detail", "message")


class RequestRefused(BadInput):
    """The node refuses the request."""


class NothingThere(NotFound):
    """The requested item is not on the node, or this account may not read it."""


class RequestConflict(Conflict):
    """The request conflicts with another one: a name is taken, or a head has moved."""


class NotOffered(NotFound):
    """The node is of another make, and does not have what is requested."""


class NodeApi:
    """Requests to one node, or to one dataset of it; `base` ends in `/`."""

    def __init__(
        self,
        base: str,
        token: str | None = None,
        *,
        http: httpx.Client,
        limits: ClientLimits = LIMITS,
    ) -> None:
        self._base, self._token = base, token
        self._http, self._limits = http, limits

    def create_dataset(
        self, manifest: bytes, *, visibility: str, dry_run: bool = False
    ) -> dict[str, Any]:
        """Create a dataset from one `DatasetSnapshot` manifest in YAML or JSON, or try it by
        `dry_run`.

        Raises `NotANode`: the address does not accept new datasets.
        """
        try:
            return self._call(
                "POST",
                "datasets",
                query={"visibility": visibility, **({"dryRun": "true"} if dry_run else {})},
                headers={"content-type": "application/yaml"},
                content=manifest,
            )
        except (RequestRefused, NothingThere) as refused:
            if refused.facts.get("status") in (404, 405):
                raise NotFound(
                    "NotANode",
                    f"{self._base} takes no datasets; name the node itself, not an account or a "
                    "dataset",
                    url=self._base,
                ) from refused
            raise

    def try_manifests(
        self, manifests: str, sample: dict[str, str | None] | None
    ) -> list[dict[str, Any]]:
        """Try manifests on a sample and return the content of each dataset; nothing is created. A
        sample has the keys of the request: `content` in Base64, `fileName`, `mediaType`,
        `dataset`, `sourceName`."""
        body: dict[str, Any] = {"manifests": manifests}
        if sample is not None:
            body["sample"] = {key: text for key, text in sample.items() if text is not None}
        answer = self._call(
            "POST",
            "datasets/trial",
            headers={"content-type": "application/json"},
            content=json.dumps(body).encode(),
        )
        return list(answer["datasets"])

    def dependencies(self) -> dict[str, Any]:
        """Return the inputs and the users of the dataset at `base`."""
        return self._call("GET", "dependencies")

    def datasets(self, *, details: bool = False, **wanted: str | None) -> Iterator[dict[str, Any]]:
        """Yield all visible datasets, page by page; with `details` also their sizes. `wanted` may
        have `search`, `kind`, `account`, `visibility`, `keyword`, `license`, `since`, `sort` and
        `order`."""
        query: dict[str, Given] = {name: text for name, text in wanted.items() if text}
        query |= {"details": True} if details else {}
        for _ in range(MAX_PAGES):
            page = self._call("GET", "datasets", query=query)
            yield from page.get("datasets", [])
            if page.get("next") is None:
                return
            query["after"] = str(page["next"])

    def file_pages(self, at: str | None = None) -> Iterator[dict[str, Any]]:
        """Yield pages of the data slices of the dataset at `base`, newest first, with facts of the
        chain as of the block `at`; the default is the head at the first page."""
        query: dict[str, Given] = {"limit": FILES_A_PAGE}
        for _ in range(MAX_PAGES):
            query["at"] = at
            page = self._call("GET", "files", query=query)
            yield page
            if page.get("next") is None:
                return
            at, query["before"] = str(page["at"]), str(page["next"])

    def dataset(self) -> dict[str, Any]:
        """Return the description of the dataset at `base`."""
        return self._call("GET", "")

    def look(self, path: str) -> dict[str, Any]:
        """Return the response of a GET at a path below `base`."""
        return self._call("GET", path)

    def append(
        self, manifest: bytes, *, expected_head: str | None = None, dry_run: bool = False
    ) -> dict[str, Any]:
        """Append one authored event to the dataset at `base`, or try it by `dry_run`."""
        query = {"expectedHead": expected_head, "dryRun": dry_run or None}
        return self._call(
            "POST",
            "metadata",
            query=query,
            headers={"content-type": "application/yaml"},
            content=manifest,
        )

    def ingest(
        self,
        content: Callable[[], Iterable[bytes]],
        *,
        media_type: str | None,
        source_name: str | None = None,
        changelog: bool = False,
        add_columns: bool = False,
        event_time: str | None = None,
        size: int | None = None,
        expected_head: str | None = None,
        dry_run: bool = False,
        on_bad_rows: str | None = None,
        max_bad_rows: int | None = None,
        key: str | None = None,
        signature: str | None = None,
        wait: bool = True,
        repeat_s: float | None = None,
        seen: Seen | None = None,
        told: Told | None = None,
    ) -> dict[str, Any]:
        """Post records to the dataset at `base`. Return the receipt after the batch is ingested.

        With `key` a repeated call gets the response of the first, with `replayed` in it; and the
        body is sent again for `repeat_s` seconds (default: that of the limits) if the connection
        breaks or a server asks to wait: `content()` gives it from its beginning, `told` is called
        before each repeat. Without `wait` return the address of the job. `seen` is called with the
        job at each poll.
        """
        headers = {
            "content-type": media_type,
            "odf-event-time": event_time,
            "odf-signature": signature,
            "content-length": None if size is None else str(size),
            "idempotency-key": key,
            "prefer": "respond-async" if seen is not None or not wait else f"wait={PATIENCE_S}",
        }
        query = {
            "sourceName": source_name,
            "changelog": changelog or None,
            "addColumns": add_columns or None,
            "expectedHead": expected_head,
            "dryRun": dry_run or None,
            "onBadRows": on_bad_rows,
            "maxBadRows": max_bad_rows,
        }

        def post(attempt: int) -> dict[str, Any]:
            late = {"prefer": "respond-async"} if attempt else {}  # whoever gave up does so again
            given = {**headers, **late}
            return self._call("POST", "ingest", query=query, headers=given, content=content())

        if key is None:
            answer = post(0)
        else:
            seconds = self._limits.repeat_s if repeat_s is None else repeat_s
            answer = repeated(post, seconds=seconds, told=told)
        if "job" not in answer or not wait:
            return answer
        replayed = {name: answer[name] for name in (REPLAYED,) if name in answer}
        return {**self._wait_for(str(answer["url"]), seen), **replayed}

    def raw(self, path: str) -> bytes:
        """Return the raw body at a path below `base`, within the limit of metadata."""
        url = self._base + path
        response = self._answer("GET", url)
        with closing(response), _network(url):
            return read_bounded(response, self._limits.metadata_bytes, "the answer of the node")

    def attestations(self, after: int) -> tuple[list[bytes], int]:
        """Return a page of attestations of the dataset at `base`, and what the next comes after."""
        with self.opened("attestations", after=str(after)) as (headers, stream):
            raw = stream.read(self._limits.attestation_bytes + 1)
        if len(raw) > self._limits.attestation_bytes:
            raise too_much("a page of attestations", self._limits.attestation_bytes)
        following = headers.get("odf-next", "")
        lines = [line for line in raw.split(b"\n") if line]
        return lines, int(following) if following[:18].isdecimal() and len(
            following
        ) <= 18 else after

    def attest(self, lines: bytes) -> dict[str, Any]:
        """Add attestations, a line each, to the dataset at `base`."""
        headers = {"content-type": "application/vnd.in-toto.bundle"}
        return self._call("POST", "attestations", headers=headers, content=lines)

    def ask(self, method: str, path: str, body: Any = None, **query: str | None) -> dict[str, Any]:
        """Send a small request below `base`, with JSON in both directions."""
        return self._call(
            method,
            path,
            query=query,
            headers={} if body is None else {"content-type": "application/json"},
            content=None if body is None else json.dumps(body).encode(),
        )

    def ask_by_form(self, path: str, form: Mapping[str, str]) -> dict[str, Any]:
        """Send a small form request below `base`, as browsers and OAuth do."""
        headers = {"content-type": "application/x-www-form-urlencoded"}
        return self._call("POST", path, headers=headers, content=urlencode(form).encode())

    def refresh(
        self,
        *,
        exhaust_sources: bool = False,
        fetch_uncacheable: bool = False,
        max_vanish_percent: int | None = None,
        late_files: bool = False,
        files: Sequence[str] = (),
        recursive: bool = False,
        reset_on_diverged: bool = False,
        force: bool = False,
        seen: Seen | None = None,
    ) -> dict[str, Any]:
        """Refresh the dataset at `base` by fetching or computing. Return the receipt.

        `seen` is called with the job at each poll; for a recursive refresh only if the node's
        wait for it has ended.
        """
        query = {
            "exhaustSources": exhaust_sources or None,
            "fetchUncacheable": fetch_uncacheable or None,
            "recursive": recursive or None,
            "resetOnDivergedInput": reset_on_diverged or None,
            "force": force or None,
            "maxVanishPercent": max_vanish_percent,
            "lateFiles": late_files or None,
            "file": list(files) or None,
        }
        headers = _looking(None if recursive else seen)
        answer = self._call("POST", "refresh", query=query, headers=headers)
        return self._wait_for(str(answer["url"]), seen) if "job" in answer else answer

    def query_in_background(
        self, body: dict[str, Any], *, wait: bool = True, seen: Seen | None = None
    ) -> dict[str, Any]:
        """Have the node at `base` run a query as a job. Return the receipt; without `wait`, the
        address of the job. `seen` is called with the job at each poll."""
        headers = {"content-type": "application/json", "prefer": "respond-async"}
        answer = self._call("POST", "query", headers=headers, content=json.dumps(body).encode())
        return self._wait_for(str(answer["url"]), seen) if wait else answer

    def lineage(
        self, *, upstream: int, downstream: int, columns: bool, form: str
    ) -> dict[str, Any]:
        """Return the lineage graph around the dataset at `base`, or OpenLineage events."""
        query: dict[str, Given] = {
            "upstream": upstream,
            "downstream": downstream,
            "columns": columns,
            "format": form,
        }
        return self._call("GET", "lineage", query=query)

    def lookup(
        self,
        columns: Sequence[str],
        values: Sequence[str],
        *,
        block: str | None = None,
        state: bool = False,
        limit: int = 100,
    ) -> dict[str, Any]:
        """Return rows of the dataset at `base` with these values, in offset order, as `data`."""
        query: dict[str, Given] = {
            "column": columns,
            "value": values,
            "blockHash": block,
            "state": state,
            "limit": limit,
        }
        return self._call("GET", "lookup", query=query)

    def why(self, *, seen: Seen | None = None, **question: Given) -> dict[str, Any]:
        """Return why a row of the dataset at `base` is there; wait if it takes long. A node answers
        an equal question by the job that ended, with more than that job's result has. `seen` is
        called with the job at each poll."""
        answer = self._call("GET", "why", query=question, headers=_looking(seen))
        if "job" not in answer:
            return answer
        result = self._wait_for(str(answer["url"]), seen)
        again = self._call("GET", "why", query=question)
        return result if "job" in again else again

    def act(self, action: str, *, seen: Seen | None = None, **given: Given) -> dict[str, Any]:
        """POST an action on the dataset at `base`. Return its result; wait if it is a job.

        Parameters that are None are omitted. `seen` is called with the job at each poll.
        """
        answer = self._call("POST", action, query=given, headers=_looking(seen))
        return self._wait_for(str(answer["url"]), seen) if "job" in answer else answer

    def _wait_for(self, url: str, seen: Seen | None = None) -> dict[str, Any]:
        """Poll a job until it ends, and return its result. Tell of one that no worker takes."""
        # A node behind a proxy may know itself by another name; the token stays at this one.
        url = origin(self._base) + urlsplit(url).path
        began = time.monotonic()
        while (waited := time.monotonic() - began) < self._limits.confirm_s:
            job = repeated(lambda _: self._request("GET", url), seconds=self._limits.repeat_s)
            if seen is not None:
                seen(job)
            if job.get("status") == WAITING and waited > self._limits.untaken_s:
                name = one_line(url.rpartition("/")[2])
                warn(Notice(f"no worker took job {name} yet"), stacklevel=2)
            if job.get("status") in ENDED:
                if isinstance(job.get("result"), dict):
                    return dict(job["result"])
                problem = job.get("problem") or {"message": "the job was cancelled"}
                raise _error(int(problem.get("status", 500)), problem)
            time.sleep(JOB_LOOK_SECONDS)
        raise TransferFailed("the job has not ended yet", url=url)

    def _call(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, Given] = NOTHING,
        headers: Mapping[str, str | None] = NOTHING,
        content: bytes | Iterable[bytes] | None = None,
    ) -> dict[str, Any]:
        """Send a request below `base`; omit query parameters and headers that are None."""
        url = self._base + path if path else self._base.rstrip("/")
        return self._request(
            method,
            url,
            query={name: value for name, value in query.items() if value is not None},
            headers={name: value for name, value in headers.items() if value is not None},
            content=content,
        )

    def _request(
        self,
        method: str,
        url: str,
        *,
        query: Mapping[str, str | int | bool | Sequence[str]] | None = None,
        headers: Mapping[str, str] | None = None,
        content: bytes | Iterable[bytes] | None = None,
    ) -> dict[str, Any]:
        """Return the response as a JSON object, or raise a typed error."""
        response = self._answer(method, url, query=query, headers=headers, content=content)
        with closing(response), _network(url):
            body = read_bounded(response, self._limits.text_bytes, "the answer of the node")
        if body.lstrip()[:1] == b"<":
            raise TransferFailed(f"{url} is a page, not a dataset or node", url=url)
        document = _document(body) or {}
        if response.headers.get("idempotent-replayed") == "true":
            document[REPLAYED] = True
        return document

    @contextmanager
    def opened(
        self, path: str, *, body: Any = None, accept: str | None = None, **query: Given
    ) -> Iterator[tuple[Mapping[str, str], BinaryIO]]:
        """Yield headers and streamed body of a response of any length below `base`. The request is
        a POST if there is a JSON `body` to send, else a GET."""
        url = self._base + path
        given = {name: value for name, value in query.items() if value is not None}
        headers = {"accept": accept} if accept else {}
        content = None
        if body is not None:
            headers |= {"content-type": "application/json"}
            content = json.dumps(body).encode()
        method = "GET" if body is None else "POST"
        response = self._answer(method, url, query=given, headers=headers, content=content)
        with body_of(response, url, "the answer", limits=self._limits) as stream:
            yield response.headers, stream

    def _answer(
        self,
        method: str,
        url: str,
        *,
        query: Mapping[str, str | int | bool | Sequence[str]] | None = None,
        headers: Mapping[str, str] | None = None,
        content: bytes | Iterable[bytes] | None = None,
    ) -> httpx.Response:
        """Return a successful response with an unread body, which the caller must close. A read is
        repeated for some seconds if a server before the node asks to wait."""

        def once(_: int) -> httpx.Response:
            return self._once(method, url, query=query, headers=headers, content=content)

        try:
            if method != "GET":
                return once(0)
            return repeated(once, seconds=self._limits.reread_s, again=in_front)
        except (NothingThere, RequestRefused) as refused:
            facts = refused.facts
            is_bare = facts.get("reported") is None and "answered_by" not in facts
            if is_bare and facts.get("status") in (404, 405) and self._is_of_another_make():
                below = url.removeprefix(self._base.rstrip("/")).strip("/")
                what = below.partition("?")[0] or "descriptions of datasets"
                raise NotOffered(
                    f"the node at {origin(url)} is of another make and does not offer {what}, or "
                    "nothing is there; pull, push, verify and ingest work with it",
                    url=url,
                    status=facts["status"],
                ) from refused
            raise

    def _is_of_another_make(self) -> bool:
        """Whether the server says that it is an ODF node, but not one of this project."""
        try:
            answer = self._once(
                "GET", urljoin(self._base, INFO), query=None, headers=None, content=None
            )
            with closing(answer):
                info = _document(read_bounded(answer, self._limits.text_bytes, "the answer"))
        except NodeError:
            return False
        return info is not None and "appVersion" in info and OURS not in info

    def _once(
        self,
        method: str,
        url: str,
        *,
        query: Mapping[str, str | int | bool | Sequence[str]] | None,
        headers: Mapping[str, str] | None,
        content: bytes | Iterable[bytes] | None,
    ) -> httpx.Response:
        with _network(url):
            request = self._http.build_request(
                method,
                url,
                params=dict(query or {}),
                headers={**bearer(self._token), **(headers or {})},
                content=content,
                timeout=httpx.Timeout(self._limits.message_s, connect=self._limits.connect_s),
            )
            response = self._http.send(request, stream=True, follow_redirects=method == "GET")
            if response.is_success:
                return response
            with closing(response):
                raise self._refusal(response)

    def _refusal(self, response: httpx.Response) -> Exception:
        """Return the node's refusal as an error."""
        body = read_bounded(response, self._limits.text_bytes, "the answer of the node")
        refuse_challenged(response.headers, response.status_code)
        status, document = response.status_code, _document(body)
        facts = answer_facts(response)
        if is_foreign(status, body, document):
            facts["answered_by"] = one_line(response.headers.get("server", ""))[:SERVER_CHARS]
            return _error(
                status, {**facts, "message": foreign_answer(response, str(response.url), body)}
            )
        given = {} if self._token else {"hint": UNSIGNED}
        return _error(status, {**facts, **(document or {"message": _text(body)})}, **given)


@contextmanager
def _network(url: str) -> Iterator[None]:
    """Convert network failures into the client's errors."""
    try:
        yield
    except (httpx.HTTPError, httpx.InvalidURL, UnicodeError) as error:
        raise unreachable(url, error) from error


def _looking(seen: Seen | None) -> dict[str, str]:
    """Return the headers so that the node does not wait for a job that the client polls."""
    return {} if seen is None else {"prefer": "respond-async"}


def _document(body: bytes) -> dict[str, Any] | None:
    try:
        document = json.loads(body)
    except (ValueError, RecursionError):
        return None
    return document if isinstance(document, dict) else None


def _text(body: bytes) -> str:
    return one_line(body[:4096].decode("utf-8", "replace"))


def _error(status: int, problem: Mapping[str, Any], *, hint: str = "") -> Exception:
    """Convert a status and a problem document into an error, which keeps the facts.

    The `hint` is appended for a caller that is not authorized.
    """
    said = problem.get("detail") or problem.get("message") or ""
    message = one_line(str(said)) or _UNSAID.get(status) or f"the node answered {status}"
    message += hint if status in (401, 403) else ""
    facts = {key: value for key, value in problem.items() if key not in _NAMES}
    facts |= {"status": status, "reported": problem.get("type")}
    if status in range(400, 500):
        return _KINDS.get(status, RequestRefused)(message, **facts)
    return TransferFailed("NodeReportsFailure", message, **facts)


_KINDS: dict[int, type[NodeError]] = {
    401: Unauthenticated,
    403: Unauthorized,
    404: NothingThere,
    409: RequestConflict,
}
UNSIGNED = (
    "; no access token was sent: log in by odf-node login NODE, set ODF_NODE_TOKEN or pass --token"
    " (that of the environment is for the node at ODF_NODE_URL, or on this machine;"
    " on the node: odf-node token create --account NAME)"
)
_UNSAID = {
    401: "the node asks for a valid token",
    403: "the node does not allow this for this account",
    404: "nothing is there, or nothing that this account may see",
}
"""Messages for refusals without a body: at path addresses nodes send none, as the reference
does."""
