"""The columns of links that a chain has ever declared.

The attribute that makes a column a link may change with the schema, while the rows of earlier
slices stay as they are. So the newest schema alone does not tell what the rows of a chain link to.
"""

from __future__ import annotations

from collections.abc import Iterable

from ..errors import BadInput
from ..linked import link_columns
from ..metadata.block import HashedBlock
from ..metadata.events import SetDataSchema
from .schema_evolution import odf_schema


def all_link_columns(blocks: Iterable[HashedBlock]) -> tuple[str, ...]:
    """Return the columns that any schema among the blocks declares as links, each once."""
    found: dict[str, None] = {}
    for block in blocks:
        if isinstance(block.event, SetDataSchema):
            found.update(dict.fromkeys(declared_links(block.event)))
    return tuple(found)


def declared_links(event: SetDataSchema) -> tuple[str, ...]:
    """Return the columns that the schema declares as links."""
    try:
        return link_columns(odf_schema(event))
    except BadInput:  # this form of schema has no links
        return ()
