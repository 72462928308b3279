"""Checks of logins, and of files that are uploaded for a later ingest."""

from __future__ import annotations

import base64
import json
import os
from typing import Any
from urllib.parse import quote

from ..http import Answer, request
from ..node import (
    NodeNeed,
    NodeUnderTest,
    check,
    expect,
    expect_answer,
    expect_true,
    json_of,
)

PREPARE = "/platform/file/upload/prepare"
NO_TOKEN = "No authentication token provided"  # noqa: S105
TOO_LARGE = "Content too large"
HUGE = 1 << 50
BOUNDARY = "conformance-boundary"


def login(node: NodeUnderTest, user: str, password: str, method: str = "password") -> Answer:
    credentials = json.dumps({"login": user, "password": password})
    body = json.dumps({"loginMethod": method, "loginCredentialsJson": credentials})
    kind = [("content-type", "application/json")]
    return request("POST", node.origin + "/platform/login", kind, body.encode())


def a_password_gives_a_token_that_validates(node: NodeUnderTest) -> None:
    answer = login(node, node.account or "", node.password or "")
    expect_answer(answer, 200)
    token = json_of(answer).get("accessToken")
    expect_true("no accessToken", isinstance(token, str) and token)
    expect_answer(node.ask("GET", "/platform/token/validate", token), 200)
    me = json_of(node.ask("GET", "/accounts/me", token))
    expect("account", str(me["accountName"]).lower(), (node.account or "").lower())


def a_wrong_password_is_rejected(node: NodeUnderTest) -> None:
    rejected = "Rejected credentials: invalid login or password"
    nobody = f"conformance-{os.urandom(6).hex()}"
    expect_answer(login(node, nobody, "wrong password"), 401, message=rejected)
    if node.password is not None:
        wrong = node.password + "x"
        expect_answer(login(node, node.account or "", wrong), 401, message=rejected)


def an_unknown_way_to_log_in_is_a_bad_request(node: NodeUnderTest) -> None:
    expect_answer(login(node, "somebody", "something", "conformance"), 400)


# --- uploads


def prepared(node: NodeUnderTest, name: str, length: int, kind: str, token: str | None) -> Answer:
    query = f"?fileName={quote(name)}&contentLength={length}&contentType={quote(kind, safe='')}"
    return node.ask("POST", PREPARE + query, token)


def _prepared(node: NodeUnderTest, length: int, token: str | None = None) -> dict[str, Any]:
    answer = prepared(node, "cities.ndjson", length, "application/x-ndjson", token or node.token)
    expect_answer(answer, 200)
    return json_of(answer)


def sent(plan: dict[str, Any], content: bytes, token: str | None = None) -> Answer:
    """Upload the file as the response of `prepare` describes; `token` may be of another caller."""
    headers = [(str(name), str(value)) for name, value in plan["headers"]]
    if token is not None:
        kept = [pair for pair in headers if pair[0].lower() != "authorization"]
        headers = [*kept, ("authorization", f"Bearer {token}")] if token else kept
    if not plan["useMultipart"]:
        return request(plan["method"], plan["uploadUrl"], headers, content)
    headers.append(("content-type", f"multipart/form-data; boundary={BOUNDARY}"))
    return request(plan["method"], plan["uploadUrl"], headers, form(content))


def form(content: bytes, name: str = "file") -> bytes:
    lead = f'--{BOUNDARY}\r\ncontent-disposition: form-data; name="{name}"; filename="f"\r\n\r\n'
    return lead.encode() + content + f"\r\n--{BOUNDARY}--\r\n".encode()


