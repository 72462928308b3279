"""The tools of the door: search, describe, sample and query, with the rights of the caller.

An answer is one JSON object, bounded in bytes: rows beyond that are cut, and the answer says so.
Whole numbers that JavaScript would round are texts, as decimals are in every answer to a query.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, NamedTuple

import msgspec
from anyio import to_thread
from msgspec import Meta
from pydantic import Field

from odf_protocol.columns.column_names import texts_of
from odf_protocol.errors import BadInput, LimitExceeded, NotFound
from odf_protocol.metadata.schema import DataField
from odf_protocol.typed import convert, decode_json
from odf_storage.datasets.node.stores import Stores
from odf_storage.datasets.query.messages import Form
from odf_storage.runtime.environment import BaseSettings
from odf_storage.stores.ports.values import DatasetEntry

from ..auth.access import DatasetHidden
from ..auth.actors import Actor
from ..auth.dataset_access import DatasetAccess
from ..datasets.datasets import description, detailed_summary
from ..datasets.listing import MAX_SEARCH_CHARS, ListingRequest, page_of, question
from ..query.background import DEFAULT_LIMIT, QueryBody, checked
from ..query.inputs import DatasetPin, QueryInputs
from ..query.proofs import SigningKeys, output_hash
from ..query.query import Queries
from ..query.verify import gathered
from ..read.exact_values import LARGEST_EXACT, exact_rows, texts_of_large

MOST_FOUND = 50
MOST_SAMPLED = 100
COLUMNS_KEPT = 1_000
SIGNED = "in a signed answer NaN and infinite numbers are null"
Answer = dict[str, Any]


class McpSettings(BaseSettings):
    """Read from `ODF_MCP_…`."""

    PREFIX: ClassVar[str] = "ODF_MCP_"

    answer_bytes: int = Field(
        128 * 1024,
        ge=1024,
        description="Most bytes of an answer; rows beyond are cut, and the answer says so.",
    )


class ToolCall(NamedTuple):
    """Who calls a tool: the actor, the caller whose share it uses, the address of the node."""

    actor: Actor
    caller: str
    base: str


Dataset = Annotated[
    str, Meta(max_length=400, description="Name of a dataset (account/name, or name), or its id")
]
_Rows = Annotated[int, Meta(ge=1, description="Most rows of the answer")]


class SearchAsked(msgspec.Struct, forbid_unknown_fields=True):
    search: Annotated[
        str, Meta(max_length=MAX_SEARCH_CHARS, description="Words in names and descriptions")
    ] = ""
    account: Annotated[str, Meta(max_length=200, description="Only datasets of this account")] = ""
    limit: Annotated[int, Meta(ge=1, le=MOST_FOUND)] = 20
    after: Annotated[str, Meta(max_length=400, description="`next` of the page before")] = ""


class DescribeAsked(msgspec.Struct, forbid_unknown_fields=True):
    dataset: Dataset


class SampleAsked(msgspec.Struct, forbid_unknown_fields=True):
    dataset: Dataset
    limit: Annotated[int, Meta(ge=1, le=MOST_SAMPLED)] = 10


class QueryAsked(msgspec.Struct, forbid_unknown_fields=True):
    sql: Annotated[
        str,
        Meta(
            description="One SELECT in the dialect of DataFusion. Tables are names of datasets in"
            ' double quotes, such as "account/name"; "account/name@changelog" has all rows.'
        ),
    ]
    limit: _Rows = DEFAULT_LIMIT
    datasets: Annotated[
        list[DatasetPin] | None,
        Meta(description="Pins: id, alias in the query and blockHash, to ask as of a block"),
    ] = None
    proof: Annotated[
        bool, Meta(description="Add a signed proof, which POST /verify of any node checks")
    ] = False


@dataclass(frozen=True)
class McpTools:
    """Does what tools are called for. Use it in the thread of the event loop."""

    stores: Stores
    access: DatasetAccess
    inputs: QueryInputs
    queries: Queries
    keys: SigningKeys
    most_bytes: int
    """Limit of the JSON of an answer."""

    async def call(self, name: str, arguments: dict[str, Any], call: ToolCall) -> Answer:
        """Call a tool. Raises `UnknownTool`, `InvalidToolArguments`, and the errors of the tool."""
        tool = TOOLS.get(name)
        if tool is None:
            raise BadInput("UnknownTool", f"there is no tool {name[:50]!r}; see tools/list")
        try:
            asked = convert(arguments, tool.asked, strict=False)
        except msgspec.ValidationError as bad:
            raise BadInput("InvalidToolArguments", str(bad)[:300]) from None
        return await tool.work(self, asked, call)

    async def search(self, asked: SearchAsked, call: ToolCall) -> Answer:
        return await to_thread.run_sync(self._found, asked, call)

    async def describe(self, asked: DescribeAsked, call: ToolCall) -> Answer:
        return await to_thread.run_sync(self._described, asked, call)

    async def sample(self, asked: SampleAsked, call: ToolCall) -> Answer:
        """Return rows as they come: the current ones."""
        entry = await to_thread.run_sync(self._entry, call.actor, asked.dataset)
        sql = f'select * from "{entry.id}"'  # noqa: S608 - an id has letters and digits
        return await self.query(QueryAsked(sql, limit=asked.limit), call)

    async def query(self, asked: QueryAsked, call: ToolCall) -> Answer:
        """Return rows, and the datasets and blocks of which they are.

        Raises the errors of `Queries.begin`; AnswerTooLong.
        """
        body = QueryBody(
            query=asked.sql,
            limit=asked.limit,
            datasets=asked.datasets,
            include=["Proof"] if asked.proof else [],
        )
        form = Form.AOS if asked.proof else Form.ARROW
        wanted = checked(body, form=form, max_rows=self.queries.settings.query_max_rows)
        rows, data, facts = await gathered(self.queries, call.actor, call.caller, wanted)
        told = wanted.echo(rows.pins, rows.projection)
        columns = [{"name": each.name, "type": _kind(each.type)} for each in rows.schema.fields]
        if not asked.proof:
            names = ("query", "projection", "datasets")
            kept = {name: told[name] for name in names if name in told}
            return await to_thread.run_sync(self._cut, data, {"columns": columns, "input": kept})
        proven = self.keys.proven(told, output_hash(data, facts))
        answer = {"columns": columns, "input": told, **proven, "note": SIGNED}
        found = await to_thread.run_sync(self._cut, data, answer)
        if found["truncated"]:
            raise LimitExceeded(
                "AnswerTooLong",
                f"the answer takes more than {self.most_bytes} bytes, and a proof is of a whole "
                "answer: ask for fewer rows or columns",
                limit=self.most_bytes,
                setting="ODF_MCP_ANSWER_BYTES",
            )
        return found

    def _found(self, asked: SearchAsked, call: ToolCall) -> Answer:
        listed = ListingRequest(search=asked.search or None, account=asked.account or None)
        wanted = question(self.access, call.actor, listed)
        page, after = page_of(self.access, wanted, after=asked.after or None, limit=asked.limit)
        shown = [detailed_summary(self.stores, self.access, each, call.base) for each in page]
        names = ("alias", "id", "description", "keywords", "records", "updatedAt", "url")
        kept = [{name: each[name] for name in names} for each in shown]
        found: Answer = _large_as_texts({"datasets": kept, "next": after})
        return found

    def _described(self, asked: DescribeAsked, call: ToolCall) -> Answer:
        entry = self._entry(call.actor, asked.dataset)
        told = description(self.stores, self.access, entry, call.base)
        schema = self.inputs.columns(entry)
        names = ("alias", "id", "kind", "description", "keywords", "license", "head", "records")
        columns = [
            {"name": each.name, "type": _kind(each.type), **_said(each)}
            for each in schema.fields[:COLUMNS_KEPT]
        ]
        found: Answer = _large_as_texts(
            {name: told[name] for name in (*names, "watermark", "updatedAt", "url")}
            | {"columns": columns, "truncated": len(schema.fields) > COLUMNS_KEPT}
            | {"primaryKey": list(self.inputs.key(entry))}
        )
        return found

    def _entry(self, actor: Actor, name: str) -> DatasetEntry:
        entry = self.inputs.named(actor, name)
        if entry is None:
            renamed = self.inputs.renamed(actor, name)
            if renamed is not None:
                raise NotFound("DatasetRenamed", f"the dataset was renamed to {renamed}")
            raise DatasetHidden(actor.reason)
        return entry

    def _cut(self, data: bytes, answer: Answer) -> Answer:
        """Return the answer with as many of the rows as fit. They are JSON, or a stream of
        Arrow."""
        rows = _large_as_texts(decode_json(data, list[Any])) if data[:1] == b"[" else _rows(data)
        left, kept = self.most_bytes - len(msgspec.json.encode(answer)), 0
        for row in rows:
            left -= len(msgspec.json.encode(row)) + 1
            if left < 0:
                break
            kept += 1
        more: Answer = {"rows": rows[:kept], "truncated": kept < len(rows)}
        if kept < len(rows):
            more["note"] = (
                f"only the first {kept} of {len(rows)} rows are here: an answer has at most "
                f"{self.most_bytes} bytes; ask for fewer columns, or for the rest by OFFSET"
            )
        return {**answer, **more}


def _rows(data: bytes) -> list[Any]:
    """Return the rows of a stream of Arrow, as plain Python values."""
    import pyarrow as pa  # slow to load

    with pa.ipc.open_stream(data) as stream:
        rows = exact_rows(stream.read_all(), texts_of_large)
    return decode_json(msgspec.json.encode(rows), list[Any])


def _large_as_texts(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _large_as_texts(each) for name, each in value.items()}
    if isinstance(value, list):
        return [_large_as_texts(each) for each in value]
    is_large = type(value) is int and abs(value) > LARGEST_EXACT
    return str(value) if is_large else value


def _said(field: DataField) -> dict[str, str]:
    said = texts_of(field)
    told = {"description": said.description, "unit": said.unit}
    return {name: text for name, text in told.items() if text}


def _kind(data_type: Any) -> str:
    """Return the name of a type; nullable or not."""
    inner = getattr(data_type, "inner", data_type)
    return str(inner.__struct_config__.tag)


class Tool(NamedTuple):
    """A tool: what it is for, its arguments, and what does it."""

    about: str
    asked: type[msgspec.Struct]
    work: Callable[[McpTools, Any, ToolCall], Awaitable[Answer]]

    @property
    def schema(self) -> dict[str, Any]:
        """Return the JSON Schema of the arguments."""
        told = msgspec.json.schema(self.asked)
        parts = told["$defs"]
        own: dict[str, Any] = parts.pop(self.asked.__name__)
        return {**own, "$defs": parts} if parts else own


TOOLS = {
    "search_datasets": Tool(
        "Find datasets of this node that you may read, by words in their names and descriptions.",
        SearchAsked,
        McpTools.search,
    ),
    "describe_dataset": Tool(
        "Describe a dataset: its columns with types, key, license, number of rows, newest block.",
        DescribeAsked,
        McpTools.describe,
    ),
    "sample_rows": Tool(
        "Show some current rows of a dataset.", SampleAsked, McpTools.sample
    ),
    "query": Tool(
        "Ask datasets by SQL. The answer names the blocks that it was computed from: send them as "
        "`datasets` to get the same answer later. Decimals, times and large whole numbers are "
        "texts.",
        QueryAsked,
        McpTools.query,
    ),
}  # fmt: skip
