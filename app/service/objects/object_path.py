"""Addresses served without a framework: refs, blocks, data, checkpoints of a dataset."""

from __future__ import annotations

from typing import NamedTuple

from odf_node.storage.stores.ports.values import ObjectKind

from ..settings import Tenancy

REFS = "refs"
KINDS: dict[str, ObjectKind] = {
    "blocks": ObjectKind.BLOCK,
    "data": ObjectKind.DATA,
    "checkpoints": ObjectKind.CHECKPOINT,
}
FOLDERS = {kind: folder for folder, kind in KINDS.items()}


class ObjectPath(NamedTuple):
    """`[/account]/dataset/folder/name`, in pieces; nothing is checked yet."""

    account: str | None
    dataset: str
    folder: str
    name: str

    @classmethod
    def of(cls, path: str, tenancy: Tenancy) -> ObjectPath | None:
        """The pieces, or None when the path is of another form."""
        parts = path.split("/")
        if len(parts) != (4 if tenancy is Tenancy.SINGLE else 5) or parts[0]:
            return None
        folder, name = parts[-2:]
        if (folder != REFS and folder not in KINDS) or not name or not parts[-3]:
            return None
        return cls(None if tenancy is Tenancy.SINGLE else parts[1], parts[-3], folder, name)


def route_of_objects(folder: str) -> str:
    """What all addresses of a folder have in common, for those who count them."""
    return f"/{{dataset}}/{folder}/{{name}}"
