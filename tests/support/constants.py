"""Other values of the program's constants, such as limits too large for a test to reach."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from odf_node.service.settings import Settings


@contextmanager
def constants(**values: Any) -> Iterator[None]:
    """Give constants these values until the block ends, in each module that has them."""
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


def apart(given: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Tell the settings of a service from the constants; tests write both in small letters."""
    settings = {name: value for name, value in given.items() if name in Settings.model_fields}
    others = {name.upper(): value for name, value in given.items() if name not in settings}
    return settings, others
