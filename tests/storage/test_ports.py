"""Ports are narrow: nobody has to know more of a store than it uses."""

from __future__ import annotations

from typing import Any

import pytest

from odf_storage.stores import ports

MOST_MEMBERS = 8
OF_THE_WHOLE = {"LocatedObjects": {"local_paths"}, "ObjectStore": {"close", "partial"}}
"""What ports that are made of others add to them."""


def members(port: Any) -> set[str]:
    """What a port itself asks of its adapters, without the ports that it is made of."""
    named = {*vars(port), *vars(port).get("__annotations__", {})}
    return {name for name in named if not name.startswith("_")}


def is_made_of_others(port: Any) -> bool:
    return any(hasattr(ports, base.__name__) for base in port.__bases__)


@pytest.mark.parametrize("name", ports.__all__)
def test_a_port_has_few_members(name: str) -> None:
    port = getattr(ports, name)
    if is_made_of_others(port):
        assert members(port) == OF_THE_WHOLE.get(name, set())
    else:
        assert 0 < len(members(port)) <= MOST_MEMBERS
