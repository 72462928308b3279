"""What datasets and accounts of this node may be called, and how command lines call them."""

from __future__ import annotations

from odf_node.protocol.errors import BadInput
from odf_node.protocol.identity import DatasetAlias, DatasetRef, Name

SINGLE_OWNER = "kamu"
"""The predefined account that owns everything of a single-tenant node."""


RESERVED = frozenset(
    {
        "accounts", "api", "assets", "catalog.jsonld", "datasets", "delta-sharing", "docs",
        "events", "favicon.ico", "federation", "graphql", "iceberg", "info", "jobs", "lookup",
        "metrics", "openapi", "openapi.json", "platform", "query", "robots.txt", "schemas",
        "sitemap.xml", "sql", "static", "system", "ui-config", "v", "verify", "webhooks",
    }
)  # fmt: skip
"""First words of addresses of the node itself, those to come among them, in lower case."""


class ReservedName(BadInput):
    """A name that addresses of the node begin with."""

    def __init__(self, name: str) -> None:
        super().__init__(f"{name} is reserved by the node; choose another name", name=name)


def refuse_reserved_account(name: str) -> None:
    """Raises `ReservedName`."""
    if name.lower() in RESERVED:
        raise ReservedName(name)


def refuse_reserved(alias: DatasetAlias) -> None:
    """Addresses of datasets begin with their account, those of the single tenant's with their own
    name. Raises `ReservedName`."""
    refuse_reserved_account(str(first_word(alias)))


def first_word(alias: DatasetAlias) -> Name:
    """What the addresses of a dataset begin with."""
    single = alias.account is None or alias.account == Name(SINGLE_OWNER)
    return alias.name if single or alias.account is None else alias.account


def dataset_ref(text: str) -> DatasetRef:
    """Without an account it is the single tenant's. Raises `MalformedDid`, `MalformedName`."""
    ref = DatasetRef.parse(text)
    if ref.alias is None or ref.alias.account is not None:
        return ref
    return DatasetRef(alias=DatasetAlias(ref.alias.name, Name(SINGLE_OWNER)))
