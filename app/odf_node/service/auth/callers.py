"""Identification of callers: look up the actors of tokens, with the roles of their accounts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial

from odf_protocol.errors import NodeError
from odf_storage.datasets.node.reader import Reader, Reading
from odf_storage.runtime.clock import Clock

from .actors import Actor, identify
from .roles import RoleMemory


@dataclass(frozen=True)
class Callers:
    """Identifies callers by their tokens."""

    reading: Reading
    roles: RoleMemory
    session_secrets: tuple[bytes, ...] = field(repr=False)
    """The first secret signs sessions; signatures of all are accepted."""
    clock: Clock

    def identify(self, bearer: str | None) -> Actor:
        """Return the actor of a token."""
        with self.reading() as reader:
            return self._identify(bearer, reader)

    def identify_all(self, bearers: Sequence[str]) -> list[Actor | Exception]:
        """Return the actor or the error for each token. Equal tokens are looked up once."""
        found: dict[str, Actor | Exception] = {}
        with self.reading() as reader:
            for bearer in set(bearers):
                try:
                    found[bearer] = self._identify(bearer, reader)
                except NodeError as error:
                    found[bearer] = error
        return [found[bearer] for bearer in bearers]

    def _identify(self, bearer: str | None, reader: Reader) -> Actor:
        return identify(
            bearer,
            reader.accounts,
            self.clock(),
            secrets=self.session_secrets,
            roles_of=partial(self.roles.of, roles=reader.roles),
        )
