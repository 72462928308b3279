"""Be a witness for the logs of others, and ask witnesses for this node's log (C2SP tlog-witness).

A witness signs the newest checkpoint of a log that continues the one it signed before, and so never
two views of it. A witness that is away stops nothing: its signature is missing, or old.
"""

from __future__ import annotations

import hashlib
import hmac
import logging
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field
from functools import cached_property

from odf_protocol.commitments import KeyPair, key_pair
from odf_protocol.errors import BadInput, Conflict, NodeError, NotFound, Refused, RemoteFailed
from odf_protocol.instant import NANOS
from odf_protocol.trust.checkpoints import AddCheckpoint, LogCheckpoint, Peer
from odf_protocol.trust.merkle import consistency_path, is_continued
from odf_protocol.trust.notes import (
    Note,
    NoteKey,
    SignatureLine,
    cosigned_line,
    decimal,
    signature_lines,
    signers,
)
from odf_storage.runtime.clock import Clock
from odf_storage.stores.registers.signed.head_log import HeadLog, LogState, WitnessedLogs

WITNESS = b"witness"
LOOK_S = 0.5
"""Seconds after which a follower looks again whether there is a new checkpoint to sign."""
REST_S = 5.0
"""Seconds for which a witness is left alone after it did not sign."""
ATTEMPTS = 3
ANSWER_BYTES = 64 * 1024
_log = logging.getLogger("odf.log")


