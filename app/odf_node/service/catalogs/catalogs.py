"""Documents for catalogues, about one dataset and about all datasets that everybody may read.

A dataset as a Croissant document, which is also a schema.org Dataset. Pure functions.

Source: MLCommons Croissant format 1.1.

Site maps: lists of pages for search engines. Source: sitemaps.org, protocol 0.9.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote
from xml.etree import ElementTree as Xml

from odf_protocol.columns.column_names import texts_of
from odf_protocol.identity import DatasetRef
from odf_protocol.metadata import schema as odf
from odf_protocol.metadata.schema import DataField
from odf_storage.datasets.node.stores import Stores
from odf_storage.datasets.versions.versions import Histories, Versions
from odf_storage.stores.ports.values import DatasetEntry

from ..auth.actors import ANONYMOUS
from ..auth.dataset_access import DatasetAccess
from ..datasets.listing import list_datasets
from ..read.outlines import Outlines
from ..system.face import Face
from .told import DatasetTold

CONFORMS_TO = "http://mlcommons.org/croissant/1.1"
ROWS = "rows"
"""Id of the file with the current rows."""
_CROISSANT_TERMS = (
    "arrayShape citeAs column containedIn equivalentProperty extract field fileProperty fileObject "
    "fileSet format includes isArray isLiveDataset jsonPath key md5 parentField path recordSet "
    "references regex repeated replace samplingRate separator source subField transform"
)
CONTEXT: dict[str, Any] = {
    "@language": "en",
    "@vocab": "https://schema.org/",
    "conformsTo": "dct:conformsTo",
    "cr": "http://mlcommons.org/croissant/",
    "rai": "http://mlcommons.org/croissant/RAI/",
    "data": {"@id": "cr:data", "@type": "@json"},
    "dataType": {"@id": "cr:dataType", "@type": "@vocab"},
    "dct": "http://purl.org/dc/terms/",
    "description": {"@container": "@language"},
    "examples": {"@id": "cr:examples", "@type": "@json"},
    "name": {"@container": "@language"},
    "sc": "https://schema.org/",
    **{name: f"cr:{name}" for name in _CROISSANT_TERMS.split()},
}
_TYPES: dict[type, str] = {
    odf.DataTypeBool: "sc:Boolean",
    odf.DataTypeDate: "sc:Date",
    odf.DataTypeTimestamp: "sc:DateTime",
    odf.DataTypeDecimal: "sc:Float",
    odf.DataTypeString: "sc:Text",
    **{getattr(odf, f"DataTypeInt{bits}"): f"cr:Int{bits}" for bits in (8, 16, 32, 64)},
    **{getattr(odf, f"DataTypeUInt{bits}"): f"cr:UInt{bits}" for bits in (8, 16, 32, 64)},
    **{getattr(odf, f"DataTypeFloat{bits}"): f"cr:Float{bits}" for bits in (16, 32, 64)},
}
"""Croissant types of the column types that the Croissant reader supports: it does not turn decimals
into text, and fails on nulls in lists. Other columns are in the file, but not in the record set."""


def croissant(dataset: DatasetTold) -> dict[str, Any]:
    """Return the document of the dataset as of its head."""
    fields = () if dataset.schema is None else dataset.schema.fields
    told: dict[str, Any] = {
        "@context": CONTEXT,
        "@type": "sc:Dataset",
        "@id": dataset.url,
        "conformsTo": CONFORMS_TO,
        "name": dataset.name,
        "description": dataset.description,
        "url": dataset.url,
        "identifier": dataset.id,
        "version": dataset.version,
        "keywords": list(dataset.keywords),
        "creator": {"@type": "sc:Organization", "name": dataset.account, "url": dataset.base},
        "datePublished": dataset.published,
        "dateModified": dataset.modified,
        "citeAs": f"{dataset.account}: {dataset.name}, {dataset.id}, block {dataset.head}. "
        f"{dataset.url}",
        "isLiveDataset": True,
        "isAccessibleForFree": True,
        "includedInDataCatalog": {"@type": "sc:DataCatalog", "url": dataset.base},
        "variableMeasured": [_variable(field) for field in fields],
        "distribution": [_file(dataset)],
        "recordSet": _records(fields),
    }
    if dataset.license is not None:
        told["license"] = dataset.license
    if dataset.watermark is not None:
        told["temporalCoverage"] = f"../{dataset.watermark}"
    return {name: value for name, value in told.items() if value != []}


def _file(dataset: DatasetTold) -> dict[str, Any]:
    """Return the file of the current rows. It has no checksum, because it changes with the head;
    the chain has the checksums of slices."""
    return {
        "@type": "cr:FileObject",
        "@id": ROWS,
        "name": f"{dataset.name}.parquet",
        "description": f"Current rows as of block {dataset.head}",
        "contentUrl": dataset.rows_url,
        "contentSize": f"{dataset.size} B",
        "encodingFormat": ["application/vnd.apache.parquet", "application/x-parquet"],
    }


def _records(fields: tuple[DataField, ...]) -> list[dict[str, Any]]:
    told = [each for each in map(_field, fields) if each is not None]
    if not told:
        return []
    return [{"@type": "cr:RecordSet", "@id": "records", "name": "records", "field": told}]


def _field(field: DataField) -> dict[str, Any] | None:
    plain = odf.bare_type(field.type)
    is_list = isinstance(plain, odf.DataTypeList)
    item = plain.item_type if isinstance(plain, odf.DataTypeList) else plain
    name = _TYPES.get(type(item))
    if name is None:
        return None
    return {
        "@type": "cr:Field",
        "@id": f"records/{field.name}",
        "name": field.name,
        **({"description": said.line} if (said := texts_of(field)) else {}),
        "dataType": name,
        "source": {"fileObject": {"@id": ROWS}, "extract": {"column": field.name}},
        **({"isArray": True, "arrayShape": "-1"} if is_list else {}),
    }


def _variable(field: DataField) -> Any:
    """Return the column in the words of schema.org, which has its unit."""
    said = texts_of(field)
    if not said:
        return field.name
    told = {"description": said.description, "unitText": said.unit}
    return {
        "@type": "PropertyValue",
        "name": field.name,
        **{name: text for name, text in told.items() if text},
    }


NAMESPACE = "http://www.sitemaps.org/schemas/sitemap/0.9"
MEDIA_TYPE = "application/xml; charset=utf-8"
PAGES = 1_000
"""Limit of addresses in one file; the format allows 50,000."""


def urlset(pages: Iterable[tuple[str, str]]) -> bytes:
    """Return a site map of addresses, each with the time of its last change."""
    root = Xml.Element("urlset", xmlns=NAMESPACE)
    for url, changed in pages:
        page = Xml.SubElement(root, "url")
        Xml.SubElement(page, "loc").text = url
        Xml.SubElement(page, "lastmod").text = changed
    return _written(root)


def index(maps: Iterable[str]) -> bytes:
    """Return an index of site maps, given their addresses."""
    root = Xml.Element("sitemapindex", xmlns=NAMESPACE)
    for url in maps:
        Xml.SubElement(Xml.SubElement(root, "sitemap"), "loc").text = url
    return _written(root)


def _written(root: Xml.Element) -> bytes:
    written: bytes = Xml.tostring(root, encoding="utf-8", xml_declaration=True)
    return written


CATALOGUE, CATALOGUE_TURTLE, SITEMAP = "catalog.jsonld", "catalog.ttl", "sitemap.xml"
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
        return croissant(self.told(entry, base))

    def catalogue(self, face: Face, base: str, after: str | None, name: str = CATALOGUE) -> Any:
        """Return a page of the datasets that everybody may read, ordered by alias. `name` is that
        of the catalogue in one of its languages."""
        from .dcat import catalogue  # not needed to start

        found, more = list_datasets(
            self.access, ANONYMOUS, account=None, after=after, limit=DATASETS
        )
        told = [self.told(entry, base) for entry in found]
        here, following = (_page(base, name, each) for each in (after, more))
        return catalogue(face, base, here, told, following if more else None)

    def sitemap(self, base: str, after: str | None) -> bytes:
        """Return the site map of the pages of these datasets; if one file is not enough, the index
        of the site maps."""
        first = next(self._pages(after))
        if after is None and first[1] is not None:
            starts = ["", *(more for _, more in self._pages(None) if more is not None)]
            return index(_page(base, SITEMAP, start) for start in starts)
        entries, _ = first
        return urlset(self._changed(entries, base))

    def _pages(self, after: str | None) -> Iterator[tuple[list[DatasetEntry], str | None]]:
        while True:
            page, more = list_datasets(
                self.access, ANONYMOUS, account=None, after=after, limit=PAGES
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

    def told(self, entry: DatasetEntry, base: str) -> DatasetTold:
        """Return the facts of a dataset as of its head."""
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
            spdx_id=state.license.spdx_id if state.license else None,
            published=str(entry.created_at),
            modified=str(state.system_time),
            watermark=None if state.watermark is None else str(state.watermark),
            size=state.data_size,
            schema=state.data_schema,
        )


def _page(base: str, name: str, after: str | None) -> str:
    return f"{base}{name}" if after is None else f"{base}{name}?after={quote(after, safe='')}"
