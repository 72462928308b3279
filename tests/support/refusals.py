"""Errors that a test expects, by their codes: `with refusing("DependencyCycle"): …`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from odf_protocol.errors import NodeError


def refusing(*codes: str, match: str | None = None) -> pytest.RaisesExc[NodeError]:
    """Expect an error of the node that has one of these codes, or is of a family of that name."""

    def is_expected(error: NodeError) -> bool:
        names = {error.code, *(kind.__name__ for kind in type(error).__mro__)}
        assert names & set(codes), f"{error.code} ({error}) is none of {', '.join(codes)}"
        return True

    return pytest.raises(NodeError, match=match, check=is_expected)


@contextmanager
def perhaps_refusing(*codes: str) -> Iterator[None]:
    """Take an error of the node that has one of these codes as an answer."""
    try:
        yield
    except NodeError as error:
        if error.code not in codes:
            raise
