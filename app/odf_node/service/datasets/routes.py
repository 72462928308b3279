"""Routes of datasets: create from a manifest, list, describe, append authored events, read the
tail.

The aspects of a dataset's metadata that clients can request by name.

Each is the last event of its kind; an aspect that was never set is absent.
Source: reference node, `GET …/metadata`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from enum import Enum, StrEnum
from functools import partial
from typing import Annotated, Any

import msgspec
from fastapi import APIRouter, Depends, Query, Request
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from odf_protocol.chain.state import ChainState
from odf_protocol.codec.manifests import to_data
from odf_protocol.errors import BadInput
from odf_protocol.identity import DatasetRef
from odf_protocol.multihash import Multihash
from odf_protocol.typed import decode_json
from odf_storage.datasets.read.records import DataFormat
from odf_storage.stores.ports.values import DatasetEntry, JobId, Visibility

from ..auth.access import Unauthenticated, refuse_bad_token
from ..auth.actors import Actor
from ..auth.dataset_access import DatasetAccess
from ..derivatives.derivatives import derivation
from ..derivatives.routes import DerivativesDep
from ..http.answers import JsonAnswer, failed_answer
from ..http.bodies import small_body
from ..http.deps import (
    AccessDep,
    ActorDep,
    BaseDep,
    MaintainedDep,
    OpenDep,
    OutgoingDep,
    ReadableDep,
    SettingsDep,
    StoresDep,
    wired,
)
from ..http.parameters import MAX_PAGE
from ..limits.shares import caller_of
from ..mirrors.mirrors import MirrorAsked, Mirrors, mirror_asked
from ..mirrors.routes import MirrorsDep
from ..read.routes import ReadersDep, StreamedRows
from ..read.tail import Tails, tail_task
from ..readers.pool import ReadRefused
from . import datasets as usecase
from . import trial as definition
from .datasets import Authoring, delete_dataset, detailed_summary, summary
from .listing import MAX_SEARCH_CHARS, ListingRequest, page_of, parse_visibility, question
from .schema_formats import SchemaFormat, parse_format, written
from .trial import MAX_MANIFEST_BYTES, Checking, TrialAsked, Trials, tried


class Aspect(StrEnum):
    ATTACHMENTS = "attachments"
    INFO = "info"
    LICENSE = "license"
    REFS = "refs"
    SCHEMA = "schema"
    SEED = "seed"
    SOURCES = "sources"
    VOCAB = "vocab"


def parse_aspects(text: str) -> tuple[Aspect, ...]:
    """Parse names separated by commas, in any case. Raises `UnknownAspect`."""
    names = [name.strip().lower() for name in text.split(",") if name.strip()]
    unknown = [name for name in names if name not in list(Aspect)]
    if unknown:
        known = ", ".join(Aspect)
        raise BadInput("UnknownAspect", f"unknown aspect {unknown[0][:50]!r}; known are {known}")
    return tuple(dict.fromkeys(Aspect(name) for name in names))


def describe(state: ChainState, aspects: Iterable[Aspect], form: SchemaFormat) -> dict[str, Any]:
    """Return the aspects as JSON, by name."""
    output: dict[str, Any] = {}
    for aspect in sorted(aspects):
        output.update(_ASPECTS[aspect](state, form))
    return output


def _event(name: str) -> Callable[[ChainState, SchemaFormat], dict[str, Any]]:
    def part(state: ChainState, _: SchemaFormat) -> dict[str, Any]:
        event = getattr(state, name)
        if event is None:
            return {}
        return {name: {key: value for key, value in to_data(event).items() if key != "kind"}}

    return part


def _refs(state: ChainState, _: SchemaFormat) -> dict[str, Any]:
    return {"refs": [{"name": "head", "blockHash": str(state.head)}]}


def _schema(state: ChainState, form: SchemaFormat) -> dict[str, Any]:
    schema = state.data_schema
    if schema is None:
        return {}
    return {"schema": written(schema, form), "schemaFormat": form.value}


def _seed(state: ChainState, _: SchemaFormat) -> dict[str, Any]:
    return {"seed": {"datasetId": str(state.dataset_id), "datasetKind": str(state.kind)}}


def _sources(state: ChainState, _: SchemaFormat) -> dict[str, Any]:
    return {"sources": [to_data(each) for _, each in sorted(state.push_sources.items())]}


def _vocab(state: ChainState, _: SchemaFormat) -> dict[str, Any]:
    names = ("offsetColumn", "operationTypeColumn", "systemTimeColumn", "eventTimeColumn")
    return {"vocab": dict(zip(names, state.vocab.columns, strict=True))}


_ASPECTS: dict[Aspect, Callable[[ChainState, SchemaFormat], dict[str, Any]]] = {
    Aspect.ATTACHMENTS: _event("attachments"),
    Aspect.INFO: _event("info"),
    Aspect.LICENSE: _event("license"),
    Aspect.REFS: _refs,
    Aspect.SCHEMA: _schema,
    Aspect.SEED: _seed,
    Aspect.SOURCES: _sources,
    Aspect.VOCAB: _vocab,
}


DEFAULT_TAIL = 100
MAX_ROWS = 2**53
AuthoringDep = Annotated[Authoring, Depends(wired(Authoring))]
CheckingDep = Annotated[Checking, Depends(wired(Checking))]
TrialsDep = Annotated[Trials, Depends(wired(Trials))]
TailsDep = Annotated[Tails, Depends(wired(Tails))]

router = APIRouter(tags=["datasets"])


def _follow(
    mirrors: Mirrors,
    access: DatasetAccess,
    actor: Actor,
    asked: MirrorAsked,
    visibility: Visibility,
    look_s: float,
) -> tuple[DatasetEntry, JobId]:
    from ..mirrors.mirror_pull import create_mirror  # importing its client takes long

    return create_mirror(mirrors, access, actor, asked, visibility, look_s=look_s)


@router.post("/datasets", status_code=201, summary="Create a dataset from a DatasetSnapshot")
async def create(
    request: Request,
    authoring: AuthoringDep,
    checking: CheckingDep,
    mirrors: MirrorsDep,
    access: AccessDep,
    settings: SettingsDep,
    outgoing: OutgoingDep,
    actor: ActorDep,
    base: BaseDep,
    visibility: str = "private",
    dry_run: Annotated[bool, Query(alias="dryRun")] = False,
) -> Response:
    """The body is a manifest in YAML or JSON. For a mirror, the response also has a job.

    A worker checks queries of transforms and sources first; a dry run ends after that.
    """
    asked = parse_visibility(visibility)
    manifest = await small_body(request, MAX_MANIFEST_BYTES)
    mirror = await run_in_threadpool(mirror_asked, manifest)
    if mirror is not None:
        work = partial(_follow, mirrors, access, actor, mirror, asked, settings.outgoing_s)
        entry, job = await outgoing.run(caller_of(request.scope), work)
        shown = {**summary(access, entry, base), "job": job, "jobUrl": f"{base}jobs/{job}"}
        return JsonAnswer(shown, 201, {"location": shown["url"]})
    made = await run_in_threadpool(usecase.prepare_dataset, authoring, actor, manifest, asked)
    try:
        checked = await definition.looked_at(checking, made.events)
    except definition.TransformRefused as refused:
        return failed_answer(refused.failed)
    if dry_run:
        events = [to_data(event) for event in made.events[1:]]
        alias = access.shown_alias(made.entry)
        plain = {"alias": alias, "kind": str(made.entry.kind), "dryRun": True, "events": events}
        return JsonAnswer({**plain, **checked})
    entry, head = await run_in_threadpool(usecase.create_prepared, authoring.stores, made)
    shown = {**summary(access, entry, base), "head": str(head), **checked}
    return JsonAnswer(shown, 201, {"location": shown["url"]})


@router.post("/datasets/trial", summary="Try manifests on a sample; nothing is created")
async def trial(request: Request, trials: TrialsDep, actor: ActorDep) -> Response:
    """The body is `{"manifests": "…", "sample": {"fileName": "rows.csv", "content": "…"}}`. The
    sample is optional. Derivatives are tried on the first rows of their inputs."""
    if actor.account is None:  # refuse before any work is done for an anonymous actor
        raise Unauthenticated
    raw = await small_body(request, trials.body_bytes)
    try:
        asked = decode_json(raw, TrialAsked)
    except (msgspec.DecodeError, UnicodeError) as bad:
        raise BadInput("MalformedBody", f"the trial cannot be read: {str(bad)[:300]}") from None
    try:
        return JsonAnswer(await tried(trials, actor, asked))
    except definition.TransformRefused as refused:
        return failed_answer(refused.failed)


@router.get("/datasets", summary="Datasets that the caller may read")
def listing(
    stores: StoresDep,
    access: AccessDep,
    actor: ActorDep,
    base: BaseDep,
    search: Annotated[str | None, Query(max_length=MAX_SEARCH_CHARS)] = None,
    kind: Annotated[str | None, Query(max_length=20)] = None,
    account: Annotated[str | None, Query(max_length=200)] = None,
    visibility: Annotated[str | None, Query(max_length=20)] = None,
    keyword: Annotated[str | None, Query(max_length=200)] = None,
    license: Annotated[str | None, Query(max_length=200)] = None,  # noqa: A002 - the parameter
    since: Annotated[str | None, Query(max_length=40)] = None,
    sort: Annotated[str | None, Query(max_length=20)] = None,
    order: Annotated[str | None, Query(max_length=20)] = None,
    after: Annotated[str | None, Query(max_length=400)] = None,
    limit: Annotated[int, Query(ge=1)] = 100,
    details: bool = False,
) -> Response:
    """`next` is the `after` of the next page, null on the last; `total` counts all pages."""
    refuse_bad_token(actor)
    asked = ListingRequest(
        search=search,
        kind=kind,
        account=account,
        visibility=visibility,
        keyword=keyword,
        license=license,
        since=since,
        sort=sort,
        order=order,
    )
    wanted = question(access, actor, asked)
    page, more = page_of(access, wanted, after=after, limit=min(limit, MAX_PAGE))
    shown = [
        detailed_summary(stores, access, listed, base)
        if details
        else summary(access, listed.entry, base)
        for listed in page
    ]
    return JsonAnswer({"datasets": shown, "next": more, "total": wanted.total})


def info(
    stores: StoresDep,
    access: AccessDep,
    derivatives: DerivativesDep,
    actor: ActorDep,
    entry: ReadableDep,
    base: BaseDep,
) -> Response:
    """Return the facts of the dataset: identity, head, sizes, schema, sources, watermark."""
    shown = usecase.description(stores, access, entry, base)
    state = stores.dataset(DatasetRef(id=entry.id)).state()
    content = {**shown, "derivation": derivation(derivatives, actor, entry, state)}
    return JsonAnswer(content, headers={"vary": "accept"})


def delete(
    stores: StoresDep,
    access: AccessDep,
    actor: ActorDep,
    entry: MaintainedDep,
    expected_head: Annotated[str | None, Query(alias="expectedHead", max_length=200)] = None,
) -> Response:
    """Refused while derivatives of this node read the dataset. Copies on other nodes remain."""
    expected = None if expected_head is None else Multihash.parse(expected_head)
    delete_dataset(stores, access, actor, entry, expected=expected)
    return Response(status_code=204)


async def append(
    request: Request,
    authoring: AuthoringDep,
    checking: CheckingDep,
    actor: ActorDep,
    entry: OpenDep,
    expected_head: Annotated[str | None, Query(alias="expectedHead", max_length=200)] = None,
    dry_run: Annotated[bool, Query(alias="dryRun")] = False,
) -> Response:
    """The body is one MetadataEvent manifest in YAML or JSON.

    A worker checks a query first. A dry run returns the result of all checks, and appends nothing.
    """
    expected = None if expected_head is None else Multihash.parse(expected_head)
    manifest = await small_body(request, MAX_MANIFEST_BYTES)
    event = await run_in_threadpool(usecase.event_to_append, authoring.access, actor, manifest)
    before = await run_in_threadpool(authoring.stores.dataset(DatasetRef(id=entry.id)).state)
    try:
        checked = await definition.looked_at(checking, [event], before)
    except definition.TransformRefused as refused:
        return failed_answer(refused.failed)
    state, is_new = await run_in_threadpool(
        usecase.append_event, authoring, actor, entry, event, expected=expected, dry_run=dry_run
    )
    if dry_run:
        return JsonAnswer({"dryRun": True, "changed": is_new, "event": to_data(event), **checked})
    facts = {"head": str(state.head), "blocks": state.num_blocks, "changed": is_new}
    return JsonAnswer({**facts, **checked})


def metadata(
    stores: StoresDep,
    entry: ReadableDep,
    include: str = Aspect.SEED.value,
    schema_format: Annotated[str, Query(alias="schemaFormat")] = SchemaFormat.ARROW_JSON.value,
) -> Response:
    """Return aspects of the metadata: attachments, info, license, refs, schema, seed,
    sources (those that take posts), vocab."""
    aspects, form = parse_aspects(include), parse_format(schema_format, SchemaFormat)
    state = stores.dataset(DatasetRef(id=entry.id)).state()
    return JsonAnswer({"output": describe(state, aspects, form)})


async def tail(
    request: Request,
    tails: TailsDep,
    readers: ReadersDep,
    entry: ReadableDep,
    skip: Annotated[int, Query(ge=0, le=MAX_ROWS)] = 0,
    limit: Annotated[int, Query(ge=0, le=MAX_ROWS)] = DEFAULT_TAIL,
    data_format: Annotated[str, Query(alias="dataFormat")] = DataFormat.AOS.value,
    schema_format: Annotated[str | None, Query(alias="schemaFormat")] = None,
) -> Response:
    """Return the last records in offset order. `skip` counts from the end."""
    shape = parse_format(data_format, DataFormat)
    form = None if schema_format is None else parse_format(schema_format, SchemaFormat)
    plan = partial(tail_task, tails, entry, skip=skip, limit=limit, shape=shape)
    task, source, schema = await run_in_threadpool(plan)
    facts = {"dataFormat": shape.value}
    if form is not None and schema is not None:
        facts |= {"schema": written(schema, form), "schemaFormat": form.value}
    if not task.slices:
        return JsonAnswer({"data": [], **facts})
    try:
        rows = await readers.answer(task, source, caller_of(request.scope))
    except ReadRefused as refused:
        return failed_answer(refused.failed)
    before = b'{"data":'
    behind = b"," + msgspec.json.encode(facts)[1:]
    return StreamedRows(rows, before=before, behind=behind, media_type=JsonAnswer.media_type)


def add_dataset_routes(routes: APIRouter, prefix: str) -> None:
    """Serve these routes below the dataset addresses."""
    tags: list[str | Enum] = ["datasets"]
    routes.get(prefix, summary="The dataset as it stands", tags=tags)(info)
    routes.delete(prefix, summary="Delete the dataset", status_code=204, tags=tags)(delete)
    routes.get(prefix + "/tail", summary="The last records", tags=tags)(tail)
    routes.get(prefix + "/metadata", summary="Aspects of the metadata", tags=tags)(metadata)
    routes.post(prefix + "/metadata", summary="Append an authored event", tags=tags)(append)
