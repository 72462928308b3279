"""Sources of `odf-node sql`: a node over HTTP, or folders through a process of this machine."""

from __future__ import annotations

import asyncio
import json
import shutil
import tempfile
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Protocol

import msgspec

from odf_protocol.commitments import (
    Commitment,
    MalformedProof,
    Proof,
    TextForm,
    exactly_decoded,
    forms_of,
    is_signed,
)
from odf_protocol.errors import BadInput, Damaged, NotFound
from odf_protocol.multihash import Multihash
from odf_protocol.typed import convert
from odf_storage.datasets.read.formats import MEDIA_TYPES, Format

from ...client.nodes.http import open_http
from ...client.nodes.node_api import NodeApi
from ...client.nodes.remotes import node_base

MAX_DOCUMENT_BYTES = 256 << 20
MAX_KEYS = 1_000
PIECE_BYTES = 1 << 20


class SqlSource(Protocol):
    """A node or a set of folders that answers queries."""

    remarks: list[str]

    def document(
        self, query: str, *, limit: int | None, verify: bool, as_table: bool
    ) -> dict[str, Any]:
        """Return the whole answer. With `as_table` it has a schema, and its rows are lists."""

    def rows(self, query: str, form: Format, *, limit: int | None) -> Iterator[bytes]:
        """Yield the rows of the answer in format `form`, in pieces."""


TABLE_ROWS = 100
"""Rows that are shown without a limit; it is also what a node answers as JSON by default."""


def _asked(query: str, limit: int | None, *, verify: bool, as_table: bool) -> dict[str, Any]:
    more: dict[str, Any] = (
        {"dataFormat": "JsonAoA", "schemaFormat": "ArrowJson"} if as_table else {}
    )
    if limit is None and as_table:
        limit = TABLE_ROWS + 1  # so that the table says whether there are more
    if limit is not None:
        more["limit"] = limit
    return {"query": query, "include": ["Proof" if verify else "Input"], **more}


class NodeQuery:
    """A node that answers queries over HTTP."""

    def __init__(
        self, node: str, token: str | None, block: Multihash | None, key: str | None = None
    ) -> None:
        """`key` is the `did:key` that has to have signed; else the node has to publish it."""
        self._base, self._token, self._block = node_base(node), token, block
        self._key = key
        self.remarks: list[str] = []
        """What to say about the proof of the last answer."""

    def document(
        self, query: str, *, limit: int | None, verify: bool, as_table: bool
    ) -> dict[str, Any]:
        """Return the whole answer, and check its proof with `verify`.

        Raises `AnswerRefuted`, `OneDatasetWanted`, and the node's refusals.
        """
        with open_http() as http:
            api = NodeApi(self._base, self._token, http=http)
            asked = _asked(query, limit, verify=verify, as_table=as_table)
            raw = _sent(api, asked | self._pins(api, query))
            if verify:
                self._check(api, raw)
            answer: dict[str, Any] = json.loads(raw)
            return answer

    def _check(self, api: NodeApi, raw: bytes) -> None:
        answer = exactly_decoded(raw)
        keys = [{"id": self._key}] if self._key else _published(api)
        form = check(answer, keys)
        signer = answer["proof"]["verificationMethod"]
        if keys is None:
            self.remarks.append(
                f"the answer is signed by {signer}; this node does not publish its keys: compare "
                "with the one that you know, or name it by --key"
            )
        if form is TextForm.PLAIN:
            self.remarks.append("the hashes are those of text that is not escaped")

    def rows(self, query: str, form: Format, *, limit: int | None) -> Iterator[bytes]:
        """Yield the rows. Raises `OneDatasetWanted`, and the node's refusals."""
        with open_http() as http:
            api = NodeApi(self._base, self._token, http=http)
            body = {"query": query, "limit": limit} | self._pins(api, query)
            # JSON rows are requested as lines, because the node sends these while it computes them.
            wanted = Format.NDJSON if form is Format.JSON else form
            accept = MEDIA_TYPES[wanted].partition(";")[0]
            with api.opened("query", body=body, accept=accept) as (_, stream):
                pieces = iter(lambda: stream.read(PIECE_BYTES), b"")
                yield from lines_as_list(pieces) if form is Format.JSON else pieces

    def _pins(self, api: NodeApi, query: str) -> dict[str, Any]:
        """Return the part of a request that pins the one dataset of the query to the block, if any.

        Raises `OneDatasetWanted`.
        """
        if self._block is None:
            return {}
        raw = _sent(api, {"query": query, "include": ["Input"], "limit": 0})
        datasets = json.loads(raw)["input"]["datasets"]
        if len(datasets) != 1:
            raise BadInput(
                "OneDatasetWanted", f"--at is for a query of one dataset, not of {len(datasets)}"
            )
        return {"datasets": [datasets[0] | {"blockHash": str(self._block)}]}


def _sent(api: NodeApi, body: dict[str, Any]) -> bytes:
    with api.opened("query", body=body, accept="application/json") as (_, stream):
        raw = stream.read(MAX_DOCUMENT_BYTES + 1)
    if len(raw) > MAX_DOCUMENT_BYTES:
        raise BadInput(
            f"the answer is longer than {MAX_DOCUMENT_BYTES} bytes", limit=MAX_DOCUMENT_BYTES
        )
    return raw


