"""The door itself: the official SDK speaks the protocol, without sessions, in JSON.

The SDK is an extra, and slow to load: it is imported with the first request.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import msgspec
from anyio import to_thread
from starlette.types import Message, Receive, Scope, Send

from odf_protocol.errors import NodeError, NodeFault
from odf_storage.runtime.extras import app_version, need

from ..errors import INTERNAL_MESSAGE
from ..limits.shares import caller_of
from ..system.face import Face
from .tools import TOOLS, McpTools, ToolCall

if TYPE_CHECKING:
    from mcp.server.lowlevel import Server
    from mcp_types import CallToolResult, ListToolsResult

MCP_BODY_BYTES = 2 << 20
"""Most bytes of a message of the Model Context Protocol."""

NAME = "odf-node"
ABOUT = (
    "Datasets of a node of Open Data Fabric, read only. Search datasets, describe one before you "
    "query it, and name tables in double quotes. Every answer names the blocks it comes from."
)
_log = logging.getLogger("odf.node")


@dataclass(frozen=True)
class McpDoor:
    """Answers requests. Use it in the thread of the event loop."""

    tools: McpTools
    face: Face
    body_bytes: int
    """Limit of the body of a request."""

    async def serve(
        self, scope: Scope, body: bytes, receive: Receive, send: Send, base: str
    ) -> None:
        """Answer one request, for the actor in its scope, whose body came already: a body that does
        not come is an error of the client, but a crash for the SDK. `base` is the address of this
        node."""
        server = await to_thread.run_sync(self._loaded)
        from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

        scope["state"][BASE] = base
        manager = StreamableHTTPSessionManager(
            server, json_response=True, stateless=True, max_request_body_size=self.body_bytes
        )
        async with manager.run():  # one for each request: nothing outlives it
            await manager.handle_request(scope, _again(body, receive), send)

    def _loaded(self) -> Server[Any]:
        """Return the server. Raises `ExtraMissing`."""
        need("mcp", "this door speaks by the SDK of the Model Context Protocol")
        logging.getLogger("mcp").setLevel(logging.WARNING)
        return self._server

    @cached_property
    def _server(self) -> Server[Any]:
        from mcp.server.lowlevel import Server

        return Server(
            NAME,
            title=self.face.name,
            version=app_version(),
            instructions=f"{self.face.about} {ABOUT}" if self.face.about else ABOUT,
            on_list_tools=self._list,
            on_call_tool=self._call,
        )

    async def _list(self, *_: object) -> ListToolsResult:
        from mcp_types import ListToolsResult, Tool, ToolAnnotations

        hints = ToolAnnotations(read_only_hint=True, open_world_hint=False)
        return ListToolsResult(
            tools=[
                Tool(name=name, description=each.about, input_schema=each.schema, annotations=hints)
                for name, each in TOOLS.items()
            ]
        )

    async def _call(self, context: Any, params: Any) -> CallToolResult:
        """Call a tool. What it refuses is a result: a refused request would end the session of
        older clients."""
        scope = context.request.scope
        call = ToolCall(scope["state"]["actor"], caller_of(scope), scope["state"][BASE])
        try:
            answer = await self.tools.call(params.name, params.arguments or {}, call)
        except NodeError as error:
            if isinstance(error, NodeFault):
                _log.error("a tool failed: %s: %s", error.code, error.message)
            return _result({"error": error.code, "message": error.message}, is_error=True)
        except Exception:
            _log.exception("a tool crashed: %s", params.name[:50])
            return _result({"error": "Internal", "message": INTERNAL_MESSAGE}, is_error=True)
        return _result(answer)


def _again(body: bytes, receive: Receive) -> Receive:
    """Return a `receive` of a request whose body was read."""
    rest: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def next_one() -> Message:
        return rest.pop() if rest else await receive()

    return next_one


BASE = "mcp_base"
"""The key in the state of a request of the address of this node."""


def _result(answer: dict[str, Any], *, is_error: bool = False) -> CallToolResult:
    """Return the answer as text and as a structure: each client shows its model one of them."""
    from mcp_types import CallToolResult, TextContent

    text = TextContent(type="text", text=msgspec.json.encode(answer).decode())
    return CallToolResult(content=[text], structured_content=answer, is_error=is_error)
