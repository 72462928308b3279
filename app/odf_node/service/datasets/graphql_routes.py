"""`POST /graphql`: the one query that the command `search` of the reference node sends.

GraphQL is no interface of this node. That command asks all its repositories and ends at the first
one that does not answer, so this search is answered. The schema has nothing else: any other query
gets an error in the form of GraphQL.

Routes for maintainers of a dataset: its visibility, its roles, and its name.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import Annotated, Any

import msgspec
from fastapi import APIRouter, Depends, Request
from graphql import (
    GraphQLError,
    GraphQLResolveInfo,
    NoSchemaIntrospectionCustomRule,
    build_schema,
    execute_sync,
    parse,
    specified_rules,
    validate,
)
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from odf_protocol.errors import BadInput
from odf_protocol.typed import decode_json
from odf_storage.datasets.node.naming import SINGLE_OWNER
from odf_storage.datasets.node.overviews import overview_now
from odf_storage.datasets.node.stores import Stores
from odf_storage.stores.ports.publications import ListedOverview

from ..auth.access import refuse_bad_token
from ..auth.actors import Actor
from ..auth.dataset_access import DatasetAccess
from ..http.answers import JsonAnswer
from ..http.bodies import small_body
from ..http.deps import AccessDep, ActorDep, BaseDep, MaintainedDep, ReadableDep, StoresDep, wired
from ..http.parameters import MAX_PAGE
from . import listing as usecase
from .datasets import rename_dataset, summary
from .listing import DatasetRoles, ListingRequest, page_of, parse_role, parse_visibility, question

MAX_BODY_BYTES = 64 * 1024
MAX_TOKENS = 200
"""Limit of tokens of a document; the search has some 70. It bounds the depth of nesting, too."""
MAX_ERRORS = 3
DEFAULT_NODES = 10
_SCHEMA = build_schema("""
    "A whole number of up to 64 bits"
    scalar Count
    enum DatasetKind { ROOT DERIVATIVE }
    type Account { accountName: String! }
    type Blocks { totalCount: Count! }
    type Chain { blocks(page: Int, perPage: Int): Blocks! }
    type Metadata { chain: Chain! }
    type Data { numRecordsTotal: Count! estimatedSizeBytes: Count! }
    type Dataset {
      id: String! name: String! owner: Account! kind: DatasetKind! metadata: Metadata! data: Data!
    }
    union SearchResult = Dataset
    type Found { nodes: [SearchResult!]! }
    type Search { query(query: String!, perPage: Int): Found! }
    type Query { search: Search! }
""")
_RULES = (*specified_rules, NoSchemaIntrospectionCustomRule)

router = APIRouter(tags=["datasets"])


class GraphqlBody(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A request as GraphQL over HTTP has it."""

    query: str
    variables: dict[str, Any] | None = None
    operation_name: str | None = None


@dataclass
class Search:
    """The search of one request, which may be made once."""

    stores: Stores
    access: DatasetAccess
    actor: Actor
    most: int
    _is_made: bool = field(default=False, init=False)

    def query(self, _: GraphQLResolveInfo[Any], **given: Any) -> dict[str, Any]:
        """Return the readable datasets with the words of `query`, `perPage` at most.

        Raises:
            GraphQLError: a second search. SearchTooLong.
        """
        if self._is_made:
            raise GraphQLError("a request has one search")
        self._is_made = True
        wanted = question(self.access, self.actor, ListingRequest(search=given["query"]))
        asked = given.get("perPage")
        limit = max(1, min(DEFAULT_NODES if asked is None else asked, self.most))
        page, _more = page_of(self.access, wanted, after=None, limit=limit)
        return {"nodes": [self._node(listed) for listed in page]}

    def _node(self, listed: ListedOverview) -> dict[str, Any]:
        entry, said = listed.entry, overview_now(self.stores, listed)
        return {
            "__typename": "Dataset",
            "id": str(entry.id),
            "name": str(entry.alias.name),
            "owner": {"accountName": str(entry.alias.account or SINGLE_OWNER)},
            "kind": str(entry.kind).upper(),
            "metadata": {"chain": {"blocks": {"totalCount": said.blocks}}},
            "data": {"numRecordsTotal": said.records, "estimatedSizeBytes": said.data_size},
        }