def an_upload_takes_an_account(node: NodeUnderTest) -> None:
    answer = prepared(node, "cities.json", 16, "application/json", "")
    expect_answer(answer, 401, message=NO_TOKEN)
    mock = {
        "upload_id": "0" * 32,
        "file_name": "cities.json",
        "owner_account_id": "fed01" + "ab" * 32,
        "content_length": 16,
    }
    token = base64.urlsafe_b64encode(json.dumps(mock).encode()).decode()
    url = f"{node.origin}/platform/file/upload/{token}"
    kind = [("content-type", f"multipart/form-data; boundary={BOUNDARY}")]
    expect_answer(request("POST", url, kind, form(b"x" * 16)), 401, message=NO_TOKEN)


def a_file_is_uploaded_and_read_by_whoever_has_its_address(node: NodeUnderTest) -> None:
    content = os.urandom(8).hex().encode()
    plan = _prepared(node, len(content))
    if plan["useMultipart"]:
        expect("method", plan["method"], "POST")
        expect("fields", plan["fields"], [])
    else:
        expect("method", plan["method"], "PUT")
    done = sent(plan, content)
    expect_true(f"the upload is answered {done.status}", 200 <= done.status < 300)
    address = f"/platform/file/upload/{plan['uploadToken']}"
    for token in (node.token, node.other, ""):
        if token is not None:
            expect_answer(node.ask("GET", address, token), 200, body=content)


def a_file_is_not_uploaded_for_somebody_else(node: NodeUnderTest) -> None:
    plan = _prepared(node, 16)
    if plan["useMultipart"]:
        expect_answer(sent(plan, b"x" * 16, node.other), 403)


def a_file_that_is_too_large_is_refused(node: NodeUnderTest) -> None:
    answer = prepared(node, "cities.json", HUGE, "application/json", node.token)
    expect_answer(answer, 400, message=TOO_LARGE)
    plan = _prepared(node, 16)
    claims = json.loads(base64.urlsafe_b64decode(plan["uploadToken"]))
    forged = json.dumps({**claims, "content_length": HUGE}).encode()
    token = base64.urlsafe_b64encode(forged).decode()
    if plan["useMultipart"]:
        there = {**plan, "uploadUrl": plan["uploadUrl"].rpartition("/")[0] + "/" + token}
        expect_answer(sent(there, b"x" * 16), 400, message=TOO_LARGE)


def a_file_of_another_length_than_declared_is_refused(node: NodeUnderTest) -> None:
    plan = _prepared(node, 9)
    if plan["useMultipart"]:
        said = "Actual content length 27 does not match the initially declared length 9"
        expect_answer(sent(plan, b"x" * 27), 400, message=said)
    address = f"/platform/file/upload/{plan['uploadToken']}"
    expect_answer(node.ask("GET", address), 404)


def a_form_with_another_part_is_refused(node: NodeUnderTest) -> None:
    plan = _prepared(node, 16)
    if plan["useMultipart"]:
        headers = [(str(name), str(value)) for name, value in plan["headers"]]
        headers.append(("content-type", f"multipart/form-data; boundary={BOUNDARY}"))
        body = form(b"x" * 16, "document")
        said = "Expected 'file' to be the only part of upload form"
        expect_answer(request("POST", plan["uploadUrl"], headers, body), 400, message=said)


WRITING, OTHER, PASSWORD = NodeNeed.WRITING, NodeNeed.OTHER, NodeNeed.PASSWORD
CHECKS = (
    check("L01", a_password_gives_a_token_that_validates, WRITING, PASSWORD),
    check("L02", a_wrong_password_is_rejected, WRITING),
    check("L02", an_unknown_way_to_log_in_is_a_bad_request, WRITING),
    check("M01", an_upload_takes_an_account, WRITING),
    check("M02 M06", a_file_is_uploaded_and_read_by_whoever_has_its_address, WRITING),
    check("M03", a_file_is_not_uploaded_for_somebody_else, WRITING, OTHER),
    check("M04", a_file_that_is_too_large_is_refused, WRITING),
    check("M05", a_file_of_another_length_than_declared_is_refused, WRITING),
    check("M05", a_form_with_another_part_is_refused, WRITING),
)
