"""The contract of a query job: a reader's SQL computed on Spark, whose rows are kept for a while.

The service has resolved the datasets that the text may name and the account may read, and pinned
each to a block. The worker reports which of them the query uses.
"""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Struct

from odf_protocol.typed import convert

from ...stores.ports.values import AccountId, JobSpec

KIND = "query"
DIALECT = "SqlSpark"


class QueriedDataset(Struct, frozen=True, kw_only=True, rename="camel"):
    """A dataset by its name in the query, as of a block."""

    alias: str
    id: str
    block_hash: str
    views: tuple[str, ...]
    """Values of `View` that the text names."""
    plain: str = "changelog"
    """The `View` that the alias alone means."""


class QueryPayload(Struct, frozen=True, kw_only=True, rename="camel"):
    """What to compute, and how to write it."""

    query: str
    datasets: tuple[QueriedDataset, ...]
    skip: int
    limit: int | None
    """None: all rows."""
    form: str
    """A value of `Form` in which the result is only rows."""
    owner: str
    """The account that submitted the query; its folder gets the rows."""


class QueryReceipt(Struct, frozen=True, kw_only=True, rename="camel"):
    """The result of the query. Its rows are at `/jobs/{job}/rows`."""

    job: str
    rows: int
    bytes: int
    schema: dict[str, Any]
    """A `DataSchema` as plain data."""
    input: dict[str, Any]
    """As in the response of `/query`: the request, and the datasets used, each with its block."""
    engine: str
    engine_version: str


def spec_of(payload: QueryPayload, account: AccountId) -> JobSpec:
    """Return the job to submit. Queries of one account run one by one."""
    return JobSpec(KIND, None, to_json(payload), lock=f"{KIND}:{account}", account=account)


def to_json(value: QueryPayload | QueryReceipt) -> dict[str, Any]:
    return dict(msgspec.to_builtins(value))


def payload_of(value: dict[str, Any]) -> QueryPayload:
    return convert(value, QueryPayload)


def receipt_of(value: dict[str, Any]) -> QueryReceipt:
    return convert(value, QueryReceipt)