@router.post("/graphql", summary="The search of the reference node's command")
async def graphql(
    request: Request, stores: StoresDep, access: AccessDep, actor: ActorDep
) -> Response:
    """The body is `{"query": "…", "variables": {…}}`. Any other query gets `errors`."""
    refuse_bad_token(actor)
    raw = await small_body(request, MAX_BODY_BYTES)
    try:
        body = decode_json(raw, GraphqlBody)
    except (msgspec.DecodeError, UnicodeError) as bad:
        raise BadInput("MalformedBody", f"the request cannot be read: {str(bad)[:300]}") from None
    search = Search(stores, access, actor, MAX_PAGE)
    return JsonAnswer(await run_in_threadpool(answered, search, body))


def answered(search: Search, body: GraphqlBody) -> dict[str, Any]:
    """Return the response to a document: `data`, or `errors` that say what is wrong with it.

    Raises whatever ended the search, unless the document is the cause.
    """
    try:
        document = parse(body.query, no_location=True, max_tokens=MAX_TOKENS)
    except GraphQLError as bad:
        return {"errors": [bad.formatted]}
    if errors := validate(_SCHEMA, document, _RULES, max_errors=MAX_ERRORS):
        return {"errors": [error.formatted for error in errors]}
    result = execute_sync(
        _SCHEMA,
        document,
        {"search": search},
        variable_values=body.variables,
        operation_name=body.operation_name,
    )
    for error in result.errors or ():
        cause = error.original_error
        if cause is not None and not isinstance(cause, BadInput | GraphQLError):
            raise cause
    return dict(result.formatted)


MAX_ACCESS_BODY_BYTES = 4096
RolesDep = Annotated[DatasetRoles, Depends(wired(DatasetRoles))]


def access(roles: RolesDep, entry: MaintainedDep) -> Response:
    """Return visibility, owner, and all roles."""
    return JsonAnswer(usecase.access_of(roles, entry))


def role(
    name: str, roles: RolesDep, access: AccessDep, actor: ActorDep, entry: ReadableDep
) -> Response:
    """Return the caller's own role, or, for maintainers, that of any account; null for none."""
    return JsonAnswer(usecase.role_of(roles, access, actor, entry, name))


async def give(name: str, request: Request, roles: RolesDep, entry: MaintainedDep) -> Response:
    """The body is `{"role": "Reader" | "Editor" | "Maintainer"}`. It replaces an earlier role."""
    asked = parse_role(await _text(request, "role"))
    return JsonAnswer(await run_in_threadpool(usecase.give_role, roles, entry, name, asked))


def take(name: str, roles: RolesDep, entry: MaintainedDep) -> Response:
    usecase.take_role(roles, entry, name)
    return Response(status_code=204)


async def visibility(
    request: Request, stores: StoresDep, access: AccessDep, entry: MaintainedDep
) -> Response:
    """The body is `{"visibility": "Public" | "Private"}`."""
    asked = parse_visibility(await _text(request, "visibility"))
    changed = await run_in_threadpool(
        usecase.change_visibility, stores, access.entries, entry, asked
    )
    return JsonAnswer({"visibility": changed.visibility.value})


async def name(
    request: Request,
    stores: StoresDep,
    access: AccessDep,
    entry: MaintainedDep,
    base: BaseDep,
) -> Response:
    """The body is `{"name": "…"}`. The dataset stays in its account."""
    asked = await _text(request, "name")
    renamed = await run_in_threadpool(rename_dataset, stores, access.entries, entry, asked)
    return JsonAnswer(summary(access, renamed, base))


def add_access_routes(routes: APIRouter, prefix: str) -> None:
    """Serve these routes below the dataset addresses. Names of handlers must not clash."""
    tags: list[str | Enum] = ["access"]
    one = prefix + "/access/{name}"
    routes.get(prefix + "/access", summary="Who has access to the dataset", tags=tags)(access)
    routes.get(one, summary="Role of an account", tags=tags)(role)
    routes.put(one, summary="Give an account a role", tags=tags)(give)
    routes.delete(one, summary="Take its role from an account", status_code=204, tags=tags)(take)
    routes.put(prefix + "/visibility", summary="Make it public or private", tags=tags)(visibility)
    routes.put(prefix + "/name", summary="Call it otherwise", tags=tags)(name)


async def _text(request: Request, field: str) -> str:
    body: Any = None
    try:
        body = decode_json(await small_body(request, MAX_ACCESS_BODY_BYTES), object)
    except (msgspec.DecodeError, UnicodeError):
        body = None
    value = body.get(field) if isinstance(body, dict) else None
    if not isinstance(value, str):
        raise BadInput("MalformedBody", f'the body has to be JSON: {{"{field}": "…"}}')
    return value
