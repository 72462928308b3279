"""The node under test with its tokens and the datasets that checks make, and `expect` functions."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import Enum
from typing import Any
from urllib.parse import urlsplit

from .chains import Chain, ten_records
from .http import Answer, follow, request
from .mimic import Mimic
from .websocket import CloseReason, GaveUp

SAMPLE_BYTES = 16 * 1024 * 1024
"""Limit in bytes of objects that checks fetch from a dataset that they did not publish."""


class Deviation(Exception):
    """The node does not follow the protocol."""


class NodeNeed(Enum):
    """What a check needs beyond a public dataset."""

    WRITING = "a token, and leave to publish datasets"
    MULTI = "a multi-tenant node"
    OTHER = "a token of another account (--other-token)"
    PASSWORD = "the password of the account (--password)"  # noqa: S105
    EXPIRED = "an expired token (--expired-token)"
    PATIENCE = "more patience (--patience)"


@dataclass(frozen=True)
class ConformanceCheck:
    """A scenario: its numbers in the scenarios document, its function, and its needs."""

    id: str
    """One number or several, such as `D12 D13`."""
    run: Callable[[NodeUnderTest], None]
    needs: tuple[NodeNeed, ...] = ()
    title: str = ""

    @property
    def sentence(self) -> str:
        words = self.title or getattr(self.run, "__name__", "").replace("_", " ")
        return words[:1].upper() + words[1:]


def check(
    id: str,  # noqa: A002
    run: Callable[[NodeUnderTest], None],
    *needs: NodeNeed,
    title: str = "",
) -> ConformanceCheck:
    return ConformanceCheck(id, run, needs, title)


@dataclass(frozen=True)
class PublishedChain:
    """A dataset on the node, and its expected content."""

    url: str
    chain: Chain


@dataclass
class NodeUnderTest:
    """A node under test. `dataset` is the URL of a public dataset of it, if there is one."""

    origin: str
    multi: bool
    token: str | None = None
    account: str | None = None
    other: str | None = None
    expired: str | None = None
    password: str | None = field(default=None, repr=False)
    dataset: str | None = None
    read_only: bool = False
    patience_s: float = 3.0
    progress_s: float = 10.0
    created: list[str] = field(default_factory=list)
    _shown: PublishedChain | None = None
    _bases: dict[str, PublishedChain] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def missing(self, check: ConformanceCheck) -> NodeNeed | None:
        """Return the first need of a check that this run does not meet."""
        there = {
            NodeNeed.WRITING: self.token is not None and not self.read_only,
            NodeNeed.MULTI: self.multi,
            NodeNeed.OTHER: self.other is not None,
            NodeNeed.PASSWORD: self.password is not None,
            NodeNeed.EXPIRED: self.expired is not None,
            NodeNeed.PATIENCE: self.patience_s >= 2.5 * self.progress_s,
        }
        return next((need for need in check.needs if not there[need]), None)

    def address(self, name: str, account: str | None = None) -> str:
        """Return the base URL of a dataset, in our account unless another one is given."""
        owner = account or self.account or "nobody"
        return f"{self.origin}/{owner}/{name}/" if self.multi else f"{self.origin}/{name}/"

    def fresh(self, account: str | None = None) -> str:
        """Return an address that no dataset has, and note it for `clean`."""
        url = self.address(f"conformance-{os.urandom(6).hex()}", account)
        self.created.append(url)
        return url

    def mimic(self, url: str, token: str | None = None) -> Mimic:
        """Return a client with our token, or with another one; `""` means none."""
        return Mimic(url, self.token if token is None else token or None)

    def publish(self, chain: Chain, visibility: str = "Private") -> PublishedChain:
        """Push a chain to a new address."""
        url = self.fresh()
        self.mimic(url).push(chain, visibility=visibility)
        return PublishedChain(url, chain)

    @property
    def shown(self) -> PublishedChain:
        """A public dataset: the given one in its present state, or one that this run publishes."""
        with self._lock:
            if self._shown is None and self.dataset is not None:
                chain = Chain()
                Mimic(self.dataset).simple_pull(chain, take=_small)
                self._shown = PublishedChain(self.dataset, chain)
            elif self._shown is None:
                self._shown = self.publish(ten_records(), "Public")
            return self._shown

    def base(self, name: str, make: Callable[[], Chain]) -> PublishedChain:
        """Return a dataset that checks share and do not change; the first call publishes it."""
        if name not in self._bases:
            self._bases[name] = self.publish(make())
        return self._bases[name]

    def ask(
        self, method: str, path: str, token: str | None = "", body: bytes | None = None
    ) -> Answer:
        """Send a request to the node, anonymous unless a token is given."""
        url = path if path.startswith("http") else self.origin + path
        bearer = [("authorization", f"Bearer {token}")] if token else []
        if body is None and method in ("GET", "HEAD"):
            return follow(method, url, bearer)
        return request(method, url, bearer, body or b"")

    def clean(self) -> list[str]:
        """Delete the datasets of this run. Return the addresses that could not be deleted."""
        left = []
        for url in self.created:
            if self.ask("HEAD", url + "refs/head", self.token).status != 200:
                continue
            if self.ask("DELETE", url.rstrip("/"), self.token).status not in (200, 202, 204):
                left.append(url)
        return left


def _small(file: dict[str, Any]) -> bool:
    return int(file["size"]) <= SAMPLE_BYTES


def expect(what: str, actual: object, wanted: object) -> None:
    """Raise `Deviation` unless the values are equal."""
    if actual != wanted:
        raise Deviation(f"{what}: {_short(actual)}, expected {_short(wanted)}")


def expect_true(what: str, holds: object) -> None:
    if not holds:
        raise Deviation(what)


def expect_answer(
    answer: Answer, status: int, *, body: bytes | None = None, message: str | None = None
) -> None:
    """Check the status, and the whole body or the `message` of a JSON body, if given."""
    expect("status", answer.status, status)
    if body is not None:
        expect("body", answer.body, body)
    if message is not None:
        expect("message", json_of(answer).get("message"), message)


def json_of(answer: Answer) -> dict[str, Any]:
    try:
        value = json.loads(answer.body)
    except ValueError:
        raise Deviation(f"the body is not JSON: {answer.body[:80]!r}") from None
    if not isinstance(value, dict):
        raise Deviation("the body is no JSON object")
    return value


@contextmanager
def gives_up(why: CloseReason, **facts: object) -> Iterator[None]:
    """Check that the reference client fails with this error kind and at least these facts."""
    try:
        yield
    except GaveUp as ended:
        expect("the client ends with", ended.why.value, why.value)
        for name, wanted in facts.items():
            expect(name, ended.facts.get(name), wanted)
        return
    raise Deviation(f"the client succeeds, expected {why.value!r}")


def expect_identical(node: NodeUnderTest, published: PublishedChain) -> None:
    """Check that the node serves exactly this chain and its objects, byte for byte."""
    served = Chain()
    node.mimic(published.url).simple_pull(served)
    expect("head", served.head, published.chain.head)
    wanted = published.chain.upto(len(published.chain.blocks))
    expect_true("the blocks served differ", served.blocks == wanted.blocks)
    expect_true("the objects served differ", served.objects == wanted.objects)


def path_of(url: str) -> str:
    return urlsplit(url).path


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 200 else text[:197] + "..."
