"""Fetches end as the known answers say: real servers, real files, a stand-in for a runtime.

Hosts and paths of the cases are placeholders. The time of `If-Modified-Since` is compared as
a time: we send the one form that servers have to understand.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Any

import pytest
from ftp_server import ftp_server
from refusals import refusing
from servers import free_port
from tests.workers import tables
from tests.workers.fetch.runtime import Runtime, ran_by
from web_server import Answer, web_server

from odf_protocol.codec.manifests import from_data
from odf_protocol.instant import Instant
from odf_protocol.metadata.sources import FetchStep
from odf_workers.fetch import values
from odf_workers.fetch.run import fetch
from odf_workers.fetch.values import FetchRequest, FetchRules

LOOPBACK = ("127.0.0.0/8",)
ERRORS = {
    "Unreachable": "SourceUnreachable",
    "NotFound": "SourceMissing",
    "EventTimeSourceError": "EventTimeNotFound",
    "Internal": "ContainerBrokeProtocol",
    "ProcessError": "ContainerFailed",
}


class World:
    """What surrounds one case: servers, files, a runtime, and rules that allow them."""

    def __init__(self, given: dict[str, Any], folder: Path, stack: ExitStack) -> None:
        self.given, self.folder = given, folder
        self.web: Any = None
        self.runtime: Runtime | None = None
        self.port = 1
        self.rules = FetchRules(
            networks=LOOPBACK,
            roots=(folder,),
            variables=given.get("env", {}),
            resolve=lambda host, port: ["127.0.0.1"],
        )
        if "response" in given:
            self._serve(given["response"], stack)
        for file in given.get("files", []):
            self._write(file)
        if given["fetch"].get("url", "").startswith("ftp"):
            files = {f["path"].lstrip("/"): f["text"].encode() for f in given["files"]}
            self.port = stack.enter_context(ftp_server(files, ("foo", "bar"))).port
        if "container" in given:
            self.runtime = Runtime(folder / "runtime", given["container"])
            self.rules = replace(self.rules, containers=ran_by(self.runtime.path))

    def _serve(self, response: dict[str, Any], stack: ExitStack) -> None:
        if response.get("connect") == "refused":
            self.port = free_port()
            return
        answer = Answer(response["status"], response["headers"], response["body"].encode())
        self.web = stack.enter_context(web_server(lambda _: answer))
        self.port = self.web.port

    def _write(self, file: dict[str, Any]) -> None:
        path = self.folder / file["path"].lstrip("/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(file["text"])
        if "mtime" in file:
            when = Instant.parse(file["mtime"]).ns
            os.utime(path, ns=(when, when))

    def fetch(self) -> Any:
        step = json.loads(
            json.dumps(self.given["fetch"])
            .replace("srv.test", f"srv.test:{self.port}")
            .replace("/in/", f"{self.folder}/in/")
        )
        before = self.given["prev_state"]
        work = self.folder / "work"
        work.mkdir()
        request = FetchRequest(
            state=values.state(before["kind"], before["value"]) if before else None,
            system_time=Instant.parse(self.given["system_time"]),
            folder=work,
            rules=self.rules,
        )
        return fetch(from_data(step, FetchStep), request)


@contextmanager
def world(case: dict[str, Any], folder: Path) -> Iterator[World]:
    with ExitStack() as stack:
        yield World(case["given"], folder, stack)


@pytest.mark.parametrize("case", tables.cases("fetch"), ids=lambda case: case["id"])
def test_a_fetch_ends_as_the_answer_says(case: dict[str, Any], tmp_path: Path) -> None:
    expect = case["expect"]
    with world(case, tmp_path) as there:
        if expect["outcome"] == "Error":
            with refusing(ERRORS[expect["error"]["kind"]]):
                there.fetch()
        elif expect["outcome"] == "UpToDate":
            assert there.fetch() is None
        else:
            check(there.fetch(), expect, there)
        check_request(expect, there)


def check(found: Any, expect: dict[str, Any], there: World) -> None:
    state = expect["source_state"]
    assert found.state == (values.state(state["kind"], state["value"]) if state else None)
    assert found.event_time == Instant.parse(expect["event_time"])
    assert found.has_more is expect["has_more"]
    if "file" in expect:
        assert found.name == Path(expect["file"]).name, "its bytes are compared below"
    body = body_of(there.given, expect)
    if body is not None:
        assert found.path.read_text() == body


def body_of(given: dict[str, Any], expect: dict[str, Any]) -> str | None:
    if "response" in given:
        return str(given["response"]["body"])
    if "container" in given:
        return str(given["container"]["stdout"])
    texts = {file["path"]: file["text"] for file in given.get("files", [])}
    return texts.get(expect["file"]) if "file" in expect else next(iter(texts.values()), None)


def check_request(expect: dict[str, Any], there: World) -> None:
    for name, value in expect.get("request_headers", {}).items():
        sent = there.web.asked[0].headers[name]
        if name == "If-Modified-Since":
            assert parsedate_to_datetime(sent) == parsedate_to_datetime(value)
        else:
            assert sent == value
    if "request_path" in expect:
        assert there.web.asked[0].path == expect["request_path"]
    for name, value in expect.get("container_env", {}).items():
        assert there.runtime is not None
        assert there.runtime.environment[name] == value
