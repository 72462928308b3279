"""A dataset as a Collection of a SpatioTemporal Asset Catalog. Pure functions.

A dataset of rows is a Collection without Items; its assets are the current rows, and all rows as
they were added. The node does not look where the rows are: they may be anywhere on earth.

Source: STAC 1.1.0, "Collection"; table extension 1.2.0.
"""

from __future__ import annotations

from typing import Any

from odf_protocol.columns.column_names import texts_of
from odf_protocol.metadata import schema as odf
from odf_protocol.metadata.schema import DataField, DataType

from .told import DatasetTold

VERSION = "1.1.0"
TABLE = "https://stac-extensions.github.io/table/v1.2.0/schema.json"
EARTH = [-180, -90, 180, 90]
OTHER = "other"
_ASSETS = {
    "facts": "Current rows",
    "changelog": "All rows as they were added",
}


def collection(dataset: DatasetTold) -> dict[str, Any]:
    """Return the Collection of the dataset as of its head."""
    links = [{"rel": "self", "href": f"{dataset.url}/stac.json", "type": "application/json"}]
    links.append({"rel": "about", "href": dataset.url, "type": "text/html"})
    if dataset.license_url is not None:
        links.append({"rel": "license", "href": dataset.license_url})
    fields = () if dataset.schema is None else dataset.schema.fields
    told = {
        "type": "Collection",
        "stac_version": VERSION,
        "stac_extensions": [TABLE],
        "id": dataset.id,
        "title": dataset.name,
        "description": dataset.description,
        "keywords": list(dataset.keywords),
        "license": dataset.license_id or OTHER,
        "providers": [{"name": dataset.account, "roles": ["producer", "host"]}],
        "created": dataset.published,
        "updated": dataset.modified,
        "version": dataset.version,
        "extent": {
            "spatial": {"bbox": [EARTH]},
            "temporal": {"interval": [[None, dataset.watermark]]},
        },
        "table:columns": [_column(field) for field in fields],
        "assets": {name: _asset(dataset, name) for name in _ASSETS},
        "links": links,
    }
    return {name: value for name, value in told.items() if value != []}


def _column(field: DataField) -> dict[str, str]:
    said = {"description": text} if (text := texts_of(field).line) else {}
    return {"name": field.name, "type": _type(field.type), **said}


def _asset(dataset: DatasetTold, projection: str) -> dict[str, Any]:
    return {
        "href": dataset.rows_as("parquet", projection),
        "title": f"{_ASSETS[projection]} as of block {dataset.head}",
        "type": "application/vnd.apache.parquet",
        "roles": ["data"],
    }


def _type(data_type: DataType) -> str:
    return type(odf.bare_type(data_type)).__name__.removeprefix("DataType").lower()
