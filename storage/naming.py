"""What a dataset of this node is called on command lines: by id, by alias, or by its name alone."""

from __future__ import annotations

from protocol.identity import DatasetAlias, DatasetRef, Name

SINGLE_OWNER = "kamu"
"""The predefined account that owns everything of a single-tenant node."""


def dataset_ref(text: str) -> DatasetRef:
    """Without an account it is the single tenant's. Raises `MalformedDid`, `MalformedName`."""
    ref = DatasetRef.parse(text)
    if ref.alias is None or ref.alias.account is not None:
        return ref
    return DatasetRef(alias=DatasetAlias(ref.alias.name, Name(SINGLE_OWNER)))
