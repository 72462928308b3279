"""`/mcp`: the Model Context Protocol over HTTP, without sessions, with JSON answers.

Source: Model Context Protocol, "Streamable HTTP".
"""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from ..auth.access import refuse_bad_token
from ..http.bodies import small_body
from ..http.deps import ActorDep, BaseDep, wired
from .door import McpDoor

router = APIRouter(tags=["mcp"])
DoorDep = Annotated[McpDoor, Depends(wired(McpDoor))]


class McpAnswer(Response):
    """The answer that the door gives."""

    def __init__(self, door: McpDoor, body: bytes, base: str) -> None:
        super().__init__()
        self._door, self._sent, self._base = door, body, base

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._door.serve(scope, self._sent, receive, send, self._base)


@router.get("/mcp", summary="Refused: there is no stream of messages", status_code=405)
@router.get("/mcp/", include_in_schema=False)
@router.delete("/mcp", summary="Refused: there are no sessions", status_code=405)
@router.delete("/mcp/", include_in_schema=False)
async def nothing_here() -> Response:
    """Answer what clients try and do without."""
    return Response(status_code=405, headers={"allow": "POST"})


@router.post("/mcp", summary="A message of the Model Context Protocol")
@router.post("/mcp/", include_in_schema=False)
async def message(request: Request, door: DoorDep, actor: ActorDep, base: BaseDep) -> Response:
    """Answer a message. There are no sessions, and no stream of messages by GET."""
    refuse_bad_token(actor)
    return McpAnswer(door, await small_body(request, door.body_bytes), base)
