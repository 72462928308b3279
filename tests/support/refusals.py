"""Errors that a test expects, by their codes: `with refused("DependencyCycle"): …`."""

from __future__ import annotations

import pytest

from odf_protocol.errors import NodeError


def refused(*codes: str, match: str | None = None) -> pytest.RaisesExc[NodeError]:
    """Expect an error of the node that has one of these codes."""

    def is_expected(error: NodeError) -> bool:
        assert error.code in codes, f"{error.code} ({error}) is none of {', '.join(codes)}"
        return True

    return pytest.raises(NodeError, match=match, check=is_expected)
