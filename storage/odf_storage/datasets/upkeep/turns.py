"""Whose turn it is with a chore of a node, and how it ended last: a note beside the objects.

Services of a node share the note, so one of them does the chore. A service that dies loses its turn
after a while. The first turn is one interval after the note was made.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

import msgspec

from odf_protocol.errors import BadInput
from odf_protocol.instant import NANOS, Instant
from odf_protocol.typed import decode_json

from ...stores.keyed.folder import Below
from ...stores.ports import KeyedStore
from ...stores.ports.errors import SwapLost

FOLDER = "upkeep"
MOST_BYTES = 64 << 10
MOST_PROBLEM_CHARS = 1_000
HELD_S = 900.0
"""Seconds after which a turn that is not renewed is another's."""
RENEW_S = 60.0
ATTEMPTS = 5


class LastTurn(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """When a chore is due, and how it ended last."""

    due: str
    began: str | None = None
    ended: str | None = None
    found: dict[str, int] = {}
    problem: str | None = None
    """Why the last try failed; None if it did not."""
    holder: str | None = None
    held_until: str | None = None


@dataclass
class ChoreTurns:
    """The turns of one service at one chore."""

    kept: KeyedStore
    """What the node keeps beside its objects."""
    chore: str
    holder: str
    """Another text in each process."""
    clock: Callable[[], Instant]
    _renewed_ns: int = 0

    def last(self) -> LastTurn | None:
        return self._read()[0]

    def take(self, every_s: float) -> float:
        """Take the turn and return 0; or return the seconds after which to ask again."""
        known, tag = self._read()
        now = self.clock()
        if known is None:
            known = LastTurn(due=str(_in(now, every_s)))
            return every_s if self._swap(known, tag) else 1.0
        wait_s = (Instant.parse(known.due).ns - now.ns) / NANOS
        if wait_s > every_s:  # the interval was made shorter, or the clock set back
            wait_s = every_s
            self._swap(msgspec.structs.replace(known, due=str(_in(now, every_s))), tag)
        if wait_s > 0:
            return wait_s
        if known.holder not in (None, self.holder) and known.held_until is not None:
            left_s = (Instant.parse(known.held_until).ns - now.ns) / NANOS
            if 0 < left_s <= HELD_S:
                return left_s
        taken = msgspec.structs.replace(
            known, holder=self.holder, held_until=str(_in(now, HELD_S)), began=str(now)
        )
        self._renewed_ns = now.ns
        return 0.0 if self._swap(taken, tag) else 1.0

    def renew(self) -> bool:
        """Hold the turn for longer; return False if another service has it."""
        now = self.clock()
        if now.ns - self._renewed_ns < RENEW_S * NANOS:
            return True
        known, tag = self._read()
        if known is None or known.holder != self.holder:
            return False
        self._renewed_ns = now.ns
        return self._swap(msgspec.structs.replace(known, held_until=str(_in(now, HELD_S))), tag)

    def end(self, again_s: float, *, found: dict[str, int], problem: str | None = None) -> None:
        """Note how the turn ended, and that the next is due after so many seconds."""
        now = self.clock()
        for _ in range(ATTEMPTS):
            known, tag = self._read()
            if known is None or known.holder != self.holder:
                return
            ended = LastTurn(
                due=str(_in(now, again_s)),
                began=known.began,
                ended=str(now),
                found=found,
                problem=None if problem is None else problem[:MOST_PROBLEM_CHARS],
            )
            if self._swap(ended, tag):
                return

    def _swap(self, turn: LastTurn, tag: str | None) -> bool:
        with suppress(SwapLost):
            Below(self.kept, FOLDER).swap(
                f"{self.chore}.json", msgspec.json.encode(turn), expected=tag
            )
            return True
        return False

    def _read(self) -> tuple[LastTurn | None, str | None]:
        kept = Below(self.kept, FOLDER).read(f"{self.chore}.json", most=MOST_BYTES)
        if kept is None:
            return None, None
        with suppress(msgspec.DecodeError, UnicodeDecodeError, BadInput):
            turn = decode_json(kept.raw, LastTurn)
            for moment in (turn.due, turn.held_until or turn.due):
                Instant.parse(moment)
            return turn, kept.tag
        return None, kept.tag


def _in(now: Instant, seconds: float) -> Instant:
    return Instant(now.ns + int(seconds * NANOS))
