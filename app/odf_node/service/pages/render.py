"""Render templates into responses, with escaping and a strict content security policy."""

from __future__ import annotations

import json
import re
from functools import cache
from hashlib import sha3_256
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from ...client.text import one_line, size_text
from ..http.entity_tags import WEAK, is_named

if TYPE_CHECKING:
    from jinja2 import Environment

HEADERS = {
    "cache-control": "no-cache, private",
    "content-security-policy": "default-src 'none'; style-src 'self'; script-src 'self'; "
    "connect-src 'self'; img-src data:; form-action 'self'; frame-ancestors 'none'; "
    "base-uri 'none'",
    "referrer-policy": "same-origin",
    "vary": "accept, cookie",
}
MAX_JSON_CHARS = 200
_CODE = re.compile(r"`([^`]+)`")


def page(name: str, content: dict[str, Any], status: int = 200) -> Response:
    """Return the rendered template `name`."""
    return HTMLResponse(rendered(name, content), status, HEADERS)


def rendered(name: str, content: dict[str, Any]) -> str:
    """Return the rendered template `name` as HTML, which other templates may contain."""
    from markupsafe import Markup

    text = _environment().get_template(f"{name}.html").render(content)
    return Markup(text)  # noqa: S704 - the template escapes


def tagged(answer: Response, request: Request) -> Response:
    """Return the answer with an entity tag, or status 304 if the client has the same page."""
    tag = WEAK + b'"%s"' % sha3_256(answer.body).hexdigest().encode()
    known = request.headers.get("if-none-match", "").encode("latin-1")
    if is_named(known, tag, weak=True):
        told = {**HEADERS, "vary": HEADERS["vary"] + ", accept-encoding", "etag": tag.decode()}
        return Response(status_code=304, headers=told)
    answer.headers["etag"] = tag.decode()
    return answer


def static(name: str, media_type: str) -> Response:
    """Return a static file of the pages, unchanged."""
    headers = {"cache-control": "max-age=3600"}
    return Response(_static(name), headers=headers, media_type=media_type)


@cache
def _static(name: str) -> bytes:
    return files(__package__).joinpath("static", name).read_bytes()


@cache
def _environment() -> Environment:
    from jinja2 import Environment, PackageLoader, StrictUndefined  # not needed to start

    made = Environment(
        loader=PackageLoader(__package__),
        auto_reload=False,  # an upgrade in place would mix its templates with our code
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= {"size": size_text, "count": count_text, "moment": moment_text}
    made.filters |= {"short_json": short_json, "result": result_text}
    made.filters |= {"prose": prose, "linked_data": linked_data}
    return made


def prose(text: str | None) -> str:
    """Return one of our texts as HTML, with backticks as code."""
    from markupsafe import Markup, escape

    return Markup(_CODE.sub(r"<code>\1</code>", str(escape(text or ""))))  # noqa: S704 - escaped


def linked_data(document: dict[str, Any]) -> str:
    """Return JSON for a script element, escaped so that no text in it can end the element."""
    from markupsafe import Markup

    text = json.dumps(document, ensure_ascii=True)
    for sign in "<>&":
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    return Markup(text)  # noqa: S704 - escaped


def short_json(value: Any) -> str:
    """Return a value as JSON in one short line."""
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= MAX_JSON_CHARS else text[: MAX_JSON_CHARS - 1] + "…"


def result_text(result: dict[str, Any]) -> str:
    """Return the result of a job as text: its outcome, its reason, and its counts above 0."""
    said = [str(result[name]) for name in ("outcome", "reason") if result.get(name)]
    counts = [
        f"{re.sub('[A-Z]', lambda found: f' {found[0].lower()}', name)} {count_text(value)}"
        for name, value in result.items()
        if type(value) is int and value
    ]
    return one_line(": ".join(said)) + (" · " if said and counts else "") + ", ".join(counts)


def count_text(number: int) -> str:
    """Return a number with separators between thousands."""
    return f"{number:,}"


def moment_text(instant: str) -> str:
    """Return an instant to the second in UTC: `2024-01-31 23:59:59`."""
    return instant[:19].replace("T", " ")
