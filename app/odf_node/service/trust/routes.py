"""Routes of the log of heads: checkpoint, tiles, entries, proofs of heads, and the witness."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Annotated

from anyio import to_thread
from fastapi import APIRouter, Depends, Request
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import QueryParams
from starlette.responses import PlainTextResponse, Response
from starlette.types import Receive, Scope, Send

from odf_protocol.errors import Conflict
from odf_protocol.trust.tiles import WIDTH, Tile

from ..auth.access import Action
from ..auth.actors import Actor
from ..auth.dataset_access import DatasetAccess
from ..http.addresses import DATASET, DatasetPath, Route, path_of
from ..http.answers import JsonAnswer
from ..http.bodies import small_body
from ..http.deps import SettingsDep, wired
from ..http.parameters import refuse_unknown
from ..objects.objects import AtHand
from ..transfer.routes import in_front
from .log import LogKeeper
from .witness import Witness

LOG_REST_S = 0.9
"""Rest between two checkpoints while heads move: one signature and one sync for many moves."""
NEVER_CACHED = {"cache-control": "no-store"}
FOR_EVER = "max-age=31536000, immutable"
WITNESS_PATH = "log/witness"
"""Where witnesses are asked, below the address of a node."""
WITNESS_BODY_BYTES = 64 * 1024
SIZE = {"content-type": "text/x.tlog.size"}
LogDep = Annotated[LogKeeper, Depends(wired(LogKeeper))]
WitnessDep = Annotated[Witness, Depends(wired(Witness))]
router = APIRouter(prefix="/log", tags=["trust"])
_log = logging.getLogger("odf.log")


@router.get("/checkpoint", summary="The newest checkpoint of the log of heads")
def checkpoint(log: LogDep) -> Response:
    """Return a signed note: origin, number of leaves, root (C2SP tlog-checkpoint)."""
    return PlainTextResponse(log.checkpoint(), headers=NEVER_CACHED)


@router.get("/tile/{path:path}", summary="Hashes or entries of the log of heads")
def tile(path: str, log: LogDep, settings: SettingsDep) -> Response:
    """Return up to 256 hashes of a level, or entries (C2SP tlog-tiles). They never change. Shared
    caches keep those of a node that everybody may ask."""
    asked = Tile.parse(path)
    kept = f"{'public' if settings.allow_anonymous else 'private'}, {FOR_EVER}"
    headers = {"cache-control": kept} if asked.width == WIDTH else {}
    return Response(log.file(asked), media_type="application/octet-stream", headers=headers)


@router.get("/witness", summary="The key of this node as a witness")
def witness_key(witness: WitnessDep) -> Response:
    """Return the key with which the node signs logs of others, and the names of these logs."""
    return JsonAnswer({"key": witness.vkey, "logs": [key.name for key in witness.logs]})


@router.post("/witness/add-checkpoint", summary="Have this witness sign a checkpoint")
async def add_checkpoint(request: Request, witness: WitnessDep) -> Response:
    """Sign a checkpoint that continues the one that was signed before (C2SP tlog-witness). The
    signature of the log is all that lets a caller in."""
    body = await small_body(request, WITNESS_BODY_BYTES)
    try:
        return PlainTextResponse(await run_in_threadpool(witness.add, body))
    except Conflict as differs:
        if differs.code != "SizeDiffers":
            raise
        return Response(f"{differs.facts['size']}\n", 409, SIZE)


@router.get("/witness/{origin_hash}/checkpoint", summary="What this witness signed last")
def witnessed(origin_hash: str, witness: WitnessDep) -> Response:
    """Return the newest checkpoint of the log whose origin has this SHA-256, with signatures."""
    return PlainTextResponse(witness.newest(origin_hash), headers=NEVER_CACHED)


class HeadProofs:
    """Serves proofs of heads, in front of the framework: who polls heads asks for them as often."""

    def __init__(self, log: LogKeeper, access: DatasetAccess, at_hand: AtHand) -> None:
        self._log, self._access, self._at_hand = log, access, at_hand

    def routes(self) -> Iterator[Route]:
        """Yield the route for the table of addresses."""
        yield Route(f"{DATASET}/head-proof", self.read, ("GET",))

    async def read(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the leaf of the head, its path to a signed checkpoint, and the newest map."""
        actor, path = scope["state"]["actor"], path_of(scope)
        refuse_unknown(QueryParams(scope["query_string"]))
        text = None
        if (place := self._at_hand.place(actor, path.account, path.dataset)) is not None:
            text = self._log.known_proof(place.entry.id, self._at_hand.newest(place))
        if text is None:
            text = await to_thread.run_sync(self._text, actor, path)
        answer = Response(text, media_type="application/json", headers=NEVER_CACHED)
        await answer(scope, receive, send)

    def _text(self, actor: Actor, path: DatasetPath) -> bytes:
        entry = self._access.resolve(actor, path.account, path.dataset, Action.READ)
        return self._log.proof_text(entry)


def add_trust_routes(routes: APIRouter, prefix: str) -> None:
    """Declare the route of proofs for the framework; `HeadProofs` serves it."""
    routes.get(prefix + "/head-proof", summary="Proof that the log has the head", tags=["trust"])(
        in_front
    )


class LogRunner:
    """Signs what is new, whenever a head moved; `look` is called by a follower."""

    def __init__(self, log: LogKeeper, poll_s: float) -> None:
        self._log, self._poll_s = log, poll_s
        self._has_begun, self._went_back = False, False

    def look(self) -> float:
        """Sign what is new; return the seconds to the next look."""
        try:
            if not self._has_begun:
                self._log.begin()
                self._has_begun = True
            self._log.bring_up()
            self._went_back = False
        except Conflict as refused:
            if not self._went_back:
                _log.error("%s: %s", refused.code, refused.message)
            self._went_back = True
        return self._poll_s