@dataclass(frozen=True)
class Witness:
    """Signs the checkpoints of the logs that it knows."""

    store: WitnessedLogs
    logs: tuple[NoteKey, ...]
    name: str
    seed: bytes = field(repr=False)
    """Of the node's key; that of the witness is made of it."""
    clock: Clock

    @cached_property
    def key(self) -> KeyPair:
        return key_pair(hmac.digest(self.seed, WITNESS, "sha256"))

    @property
    def vkey(self) -> str:
        return str(NoteKey(self.name, self.key.public).cosigner)

    def newest(self, origin_hash: str) -> str:
        """Return the newest checkpoint of the log whose origin has this SHA-256.

        Raises:
            NoSuchLog: it is of no log, or of one that this witness has not signed.
        """
        for key in self.logs:
            if hashlib.sha256(key.name.encode()).hexdigest() == origin_hash:
                found = self.store.find(key.name)
                if found:
                    return found
        raise NotFound("NoSuchLog", "this witness has signed no log of that origin")

    def add(self, raw: bytes) -> str:
        """Take a checkpoint, and return the line that signs it.

        Raises:
            MalformedNote: the request cannot be read, or counts from beyond the checkpoint.
            NoSuchLog: this witness does not know the log. NotSigned: its key has not signed.
            SizeDiffers: `old` is not what this witness signed last. NotContinued: the proof fails.
        """
        asked = AddCheckpoint.parse(raw)
        note, checkpoint = asked.checkpoint, LogCheckpoint.parse(asked.checkpoint.text)
        signed = self._signed(note, checkpoint.origin)
        if asked.old > checkpoint.size:
            raise BadInput("MalformedNote", "the old size is beyond that of the checkpoint")
        line = cosigned_line(note.text, self.name, self.key, self.clock().ns // NANOS)

        def witness(size: int, root: bytes) -> tuple[int, bytes, str]:
            if asked.old != size:
                raise Conflict(
                    "SizeDiffers", f"this witness signed the log at {size} leaves", size=size
                )
            new = checkpoint.root
            if not is_continued(size, checkpoint.size, asked.path, old_root=root, root=new):
                raise BadInput(
                    "NotContinued", f"the log is not shown to continue the one of {size} leaves"
                )
            return checkpoint.size, new, str(Note(note.text, (signed, line)))

        self.store.advance(checkpoint.origin, witness)
        return str(line)

    def _signed(self, note: Note, origin: str) -> SignatureLine:
        """Return the line with which the log signed the note. Raises `NoSuchLog`, `NotSigned`."""
        known = [key for key in self.logs if key.name == origin]
        if not known:
            raise NotFound("NoSuchLog", "this witness does not know a log of that origin")
        try:
            found = signers(note, known)
        except BadInput:
            found = {}
        if not found:
            raise Refused("NotSigned", "the checkpoint is not signed by the key of its log")
        return next(iter(found.values()))


Send = Callable[[str, bytes], tuple[int, bytes]]
"""Posts a body to a URL; returns status and body of the answer."""


class Asking:
    """Asks one witness to sign this node's checkpoints; `look` is called by a follower."""

    def __init__(
        self, log: HeadLog, peer: Peer, *, heartbeat_s: float, clock: Clock, send: Send
    ) -> None:
        """`heartbeat_s` is after how many seconds it is asked about an unchanged log again."""
        self._log, self._peer, self._heartbeat_s = log, peer, heartbeat_s
        self._clock, self._send = clock, send
        self._size = 0
        """What the witness is thought to have signed last."""
        self._rests_until, self._was_away = 0.0, False

    def look(self) -> float:
        """Ask the witness if its signature is missing or old; return the seconds to the next
        look."""
        rest_s = self._rests_until - time.monotonic()
        if rest_s > 0:
            return rest_s
        state, name = self._log.state(), self._peer.key.name
        if state is None or not state.size or not self._is_due(state):
            return LOOK_S
        try:
            self._take(state, self._asked(state))
        except NodeError as error:
            if not self._was_away:
                _log.warning("the witness %s did not sign: %s", name, error.message)
            self._was_away = True
            self._rests_until = time.monotonic() + REST_S
            return REST_S
        if self._was_away:
            _log.info("the witness %s signs again", name)
        self._was_away = False
        return LOOK_S

    def _is_due(self, state: LogState) -> bool:
        key = self._peer.key
        line = signers(Note.parse(state.checkpoint.encode()), [key]).get(key)
        return line is None or abs(self._clock().ns / NANOS - line.stamp) >= self._heartbeat_s

    def _asked(self, state: LogState) -> SignatureLine:
        """Return the signature of the witness. It is asked again if it has signed another size than
        we thought.

        Raises:
            WitnessAhead: it has signed a larger log, as after this node's backup was restored.
            WitnessRefused: it does not sign. Unreachable, TransferFailed, TooMuch, MalformedNote.
        """
        note = Note.parse(state.checkpoint.encode())
        own = Note(note.text, note.lines[:1])
        self._size = min(self._size, state.size)
        for _ in range(ATTEMPTS):
            path = tuple(consistency_path(self._size, state.size, self._log.nodes(state.size)))
            url = f"{self._peer.url.rstrip('/')}/add-checkpoint"
            status, answer = self._send(url, bytes(AddCheckpoint(self._size, path, own)))
            text = answer.decode("utf-8", "replace")
            if status == 200:
                found = signers(Note(note.text, signature_lines(text)), [self._peer.key])
                if self._peer.key in found:
                    return found[self._peer.key]
                raise RemoteFailed("WitnessRefused", "it answered without its signature")
            if status != 409:
                raise RemoteFailed(
                    "WitnessRefused", f"it answered {status}: {text[:200]!r}", status=status
                )
            self._size = decimal(text.removesuffix("\n"), "the size")
            if self._size > state.size:
                raise Conflict(
                    "WitnessAhead",
                    f"it has signed a log of {self._size} leaves; this one has {state.size}",
                )
        raise RemoteFailed("WitnessRefused", "it answered 409 again and again")

    def _take(self, state: LogState, line: SignatureLine) -> None:
        """Keep the signature with the checkpoint, in place of an earlier one of this witness."""
        self._size, key = state.size, self._peer.key
        for _ in range(ATTEMPTS):
            note = Note.parse(state.checkpoint.encode())
            others = (each for each in note.lines if (each.name, each.key_id) != (key.name, key.id))
            more = str(Note(note.text, (*others, line)))
            if self._log.cosigned(state.checkpoint, more, by=key.name, at_s=line.stamp):
                return
            newer = self._log.state()  # another witness was quicker, or there is a new checkpoint
            if newer is None or (newer.size, newer.root) != (state.size, state.root):
                return
            state = newer


def sender(answer_s: float) -> Send:
    """Return what posts a body, within so many seconds. Raises `Unreachable`, `TransferFailed`."""
    from ...client.nodes.http import open_http, read_bounded, unreachable
    from ...client.nodes.later import httpx  # slow to load, and few nodes have witnesses
    from ...client.nodes.limits import ClientLimits

    limits = ClientLimits(connect_s=answer_s, answer_s=answer_s, idle_s=answer_s, whole_s=answer_s)

    def send(url: str, body: bytes) -> tuple[int, bytes]:
        with open_http(limits) as http:
            try:
                asked = http.build_request("POST", url, content=body)
                with closing(http.send(asked, stream=True, follow_redirects=False)) as answer:
                    return answer.status_code, read_bounded(answer, ANSWER_BYTES, "the witness")
            except (httpx.HTTPError, httpx.InvalidURL) as error:
                raise unreachable(url, error) from None

    return send
