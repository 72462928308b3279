"""Check repeatedly during a stream whether the listener may still read the datasets.

While a stream is open, tokens may be revoked, roles removed, and datasets hidden or deleted. The
checks of all listeners are batched.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from odf_protocol.identity import DatasetId

from ..auth.actors import ANONYMOUS, Actor
from ..auth.callers import Callers
from ..auth.dataset_access import DatasetAccess

Question = tuple[str | None, frozenset[DatasetId]]
"""A bearer token, and datasets."""


@dataclass(frozen=True)
class Rights:
    """Looks up tokens and datasets in the index, without the caches."""

    callers: Callers
    access: DatasetAccess
    allow_anonymous: bool

    def readable(self, questions: Sequence[Question]) -> list[frozenset[DatasetId] | Exception]:
        """Return for each question the datasets that the bearer may read now."""
        bearers = sorted({bearer for bearer, _ in questions if bearer is not None})
        actors: dict[str | None, Actor | Exception] = {None: ANONYMOUS}
        if bearers:
            actors |= zip(bearers, self.callers.identify_all(bearers), strict=True)
        wanted = frozenset[DatasetId]().union(*(datasets for _, datasets in questions))
        with self.access.reading() as reader:
            entries = reader.registry.find_all(wanted)
        answers: dict[Question, frozenset[DatasetId] | Exception] = {}
        for bearer, datasets in set(questions):
            actor = actors[bearer]
            if isinstance(actor, Exception):
                answers[bearer, datasets] = actor
                continue
            known = [entries[each] for each in datasets if each in entries]
            answers[bearer, datasets] = frozenset(
                entry.id
                for entry in known
                if self._is_admitted(actor) and self.access.may_read(actor, entry)
            )
        return [answers[question] for question in questions]

    def _is_admitted(self, actor: Actor) -> bool:
        """Return whether the actor is admitted: a stream with a token that is no longer valid ends,
        even if anonymous callers may read."""
        if actor.is_anonymous:
            return self.allow_anonymous and actor.bearer is None
        return True
