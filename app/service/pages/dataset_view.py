"""What the page of a dataset shows, out of the use cases of the API; no HTML in here."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any
from urllib.parse import urlsplit

import msgspec
from anyio import from_thread

from odf_node.protocol.chain.state import ChainState
from odf_node.protocol.codec.manifests import to_data
from odf_node.protocol.errors import NodeError
from odf_node.protocol.identity import DatasetRef
from odf_node.protocol.metadata.block import HashedBlock
from odf_node.protocol.metadata.events import DatasetKind
from odf_node.protocol.metadata.schema import DataSchema
from odf_node.storage.datasets.node.stores import Stores
from odf_node.storage.stores.ports.values import DatasetEntry

from ...client.event_lines import event_detail, event_name
from ..auth.access import Action
from ..auth.actors import Actor
from ..datasets.datasets import description
from ..derivatives.derivatives import derivation
from ..files.parquet_files import list_files
from ..http.media_types import extension_of
from ..lineage import lineage
from ..read.tail import last_rows
from .asking import answered
from .markdown import markdown
from .views import Views, root_of

ROWS = 20
ROWS_BYTES = 1024 * 1024
"""Of the rows of a page; longer ones are for those that ask for rows alone."""
BLOCKS = 20
FILES = 10
STEPS = 3
"""How far lineage is shown up and down."""
MAX_CELL_CHARS = 120
MARKDOWN = (".md", ".markdown")
DEFAULT_SOURCE = "default"


def dataset(
    views: Views,
    actor: Actor,
    entry: DatasetEntry,
    base: str,
    caller: str,
    query: str | None = None,
) -> dict[str, Any]:
    """One dataset: what it says of itself, its newest rows, what a query gives, blocks, files, and
    its lineage."""
    shown = description(views.stores, views.access, entry, base)
    state = views.stores.dataset(DatasetRef(id=entry.id)).state()
    path = f"{root_of(views)}/{shown['alias']}"
    allowed = views.access.grants(actor, entry)
    attachments = state.attachments.attachments.items if state.attachments else ()
    return {
        "base": base,
        "dataset": shown,
        "at": path,
        "smart": f"odf+{shown['url']}",
        "derivation": derivation(views.derivatives, actor, entry, state),
        "transform": _queries(state.transform),
        "attachments": [_document(item.path, item.content) for item in attachments],
        "license_url": _web_link(state.license.website_url if state.license else None),
        "posting": _posting(state) if Action.WRITE in allowed else None,
        "columns": _columns(state.data_schema),
        "rows": _rows(views, entry, caller),
        "asked": _asked(views, actor, caller, query, shown["alias"]),
        "blocks": _blocks(views.stores, entry),
        "files": list_files(
            views.stores, views.stores.blocks, entry, f"{path}/", at=None, before=None, limit=FILES
        )["files"],
        **_lineage(views, actor, entry),
    }


def _queries(definition: Any) -> list[str]:
    if definition is None:
        return []
    transform = definition.transform
    steps = [step.query for step in transform.queries or ()]
    return steps or ([transform.query] if transform.query else [])


def _document(path: str, content: str) -> dict[str, Any]:
    """An attachment; Markdown as HTML, everything else as it is."""
    is_markdown = path.lower().endswith(MARKDOWN)
    return {"path": path, "content": content, "html": markdown(content) if is_markdown else None}


def _web_link(url: str | None) -> str | None:
    """The address if a browser may be led there; strangers write it."""
    return url if url and urlsplit(url).scheme in ("http", "https") else None


def _posting(state: ChainState) -> dict[str, Any] | None:
    """A file as the first push source reads it, and the source's name if it has to be said."""
    if not state.push_sources:
        return None
    name = min(state.push_sources)
    read = state.push_sources[name].read
    is_named = list(state.push_sources) != [DEFAULT_SOURCE]
    return {"file": f"rows.{extension_of(read)}", "source": name if is_named else None}


def _columns(schema: DataSchema | None) -> list[tuple[str, str]]:
    """Names and types, members of structs by their path: `address.city`."""
    fields = [] if schema is None else to_data(schema)["fields"]
    return [line for field in fields for line in _column(field["name"], field["type"])]


def _column(path: str, kind: dict[str, Any]) -> Iterator[tuple[str, str]]:
    yield path, type_text(kind)
    inner = kind
    while "inner" in inner or "itemType" in inner:
        path += "[]" if "itemType" in inner else ""
        inner = inner.get("inner") or inner["itemType"]
    for member in inner.get("fields", ()):
        yield from _column(f"{path}.{member['name']}", member["type"])


def type_text(kind: dict[str, Any]) -> str:
    """A type in words: `Int32`, `List of String`, `Float64, or null`."""
    name: str = kind["kind"]
    if name == "Option":
        return f"{type_text(kind['inner'])}, or null"
    inner = kind.get("itemType")
    facts = [f"{key} {value}" for key, value in kind.items() if isinstance(value, int | str)]
    told = ", ".join(facts[1:])
    return f"{name} of {type_text(inner)}" if inner else f"{name} ({told})" if told else name


def _rows(views: Views, entry: DatasetEntry, caller: str) -> dict[str, Any]:
    """The newest rows, newest first; `problem` instead when they cannot be read."""
    asked = partial(
        last_rows, views.tails, views.readers, entry, caller, limit=ROWS, max_bytes=ROWS_BYTES
    )
    try:
        columns = from_thread.run(asked)
    except NodeError as error:
        return {"columns": [], "values": [], "problem": error.message}
    rows = reversed(list(zip(*columns.values(), strict=True)))
    cells = [[_cell(value) for value in row] for row in rows]
    return {"columns": list(columns), "values": cells, "problem": None}


def _asked(
    views: Views, actor: Actor, caller: str, query: str | None, alias: str
) -> dict[str, Any]:
    shown = answered(views.queries, actor, caller, query, alias=alias)
    return {**shown, "values": [[_cell(value) for value in row] for row in shown["values"]]}


def _cell(value: Any) -> str | None:
    if value is None:
        return None
    nested = isinstance(value, dict | list | tuple)
    text = msgspec.json.encode(value, enc_hook=str).decode() if nested else str(value)
    return text if len(text) <= MAX_CELL_CHARS else text[: MAX_CELL_CHARS - 1] + "…"


def _blocks(stores: Stores, entry: DatasetEntry) -> list[dict[str, Any]]:
    head = stores.refs.head(entry.id)
    return [_block(one) for one in stores.blocks.ancestors(entry.id, head, limit=BLOCKS)]


def _block(block: HashedBlock) -> dict[str, Any]:
    return {
        "number": block.sequence_number,
        "hash": str(block.hash),
        "at": str(block.block.system_time),
        "event": event_name(block.event),
        "detail": event_detail(block.event),
    }


def _lineage(views: Views, actor: Actor, entry: DatasetEntry) -> dict[str, Any]:
    """Inputs and users, each with the steps between; aliases only of what is visible."""
    graph = lineage.lineage_of(views.lineage, actor, entry, up=STEPS, down=STEPS)
    names = {one: item.alias for one, item in graph.known.items()}
    edges = [{"input": names.get(one), "output": names.get(other)} for one, other in graph.edges]
    is_derivative = entry.kind is DatasetKind.Derivative
    return {"edges": edges, "is_derivative": is_derivative}
