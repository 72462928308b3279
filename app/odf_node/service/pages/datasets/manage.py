"""The page where a dataset is kept by those who may write to it, with a form for each thing.

Each form does what a route of the API and a command do, by the same use case, and the page shows
the command. It needs no script.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any
from urllib.parse import quote

import msgspec
from anyio import from_thread, to_thread
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from odf_protocol.chain.state import ChainState
from odf_protocol.columns.column_names import DESCRIPTION_KEY, UNIT_KEY
from odf_protocol.errors import BadInput, Conflict, NodeError, NotFound
from odf_protocol.identity import DatasetRef
from odf_protocol.metadata.events import DatasetKind
from odf_protocol.multihash import Multihash
from odf_protocol.sql_text import quoted_name
from odf_storage.datasets.query.messages import Form as RowForm
from odf_storage.datasets.read.formats import MEDIA_TYPES, Format
from odf_storage.stores.ports.values import DatasetEntry, Failed, Role, Schedule, Succeeded

from ....client.uses.describing import (
    columns_event,
    info_event,
    license_event,
    readme_event,
    readme_of,
)
from ...auth.access import Action, Unauthenticated
from ...auth.actors import ANONYMOUS, Actor
from ...auth.dataset_access import refuse_mirror
from ...datasets import listing
from ...datasets.datasets import (
    Authoring,
    append_event,
    delete_dataset,
    event_to_append,
    rename_dataset,
)
from ...datasets.listing import DatasetRoles
from ...datasets.routes import Aspect, describe
from ...datasets.schema_formats import SchemaFormat
from ...errors import status_of, status_of_failed
from ...http.deps import part_of
from ...ingest.asked import IngestRequest
from ...ingest.content import (
    Post,
    Posted,
    Whole,
    uploaded_content,
)
from ...limits.shares import caller_of
from ...query.background import QueryBody, checked
from ...query.verify import gathered
from ...schedules import schedules
from ...schedules.schedules import ScheduleBody, Scheduling
from ..frame import views
from ..frame.render import (
    Form,
    page,
    posted,
    problem,
    redirect,
    result_text,
    shown,
)
from ..frame.views import Views
from .content import document_of, schedule_line
from .files import (
    FilePublishing,
    in_turn,
    received_file,
    visitor_of,
)
from .viewer import asked_rows, plain_table

PATH = "/v/manage"
ADDRESSES = (PATH + "/{name}", PATH + "/{account}/{name}")
ROWS = ("/v/rows/{name}", "/v/rows/{account}/{name}")
MAX_FORM_BYTES = 1 << 20
"""Limit of a form; the README is the longest field."""
MAX_OFFSET_CHARS = 16
EVERY = {"hour": 3600, "day": 24 * 3600, "week": 7 * 24 * 3600}
"""Seconds between polls, by the words of the form."""
_ASPECTS = (Aspect.ATTACHMENTS, Aspect.INFO, Aspect.LICENSE, Aspect.SCHEMA)
COLUMNS = 200
"""Limit of the columns that the form has; the command takes all."""
COLUMN_FIELDS = {"column ": DESCRIPTION_KEY, "unit ": UNIT_KEY}
"""What the fields of the form are, by the beginning of their names; the rest names a column."""


def takes_rows_back(given: Views, actor: Actor, entry: DatasetEntry) -> bool:
    """Return whether the actor may take rows of the dataset back: those of a derivative follow its
    inputs, and those of a mirror its remote."""
    is_root = entry.kind is DatasetKind.Root and given.stores.mirrors.find(entry.id) is None
    return is_root and Action.WRITE in given.access.grants(actor, entry)


@dataclass(frozen=True)
class Kept:
    """A request for the page: who asks, for which dataset."""

    given: Views
    actor: Actor
    request: Request
    entry: DatasetEntry

    @property
    def state(self) -> ChainState:
        return self.given.stores.dataset(DatasetRef(id=self.entry.id)).state()

    @property
    def alias(self) -> str:
        return self.given.access.shown_alias(self.entry)

    @property
    def known(self) -> Mapping[str, Any]:
        """What the chain says the dataset is about."""
        return describe(self.state, _ASPECTS, SchemaFormat.ODF_JSON)

    def go(self, section: str) -> Response:
        """Return to the page, at one of its sections."""
        return redirect(self.given, f"{PATH}/{quote(self.alias)}#{section}")


Do = Callable[[Kept, Form], Response]


def _said(known: Mapping[str, Any]) -> dict[str, str]:
    """Return what the dataset is about as the texts of the form."""
    info = known.get("info", {})
    return {
        "description": info.get("description") or "",
        "keywords": ", ".join(info.get("keywords") or ()),
        "license": known.get("license", {}).get("shortName") or "",
        "readme": readme_of(known),
    }


def _seen(said: Mapping[str, str]) -> str:
    """Return a word for these texts: a form made of others would undo what came between."""
    return str(Multihash.of(msgspec.json.encode(said)))


def _describe(kept: Kept, form: Form) -> Response:
    """Append an event for each thing that the form changes; all are checked before the first."""
    from ....client.uses.spdx import license_doubt  # its list of licenses is for few visits

    known = kept.known
    before = _said(known)
    after = {name: form.get(name, "").replace("\r\n", "\n").strip() for name in before}
    if form.get("look"):
        return _page(kept, form=form, preview=after["readme"])
    if form.get("seen") != _seen(before):
        raise Conflict("OtherTexts", "somebody changed these texts meanwhile: look, and save again")
    doubt = license_doubt(after["license"]) if after["license"] != before["license"] else None
    if doubt and form.get("sure_license") != after["license"]:
        told = f"Nothing is saved yet: {doubt}. Save again to keep what you typed"
        return _page(kept, form=form, told=told, sure_license=after["license"])
    _append(kept, _changes(known, before, after))
    return kept.go("about")


def _append(kept: Kept, manifests: Iterable[Mapping[str, Any]]) -> None:
    authoring, events = part_of(kept.request, Authoring), []
    for manifest in manifests:
        text = msgspec.json.encode(manifest)
        events.append(event_to_append(kept.given.access, kept.actor, text))
    for is_trial in (True, False):
        for event in events:
            append_event(authoring, kept.actor, kept.entry, event, dry_run=is_trial)


def _changes(
    known: Mapping[str, Any], before: Mapping[str, str], after: Mapping[str, str]
) -> Iterator[dict[str, Any]]:
    """Yield the events that make the texts of before those of after."""
    changed = {name for name, text in after.items() if text != before[name].strip()}
    if changed & {"description", "keywords"}:
        words = [word for each in after["keywords"].split(",") if (word := each.strip())]
        yield info_event(known, description=after["description"], keywords=words)
    if "license" in changed:
        if not after["license"]:
            raise BadInput("LicenseStays", "a license can be replaced by another, not removed")
        yield license_event(after["license"])
    if "readme" in changed:
        yield readme_event(known, after["readme"] and after["readme"] + "\n")


def _columns_said(known: Mapping[str, Any]) -> dict[str, str]:
    """Return what is said of the columns, by the fields of the form."""
    fields = known.get("schema", {"fields": ()})["fields"][:COLUMNS]
    return {
        f"{start}{field['name']}": str(field.get("extra", {}).get(key) or "")
        for field in fields
        for start, key in COLUMN_FIELDS.items()
    }


def _describe_columns(kept: Kept, form: Form) -> Response:
    """Append a schema in which the columns have the texts of the form."""
    known = kept.known
    before = _columns_said(known)
    if form.get("seen") != _seen(before):
        raise Conflict("OtherTexts", "somebody changed the columns meanwhile: look, and save again")
    said: dict[str, dict[str, str]] = {}
    for name, text in before.items():
        if (new := form.get(name, "").strip()) != text.strip():
            start = next(each for each in COLUMN_FIELDS if name.startswith(each))
            said.setdefault(name.removeprefix(start), {})[COLUMN_FIELDS[start]] = new
    _append(kept, [columns_event(known, said)] if said else [])
    return kept.go("columns")


def _retract(kept: Kept, form: Form) -> Response:
    """Show the row, and take it back once the visitor has seen it."""
    offset, state = form.get("offset", "").strip(), kept.state
    if not offset.isascii() or not offset.isdecimal() or len(offset) > MAX_OFFSET_CHARS:
        raise BadInput("RowUnnamed", "a row is named by its offset, a number")
    column = quoted_name(state.vocab.offset_column)
    where = f"from {quoted_name(kept.alias)} where {column} = {offset}"
    queries, caller = kept.given.queries, caller_of(kept.request.scope)
    values, found = asked_rows(queries, kept.actor, caller, f"select * {where}", limit=1)
    if not values:
        raise NotFound("RowNotFound", f"no current row has the offset {offset}")
    if not form.get("sure"):
        return _page(kept, row={"offset": offset, "table": plain_table(found.schema, values)})
    columns = ", ".join(_retraction(state))
    body = QueryBody(query=f"select {columns} {where}", data_format=RowForm.PARQUET.value, limit=1)
    asked = checked(body, max_rows=1)
    _, rows, _ = from_thread.run(gathered, queries, kept.actor, caller, asked)
    post = Post(
        actor=kept.actor,
        dataset=kept.entry.alias,
        request=IngestRequest(changelog=True),
        open=partial(Whole, rows, MEDIA_TYPES[Format.PARQUET]),
    )
    publishing = part_of(kept.request, FilePublishing)
    return from_thread.run(_received, kept, publishing, publishing.posts.take_one(post))


def _retraction(state: ChainState) -> Iterator[str]:
    """Yield the columns of a row of the changelog that takes a current row back, as SQL."""
    vocab = state.vocab
    yield f"cast(1 as int) as {quoted_name(vocab.operation_type_column)}"
    written = {vocab.offset_column, vocab.system_time_column, vocab.operation_type_column}
    for field in state.data_schema.fields if state.data_schema else ():
        if field.name not in written:
            yield quoted_name(field.name)


def _visibility(kept: Kept, form: Form) -> Response:
    asked = listing.parse_visibility(form.get("visibility", ""))
    listing.change_visibility(kept.given.stores, kept.given.access.entries, kept.entry, asked)
    return kept.go("access")


def _give(kept: Kept, form: Form) -> Response:
    role = listing.parse_role(form.get("role", ""))
    roles = part_of(kept.request, DatasetRoles)
    listing.give_role(roles, kept.entry, form.get("account", "").strip()[:100], role)
    return kept.go("access")


def _take(kept: Kept, form: Form) -> Response:
    roles = part_of(kept.request, DatasetRoles)
    listing.take_role(roles, kept.entry, form.get("account", "")[:100])
    return kept.go("access")


def _schedule(kept: Kept, form: Form) -> Response:
    cron, every = form.get("cron", "").strip(), form.get("every", "")
    body = ScheduleBody(
        cron=cron or None,
        every_seconds=None if cron else EVERY.get(every),
        time_zone=form.get("time_zone", "").strip() or "UTC",
    )
    schedules.add_schedule(part_of(kept.request, Scheduling), kept.actor, kept.entry, body)
    return kept.go("schedule")


def _unschedule(kept: Kept, form: Form) -> Response:
    schedules.remove_schedule(
        kept.given.stores.schedules, kept.entry, form.get("schedule", "")[:50]
    )
    return kept.go("schedule")


def _rename(kept: Kept, form: Form) -> Response:
    stores, entries = kept.given.stores, kept.given.access.entries
    name = form.get("name", "").strip()
    renamed = rename_dataset(stores, entries, kept.entry, name)
    return redirect(kept.given, f"{PATH}/{quote(kept.given.access.shown_alias(renamed))}")


def _delete(kept: Kept, form: Form) -> Response:
    if form.get("name", "").strip() != kept.alias:
        raise BadInput("NotItsName", f"type {kept.alias} to delete it; nothing was deleted")
    delete_dataset(kept.given.stores, kept.given.access, kept.actor, kept.entry)
    return redirect(kept.given, "/")


DOINGS: Mapping[str, tuple[Action, Do]] = {
    "describe": (Action.WRITE, _describe),
    "columns": (Action.WRITE, _describe_columns),
    "retract": (Action.WRITE, _retract),
    "schedule": (Action.WRITE, _schedule),
    "unschedule": (Action.WRITE, _unschedule),
    "visibility": (Action.MAINTAIN, _visibility),
    "give": (Action.MAINTAIN, _give),
    "take": (Action.MAINTAIN, _take),
    "rename": (Action.MAINTAIN, _rename),
    "delete": (Action.MAINTAIN, _delete),
}
"""What the forms do, by the name of each, and the right that it needs."""
OF_THE_CHAIN = frozenset({"columns", "describe", "retract"})
"""Those that append blocks, which a mirror leaves to its remote."""


def _see(given: Views, actor: Actor, request: Request) -> Response:
    return _page(_kept(given, actor, request, Action.WRITE))


def _do(given: Views, actor: Actor, request: Request, form: Form) -> Response:
    name = form.get("do", "")
    if name not in DOINGS:
        raise BadInput("UnknownForm", f"the page has no form {name[:50]!r}")
    action, do = DOINGS[name]
    kept = _kept(given, actor, request, action)
    try:
        if name in OF_THE_CHAIN:
            refuse_mirror(given.stores.mirrors, kept.entry)
        return do(kept, form)
    except NodeError as error:
        return _page(kept, told=error.message, status=int(status_of(error)), form=form)


async def _rows(request: Request) -> Response:
    """Receive a file, and post its rows as the API does with a file that was uploaded before."""
    given, actor = part_of(request, Views), ANONYMOUS
    publishing = part_of(request, FilePublishing)
    try:
        actor = await to_thread.run_sync(visitor_of, request)
        kept = await to_thread.run_sync(_kept, given, actor, request, Action.WRITE)
    except NodeError as error:
        return await to_thread.run_sync(problem, given, actor, request, error)
    try:
        token = await received_file(publishing, actor, request)
        file = partial(uploaded_content, publishing.uploads, actor, str(token))
        post = Post(actor=actor, dataset=kept.entry.alias, request=IngestRequest(), open=file)
        posted_ = await in_turn(request, partial(publishing.posts.take_one, post))
    except NodeError as error:
        told = partial(_page, kept, told=error.message, status=int(status_of(error)))
        return await to_thread.run_sync(told)
    return await _received(kept, publishing, posted_)


async def _received(kept: Kept, publishing: FilePublishing, posted_: Posted) -> Response:
    """Wait for the job of a post, and show the page with its receipt."""
    ended = await publishing.posts.ended(posted_, publishing.waiting, publishing.waiting.most_s)
    match None if ended is None else ended.outcome:
        case Succeeded(result=receipt):
            done = partial(_page, kept, done=result_text(receipt))
        case Failed() as failed:
            told = f"{failed.message}. Nothing was added."
            done = partial(_page, kept, told=told, status=int(status_of_failed(failed)))
        case _:
            done = partial(_page, kept, done="The rows are being read.", status=202)
    return await to_thread.run_sync(done)


def _kept(given: Views, actor: Actor, request: Request, action: Action) -> Kept:
    """Return the dataset of the address. Raises the same errors as `DatasetAccess.resolve`."""
    if actor.account is None:
        raise Unauthenticated
    its = request.path_params
    entry = given.access.resolve(actor, its.get("account"), its["name"], action)
    return Kept(given, actor, request, entry)


def _page(
    kept: Kept,
    *,
    told: str | None = None,
    done: str | None = None,
    form: Form | None = None,
    preview: str | None = None,
    row: dict[str, Any] | None = None,
    sure_license: str = "",
    status: int = 200,
) -> Response:
    given, entry, state = kept.given, kept.entry, kept.state
    path, allowed = f"{PATH}/{kept.alias}", given.access.grants(kept.actor, entry)
    known = kept.known
    said, of_columns = _said(known), _columns_said(known)
    typed = {name: text for name, text in (form or {}).items() if name in of_columns}
    caller = caller_of(kept.request.scope)
    content = {
        **views.frame(given, kept.actor, path),
        "alias": kept.alias,
        "at": f"{views.root_of(given)}/{kept.alias}",
        "here": f"{views.root_of(given)}{PATH}/{kept.alias}",
        "rows_at": f"{views.root_of(given)}/v/rows/{kept.alias}",
        "problem": told,
        "done": done,
        "said": {**said, **{name: text for name, text in (form or {}).items() if name in said}},
        "seen": _seen(said),
        "columns": _column_lines(of_columns, typed or of_columns),
        "columns_seen": _seen(of_columns),
        "preview": document_of(given, caller, "README.md", preview) if preview else None,
        "row": row,
        "sure_license": sure_license,
        "typed": form or {},
        "is_mirror": given.stores.mirrors.find(entry.id) is not None,
        "takes_rows": bool(state.push_sources),
        "takes_rows_back": takes_rows_back(given, kept.actor, entry),
        "is_polled": state.polling_source is not None,
        "refreshes": part_of(kept.request, Scheduling).refreshes(entry),
        "schedules": [_scheduled(each) for each in given.stores.schedules.of_dataset(entry.id)],
        "every": list(EVERY),
        "maintains": Action.MAINTAIN in allowed,
        "roles": [role.value for role in Role],
        "who": listing.access_of(part_of(kept.request, DatasetRoles), entry),
        "name": str(entry.alias.name),
    }
    return page("manage", content, status)


def _column_lines(fields: Mapping[str, str], texts: Mapping[str, str]) -> list[dict[str, str]]:
    """Return name, description and unit of each column of the form."""
    names = [each.removeprefix("column ") for each in fields if each.startswith("column ")]
    return [
        {
            "name": name,
            "description": texts.get(f"column {name}", ""),
            "unit": texts.get(f"unit {name}", ""),
        }
        for name in names
    ]


def _scheduled(schedule: Schedule) -> dict[str, Any]:
    return {"id": schedule.id, **schedule_line(schedule)}


_POSTED = posted(_do, most=MAX_FORM_BYTES, fields=16 + len(COLUMN_FIELDS) * COLUMNS)
ROUTES = (
    *(Route(each, shown(_see), methods=["GET"]) for each in ADDRESSES),
    *(Route(each, _POSTED, methods=["POST"]) for each in ADDRESSES),
    *(Route(each, _rows, methods=["POST"]) for each in ROWS),
)
