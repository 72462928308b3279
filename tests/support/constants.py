"""Other values of the program's constants, such as limits too large for a test to reach."""

from __future__ import annotations

import functools
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from odf_node.service.features import OWN
from odf_node.service.settings import Settings
from odf_storage.runtime.features import loaded


@contextmanager
def constants(**values: Any) -> Iterator[None]:
    """Give constants these values until the block ends, in each module that has them."""
    if values and "odf_node.service.main" in sys.modules:
        _load_features()
    with pytest.MonkeyPatch.context() as patch:
        for name, value in values.items():
            having = [
                module
                for package, module in sys.modules.items()
                if package.startswith("odf_") and name in vars(module)
            ]
            assert having, f"no module has {name}"
            for module in having:
                patch.setattr(module, name, value)
        yield


@functools.cache
def _load_features() -> None:
    """Import now what a node imports when it opens: a name that such a module took from another one
    while that had another value would keep it for ever."""
    for feature in OWN:
        files, runners = (feature.dataset_files, feature.addresses), feature.runners
        for place in (feature.parts, feature.router, *feature.dataset_routes, *files, runners):
            if place:
                loaded(place)


def apart(given: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Tell the settings of a service from the constants; tests write both in small letters."""
    settings = {name: value for name, value in given.items() if name in Settings.model_fields}
    others = {name.upper(): value for name, value in given.items() if name not in settings}
    return settings, others
