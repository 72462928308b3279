"""Allowed names of datasets and accounts of this node, and how command lines refer to datasets."""

from __future__ import annotations

from odf_protocol.errors import BadInput
from odf_protocol.identity import DatasetAlias, DatasetRef, Name

SINGLE_OWNER = "kamu"
"""The predefined account that owns everything on a single-tenant node."""


RESERVED = frozenset(
    {
        "accounts", "api", "assets", "catalog.jsonld", "catalog.ttl", "datasets", "delta-sharing",
        "docs", "ducklake", "events", "favicon.ico", "federation", "graphql", "iceberg", "info",
        "jobs", "log", "lookup", "mcp", "metrics", "oai", "odata", "openapi", "openapi.json",
        "platform", "query", "robots.txt", "schemas", "sitemap.xml", "sql", "static", "system",
        "ui-config", "v", "verify", "webhooks",
    }
)  # fmt: skip
"""First words of the node's own URL paths, present and planned, in lower case."""


def refuse_reserved_account(name: str) -> None:
    """Raise `ReservedName` if the account may not have this name."""
    if name.lower() in RESERVED:
        raise BadInput(
            "ReservedName", f"{name} is reserved by the node; choose another name", name=name
        )


def refuse_reserved(alias: DatasetAlias) -> None:
    """Raise `ReservedName` if the dataset may not have this alias. URL paths of datasets begin with
    their account; those of the single tenant begin with the dataset's name."""
    refuse_reserved_account(str(first_word(alias)))


def first_word(alias: DatasetAlias) -> Name:
    """Return the first word of the URL paths of a dataset."""
    single = alias.account is None or alias.account == Name(SINGLE_OWNER)
    return alias.name if single or alias.account is None else alias.account


def dataset_ref(text: str) -> DatasetRef:
    """Parse a reference. Without an account it refers to the single tenant. Raises `MalformedDid`,
    `MalformedName`."""
    ref = DatasetRef.parse(text)
    if ref.alias is None or ref.alias.account is not None:
        return ref
    return DatasetRef(alias=DatasetAlias(ref.alias.name, Name(SINGLE_OWNER)))
