"""A dataset as a Croissant document, which is also a schema.org Dataset. Pure functions.

Source: MLCommons Croissant format 1.1.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from odf_protocol.metadata import schema as odf
from odf_protocol.metadata.schema import DataField, DataSchema, DataType

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


@dataclass(frozen=True, slots=True, kw_only=True)
class DatasetTold:
    """The facts of a dataset that catalogues publish."""

    id: str
    name: str
    account: str
    url: str
    """URL of the dataset, without a slash at the end."""
    base: str
    """URL of the node, with a slash at the end."""
    head: str
    version: str
    description: str
    keywords: tuple[str, ...]
    license: str | None
    published: str
    modified: str
    watermark: str | None
    size: int
    schema: DataSchema | None

    @property
    def rows_url(self) -> str:
        """The URL of the current rows as of the head, as one file."""
        asked = {"format": "parquet", "projection": "facts", "asAt": self.head}
        return f"{self.url}/read?{urlencode(asked)}"


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
        "variableMeasured": [field.name for field in fields],
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
    plain = _plain(field.type)
    is_list = isinstance(plain, odf.DataTypeList)
    item = plain.item_type if isinstance(plain, odf.DataTypeList) else plain
    name = _TYPES.get(type(item))
    if name is None:
        return None
    return {
        "@type": "cr:Field",
        "@id": f"records/{field.name}",
        "name": field.name,
        "dataType": name,
        "source": {"fileObject": {"@id": ROWS}, "extract": {"column": field.name}},
        **({"isArray": True, "arrayShape": "-1"} if is_list else {}),
    }


def _plain(data_type: DataType) -> DataType:
    return data_type.inner if isinstance(data_type, odf.DataTypeOption) else data_type
