"""The parts that features add to those of the core. Nothing of the core asks for them."""

from __future__ import annotations

from functools import cached_property
from itertools import chain
from typing import TypeVar

from odf_storage.runtime.features import loaded

from ..accounts.login import LoginWays
from ..features import features
from ..settings import load_settings_of
from .writing import NewsParts

T = TypeVar("T")


class FeatureParts(NewsParts):
    """The parts that the records of features name."""

    def part(self, kind: type[T]) -> T:
        """Return the part of this class that a feature made."""
        part = self._of_features.get(kind)
        if not isinstance(part, kind):
            raise TypeError(f"no feature has a part {kind.__name__}")
        return part

    @cached_property
    def login_ways(self) -> LoginWays:
        named = (loaded(feature.logins)(self) for feature in features() if feature.logins)
        return LoginWays(tuple(chain.from_iterable(named)))

    @cached_property
    def _of_features(self) -> dict[type, object]:
        made: dict[type, object] = {}
        vars(self)["_of_features"] = made  # a part may ask for those that are made
        for feature in features():
            if feature.settings:
                kind = loaded(feature.settings)
                made[kind] = load_settings_of(kind)
            if feature.parts:
                made |= {type(part): part for part in loaded(feature.parts)(self)}
        return made
