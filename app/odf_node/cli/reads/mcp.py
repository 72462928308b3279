"""`odf-node mcp`: the door for language models of a node, on standard input and output.

The program that starts it, such as a desktop assistant, speaks over pipes. Each message is passed
on to the node, with the token of its user.
"""

from __future__ import annotations

import asyncio
import itertools
from typing import TYPE_CHECKING, Any

import click

from odf_protocol.errors import RemoteFailed
from odf_storage.runtime.extras import app_version, need

from ...client.nodes.http import open_http
from ...client.nodes.remotes import node_base
from ..shell.tokens import token_of_node

if TYPE_CHECKING:
    import httpx

VERSION = "2025-11-25"
"""The version of the protocol that is spoken with the node."""


@click.command()
@click.argument("node", metavar="NODE")
@token_of_node
def mcp(node: str, token: str | None) -> None:
    """Serve the datasets of NODE to a program with a language model.

    It reads and writes messages of the Model Context Protocol, and reads datasets with the rights
    of the token only.
    """
    need("mcp", "this speaks by the SDK of the Model Context Protocol")
    asyncio.run(_serve(node_base(node), token))


class Forwarding:
    """Passes messages on to a node."""

    def __init__(self, base: str, token: str | None, http: httpx.Client) -> None:
        self._url, self._http = f"{base}mcp", http
        accepted = "application/json, text/event-stream"
        self._headers = {"accept": accepted, "mcp-protocol-version": VERSION}
        self._headers |= {"authorization": f"Bearer {token}"} if token else {}
        self._numbers = itertools.count(1)

    async def ask(self, method: str, params: dict[str, Any]) -> Any:
        """Return the result of a message. Raises `RemoteFailed`."""
        return await asyncio.to_thread(self._ask, method, params)

    def _ask(self, method: str, params: dict[str, Any]) -> Any:
        message = {"jsonrpc": "2.0", "id": next(self._numbers), "method": method, "params": params}
        answer = self._http.post(self._url, json=message, headers=self._headers)
        try:
            told = answer.json()
        except ValueError:
            told = {}
        if "result" in told:
            return told["result"]
        why = told.get("error", {}).get("message") or f"HTTP status {answer.status_code}"
        raise RemoteFailed("NodeRefused", f"{self._url}: {why}")


async def _serve(base: str, token: str | None) -> None:
    from mcp.server.lowlevel import Server
    from mcp.server.stdio import stdio_server
    from mcp_types import CallToolResult, ListToolsResult

    with open_http() as http:
        node = Forwarding(base, token, http)

        async def list_tools(*_: object) -> ListToolsResult:
            return ListToolsResult.model_validate(await node.ask("tools/list", {}))

        async def call_tool(_: object, params: Any) -> CallToolResult:
            asked = {"name": params.name, "arguments": params.arguments or {}}
            return CallToolResult.model_validate(await node.ask("tools/call", asked))

        server: Server[Any] = Server(
            "odf-node", version=app_version(), on_list_tools=list_tools, on_call_tool=call_tool
        )
        async with stdio_server() as (reading, writing):
            await server.run(reading, writing, server.create_initialization_options())
