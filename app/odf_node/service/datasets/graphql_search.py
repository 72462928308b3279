"""The search of the reference node's command, in GraphQL: its schema, and answers to documents.

The routes import it with the first request, since the library is large and seldom needed.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import msgspec
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

from odf_protocol.errors import BadInput
from odf_storage.datasets.node.naming import SINGLE_OWNER
from odf_storage.datasets.node.overviews import overview_now
from odf_storage.datasets.node.stores import Stores
from odf_storage.stores.ports.overviews import ListedOverview

from ..auth.actors import Actor
from ..auth.dataset_access import DatasetAccess
from .listing import ListingRequest, page_of, question

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


class GraphqlBody(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A request as GraphQL over HTTP has it."""

    query: str
    variables: dict[str, Any] | None = None
    operation_name: str | None = None


@dataclass
class SearchOfRequest:
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


def answered(search: SearchOfRequest, body: GraphqlBody) -> dict[str, Any]:
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