def _published(api: NodeApi) -> Sequence[dict[str, Any]] | None:
    """Return the keys of the node; None if it publishes none, as nodes of another make."""
    try:
        found: list[dict[str, Any]] = api.ask("GET", "system/keys").get("keys", [])[:MAX_KEYS]
    except NotFound:
        return None
    return found


def lines_as_list(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """Join lines of JSON into one JSON list."""
    before, rest = b"[\n", b""
    for piece in pieces:
        *lines, rest = (rest + piece).split(b"\n")
        for line in lines:
            yield before + line
            before = b",\n"
    yield b"\n]\n" if before == b",\n" else b"[]\n"


def check(answer: dict[str, Any], keys: Sequence[dict[str, Any]] | None) -> TextForm | None:
    """Check that one of the keys signed the answer; any key may have if there are none.

    Return the form of text that its hashes need; None if they are the same in both. Decode the
    answer by `exactly_decoded`: numbers printed anew have other hashes.

    Raises:
        AnswerRefuted, MalformedProof.
    """
    try:
        commitment = convert(answer["commitment"], Commitment)
        proof = convert(answer["proof"], Proof)
    except (KeyError, TypeError, msgspec.ValidationError):
        raise MalformedProof("the node sent no proof with its answer") from None
    forms = frozenset(TextForm)
    for what, said in (
        ("input", commitment.input_hash),
        ("output", commitment.output_hash),
        ("subQueries", commitment.sub_queries_hash),
    ):
        try:
            forms &= forms_of(answer.get(what), said)
        except UnicodeEncodeError:  # half of a surrogate pair
            forms = frozenset()
        if not forms:
            raise Damaged(
                "AnswerRefuted", f"the answer has another {what} than its commitment says"
            )
    if not is_signed(commitment, proof):
        raise Damaged("AnswerRefuted", "the signature of the answer is not one of its key")
    if keys is not None and proof.verification_method not in {key.get("id") for key in keys}:
        raise Damaged(
            "AnswerRefuted",
            f"the key {proof.verification_method} is none of the node's, nor the one named",
        )
    return None if len(forms) > 1 else min(forms)


class FolderQuery:
    """Dataset folders that a confined process of this machine queries."""

    def __init__(self, folders: Sequence[Path], block: Multihash | None) -> None:
        from odf_storage.stores.objects.pending_files import FolderObjects

        self.remarks: list[str] = []
        self._folders = {
            path.resolve().name.lower(): FolderObjects(path.absolute()) for path in folders
        }
        self._block = block

    def document(
        self, query: str, *, limit: int | None, verify: bool, as_table: bool
    ) -> dict[str, Any]:
        """Return the whole answer. Raises a node's refusals; `HashMismatch`: a file is damaged."""
        return asyncio.run(self._document(_asked(query, limit, verify=verify, as_table=as_table)))

    async def _document(self, body: dict[str, Any]) -> dict[str, Any]:
        from ...service.auth.actors import ANONYMOUS
        from ...service.query.background import checked, parse_body
        from ...service.query.verify import document

        async with self._queries() as queries:
            asked = checked(parse_body(body), max_rows=queries.settings.query_max_rows)
            found = await document(queries, None, ANONYMOUS, "", asked)
            answer: dict[str, Any] = json.loads(bytes(found.body))
            return answer

    def rows(self, query: str, form: Format, *, limit: int | None) -> Iterator[bytes]:
        """Yield the rows. Raises the same errors as `document`."""
        wanted = Format.NDJSON if form is Format.JSON else form
        with asyncio.Runner() as runner:
            pieces = self._rows({"query": query, "limit": limit, "dataFormat": wanted.value})
            came = _pulled(runner, pieces)
            yield from lines_as_list(came) if form is Format.JSON else came

    async def _rows(self, body: dict[str, Any]) -> AsyncIterator[bytes]:
        from ...service.auth.actors import ANONYMOUS
        from ...service.query.background import checked, parse_body

        async with self._queries() as queries:
            asked = checked(parse_body(body), max_rows=queries.settings.query_max_rows)
            rows = await queries.begin(ANONYMOUS, "", asked)
            try:
                async for piece in rows:
                    yield piece
            finally:
                await rows.close()

    @asynccontextmanager
    async def _queries(self) -> AsyncIterator[Any]:
        """Yield a query service over these folders, with the limits of a node's settings."""
        from ...service.query.folders import FolderInputs
        from ...service.query.query import Queries
        from ...service.settings import load_settings

        folder = Path(tempfile.mkdtemp(prefix="odf-sql-"))
        inputs = FolderInputs(self._folders, self._block)
        queries = Queries(load_settings(data=folder), inputs, inputs, inputs)
        try:
            yield queries
        finally:
            await queries.ended()
            queries.nursery.stop()
            shutil.rmtree(folder, ignore_errors=True)


def _pulled(runner: asyncio.Runner, pieces: AsyncIterator[bytes]) -> Iterator[bytes]:
    async def following() -> bytes | None:
        return await anext(pieces, None)

    while (piece := runner.run(following())) is not None:
        yield piece
