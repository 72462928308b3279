"""Selection of the push source of a dataset that accepts a batch."""

from __future__ import annotations

from odf_protocol.chain.state import ChainState
from odf_protocol.errors import BadInput
from odf_protocol.metadata.events import DatasetKind


class SourceOfChangelog(BadInput):
    """A changelog of the dataset's own columns, which names a source."""

    def __init__(self) -> None:
        super().__init__(
            "changelog=true is about the columns of the dataset, whatever its sources are: "
            "leave out sourceName",
            parameter="changelog",
        )


class ColumnsOfChangelog(BadInput):
    """A changelog of the dataset's own columns, which is to add columns."""

    def __init__(self) -> None:
        super().__init__(
            "changelog=true is about rows with the columns of the dataset, so it adds none: leave "
            "out addColumns",
            parameter="addColumns",
        )


class SourceNotUsable(BadInput):
    """The dataset has no push source for this request."""


def check_source(state: ChainState, name: str | None, *, changelog: bool = False) -> None:
    """Check that the name selects exactly one push source. The messages are those of the
    reference. A changelog needs no source, but a dataset that has rows.

    Raises:
        SourceNotUsable.
    """
    if state.kind is DatasetKind.Derivative:
        raise SourceNotUsable("Derivative datasets compute their data; only a root takes data")
    if changelog:
        if state.schema is None:
            raise SourceNotUsable("Dataset has no rows yet, so there is nothing to correct")
        return
    if state.polling_source is not None:
        raise SourceNotUsable("Dataset polls its data; disable the polling source to push")
    sources = state.push_sources
    if name is not None and name not in sources:
        raise SourceNotUsable(f"Source '{name[:200]}' not found", active=sorted(sources))
    if name is None and not sources:
        raise SourceNotUsable(
            "Dataset does not define a default push source, consider specifying the source name"
        )
    if name is None and len(sources) > 1:
        raise SourceNotUsable(
            "Explicit source name is required to pick between several active push sources",
            active=sorted(sources),
        )
