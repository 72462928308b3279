"""Whether listeners may still read what they listen to: asked again while a stream lasts.

Tokens are revoked, roles taken, datasets hidden and forgotten while a stream is open. The
questions of all listeners are asked together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from odf_node.protocol.identity import DatasetId

from ..auth.actors import ANONYMOUS, Actor
from ..auth.callers import Callers
from ..auth.dataset_access import DatasetAccess

Question = tuple[str | None, frozenset[DatasetId]]
"""A bearer token, and datasets."""


@dataclass(frozen=True)
class Rights:
    """Looks tokens and datasets up in the index, whatever was remembered of them."""

    callers: Callers
    access: DatasetAccess
    allow_anonymous: bool

    def readable(self, questions: Sequence[Question]) -> list[frozenset[DatasetId] | Exception]:
        """Of each question the datasets that the bearer may read now."""
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
        """A token that is none any more ends what it began, also where anybody may read."""
        if actor.is_anonymous:
            return self.allow_anonymous and actor.bearer is None
        return True
