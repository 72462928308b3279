"""Documents for catalogues, about one dataset and about all datasets that everybody may read."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from odf_protocol.identity import DatasetRef
from odf_storage.datasets.node.stores import Stores
from odf_storage.datasets.versions.histories import Histories
from odf_storage.datasets.versions.versions import Versions
from odf_storage.stores.ports.values import DatasetEntry

from ..auth.actors import ANONYMOUS
from ..auth.dataset_access import DatasetAccess
from ..datasets.listing import list_datasets
from ..read.outlines import Outlines
from . import dcat, sitemap
from .croissant import DatasetTold, croissant

CATALOGUE, SITEMAP = "catalog.jsonld", "sitemap.xml"
DATASETS = 100
"""Number of datasets on one page of the catalogue."""


@dataclass(frozen=True)
class Catalogs:
    """Makes the documents from the stores of a node."""

    stores: Stores
    access: DatasetAccess
    outlines: Outlines

    def croissant(self, entry: DatasetEntry, base: str) -> dict[str, Any]:
        """Return the Croissant document of a dataset as of its head."""
        return croissant(self._told(entry, base))

    def catalogue(self, base: str, after: str | None) -> Any:
        """Return a page of the datasets that everybody may read, ordered by alias."""
        found, more = list_datasets(
            self.access, ANONYMOUS, account=None, after=after, limit=DATASETS
        )
        told = [self._told(entry, base) for entry in found]
        here, following = (_page(base, CATALOGUE, each) for each in (after, more))
        return dcat.catalogue(base, here, told, following if more else None)

    def sitemap(self, base: str, after: str | None) -> bytes:
        """Return the site map of the pages of these datasets; if one file is not enough, the index
        of the site maps."""
        first = next(self._pages(after))
        if after is None and first[1] is not None:
            starts = ["", *(more for _, more in self._pages(None) if more is not None)]
            return sitemap.index(_page(base, SITEMAP, start) for start in starts)
        entries, _ = first
        return sitemap.urlset(self._changed(entries, base))

    def _pages(self, after: str | None) -> Iterator[tuple[list[DatasetEntry], str | None]]:
        while True:
            page, more = list_datasets(
                self.access, ANONYMOUS, account=None, after=after, limit=sitemap.PAGES
            )
            yield page, more
            if more is None:
                return
            after = more

    def _changed(self, entries: list[DatasetEntry], base: str) -> Iterator[tuple[str, str]]:
        with self.stores.reading() as reader:
            heads = reader.refs.heads([entry.id for entry in entries])
            for entry in entries:
                head = heads.get(entry.id)
                block = None if head is None else reader.blocks.find(entry.id, head)
                if block is not None:
                    url = f"{base}{self.access.shown_alias(entry)}"
                    yield url, str(block.block.system_time)

    def _told(self, entry: DatasetEntry, base: str) -> DatasetTold:
        dataset = self.stores.dataset(DatasetRef(id=entry.id))
        state = dataset.state()
        outline, _ = self.outlines.of(dataset, state.head, indexed=False)
        history, _ = Histories(self.stores.projections, entry.id).read()
        rewritten = history.replaced + (not history.is_of(Versions(outline)))
        url, alias = f"{base}{self.access.shown_alias(entry)}", str(entry.alias)
        said = state.info.description if state.info else None
        return DatasetTold(
            id=str(entry.id),
            name=str(entry.alias.name),
            account=str(entry.alias.account),
            url=url,
            base=base,
            head=str(state.head),
            version=f"{1 + rewritten}.{len(outline.slices)}.0",
            description=said or f"{alias}: a dataset of Open Data Fabric with verifiable history",
            keywords=tuple(state.info.keywords or ()) if state.info else (),
            license=state.license.website_url if state.license else None,
            published=str(entry.created_at),
            modified=str(state.system_time),
            watermark=None if state.watermark is None else str(state.watermark),
            size=state.data_size,
            schema=state.data_schema,
        )


def _page(base: str, name: str, after: str | None) -> str:
    return f"{base}{name}" if after is None else f"{base}{name}?after={quote(after, safe='')}"
