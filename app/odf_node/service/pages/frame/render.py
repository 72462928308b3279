"""Render templates into responses, with escaping and a strict content security policy.

Wrap page functions as endpoints: run in a thread, for the cookie's account, errors as pages.

Links between numbered pages of a list: the first, the last, and those around the current one.
"""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import cache, partial
from hashlib import sha3_256
from importlib.resources import files
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from anyio import to_thread
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from odf_protocol.errors import BadInput, NodeError

from ....client.nodes.limits import one_line, size_text
from ... import pages as package
from ...auth.access import AnonymousRestricted, DatasetRenamed, Unauthenticated
from ...auth.actors import ANONYMOUS, Actor
from ...auth.dataset_access import Callers
from ...auth.visitors import refuse_foreign, visitor
from ...errors import status_of
from ...http.answers import WEAK, is_named
from ...http.bodies import MAX_FORM_FIELDS, small_form
from ...http.deps import part_of
from ...settings import Settings
from . import views
from .views import Views

if TYPE_CHECKING:
    from jinja2 import Environment


HEADERS = {
    "cache-control": "no-cache, private",
    "content-security-policy": "default-src 'none'; style-src 'self'; script-src 'self'; "
    "connect-src 'self'; img-src 'self'; form-action 'self'; frame-ancestors 'none'; "
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


@cache
def static(name: str) -> bytes:
    """Return the content of a static file of the pages."""
    return files(package).joinpath("static", name).read_bytes()


@cache
def _environment() -> Environment:
    from jinja2 import Environment, PackageLoader, StrictUndefined  # not needed to start

    made = Environment(
        loader=PackageLoader(package.__name__),
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


SEE_OTHER = 303
MAX_FORM_BYTES = 16 * 1024
Form = dict[str, str]
View = Callable[[Views, Actor, Request], Response]
Use = Callable[[Views, Actor, Request, Form], Response]


def shown(view: View) -> Callable[[Request], Response]:
    """Return an endpoint for a page; redirect to sign-in if the page requires an account."""

    def made(request: Request) -> Response:
        return _seen(view, request)

    return made


def posted(
    use: Use,
    *,
    is_costly: bool = False,
    most: int = MAX_FORM_BYTES,
    fields: int = MAX_FORM_FIELDS,
) -> Callable[[Request], Awaitable[Response]]:
    """Return an endpoint for a form of this site, run for the account of the cookie.

    `is_costly` means that it checks or sets a password; few such requests run at once.
    `most` is the limit of the form in bytes, `fields` that of its fields.
    """

    async def made(request: Request) -> Response:
        given = part_of(request, Views)
        try:
            refuse_foreign(request, given.public_url)
            form = await small_form(request, most, fields=fields)
        except NodeError as error:
            return problem(given, ANONYMOUS, request, error)

        def used(given: Views, actor: Actor, request: Request) -> Response:
            return use(given, actor, request, form)

        limiter = request.app.state.passwords if is_costly else None
        return await to_thread.run_sync(partial(_seen, used, request), limiter=limiter)

    return made


def _seen(view: View, request: Request) -> Response:
    given, actor = part_of(request, Views), ANONYMOUS
    try:
        is_open = part_of(request, Settings).allow_anonymous
        actor = visitor(part_of(request, Callers), request, allow_anonymous=is_open)
        return view(given, actor, request)
    except (AnonymousRestricted, Unauthenticated):
        return redirect(given, f"/v/sign-in?next={quote(request.url.path)}")
    except NodeError as error:
        return problem(given, actor, request, error)


def shown_to_all(view: View) -> Callable[[Request], Response]:
    """Return an endpoint for a page that everybody may see, signed in or not."""

    def made(request: Request) -> Response:
        return view(part_of(request, Views), ANONYMOUS, request)

    return made


def problem(given: Views, actor: Actor, request: Request, error: NodeError) -> Response:
    """Return the error page."""
    status = int(status_of(error))
    renamed = error.facts["name"] if isinstance(error, DatasetRenamed) else None
    content = {"status": status, "message": error.message, "renamed": renamed}
    path = request.url.path
    return page("problem", {**views.frame(given, actor, path), **content}, status)


def redirect(given: Views, path: str) -> Response:
    """Redirect to another page of this node."""
    return RedirectResponse(
        views.root_of(given) + path, SEE_OTHER, headers={"cache-control": "no-store"}
    )


AROUND = 2
MAX_DIGITS = 9


@dataclass(frozen=True, slots=True)
class PageLink:
    """A page of a list: its number and its address; None for the current page."""

    number: int
    link: str | None


@dataclass(frozen=True, slots=True)
class Pages:
    """Links between pages. None in `numbers` stands for omitted pages."""

    numbers: list[PageLink | None]
    before: str | None
    behind: str | None


def page_number(text: str | None) -> int:
    """Parse the page parameter; absent means 1. Raises `MalformedPage`."""
    if not text:
        return 1
    is_number = text.isascii() and text.isdecimal() and len(text) <= MAX_DIGITS
    if not is_number or int(text) < 1:
        raise BadInput(
            "MalformedPage", "page is a number from 1 on; leave it out for the first page"
        )
    return int(text)


def pages(number: int, total: int, size: int, link: Callable[[int], str]) -> Pages:
    """Return the links of page `number` in a list of `total` items with `size` items per page."""
    last = max(1, -(-total // size))
    shown = sorted({1, last, *range(max(1, number - AROUND), min(last, number + AROUND) + 1)})
    numbers: list[PageLink | None] = []
    for before, at in zip([0, *shown], shown, strict=False):
        if at > before + 1:
            numbers.append(None)
        numbers.append(PageLink(at, None if at == number else link(at)))
    return Pages(
        numbers=numbers,
        before=link(min(number - 1, last)) if number > 1 else None,
        behind=link(number + 1) if number < last else None,
    )
