"""The engine port: runs queries over files it is given; sees no chain, store or network.

Promises, each a test in `tests/conformance/engine.py`: equal requests give equal rows in
equal order; a query that is wrong is a value, not an exception; repeating is harmless.
"""

from __future__ import annotations

from typing import Protocol

from protocol.errors import BadInput
from protocol.metadata.engine import RawQueryRequest, RawQueryResponse
from protocol.metadata.transforms import Transform


class UnsupportedEngine(BadInput):
    """A query asks for an engine this node does not run."""


class Engine(Protocol):
    """One query engine."""

    name: str
    version: str

    def execute_raw_query(self, request: RawQueryRequest) -> RawQueryResponse:
        """Query the input files as the view `input`; write the rows to the output path.

        The output is one Parquet file, also when it has no rows.
        """
        ...


def check_engine(transform: Transform, engine: Engine) -> None:
    """Raises `UnsupportedEngine` unless the query is for this engine (names without case)."""
    wanted = transform.engine.lower()
    if wanted != engine.name:
        raise UnsupportedEngine(
            f"preprocessing asks for the engine {transform.engine!r}; this node runs "
            f"{engine.name!r} only: rewrite the query for it",
            engine=transform.engine,
            available=[engine.name],
        )
