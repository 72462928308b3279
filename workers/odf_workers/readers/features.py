"""GeoJson features as records: properties, the identifier of the feature, `geometry` as text.

Source: RFC 7946. A feature without a place has the geometry null, one without properties has null
for these. The identifier is beside the properties; earthquake feeds and others have their key only
there. `crs` is of GeoJson 2008: since then coordinates are in WGS 84.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from typing import Any

from odf_protocol.errors import BadInput

from ..slices.frame import BadRow
from .json_scan import JsonScanner, Value, array_of, compact_json, keys_of
from .known import Known
from .pages import Pages

GEOMETRY, IDENTIFIER = "geometry", "id"
OTHER_GEOMETRY, OTHER_IDENTIFIER = "_geometry", "feature_id"
"""Names of a property `geometry`, and of an identifier beside another property `id`."""
_WGS84 = re.compile(
    r"(?i)(EPSG:+(?:[\d.]*:)?(?:4326|4979)|OGC:[\d.]*:?CRS84h?|WGS[ _]?(?:19)?84)\W*$"
)

Tell = Callable[[str], None]


class Features:
    """Converts features to records. `tell` receives remarks, each of them many times."""

    def __init__(self, tell: Tell, known: Known | None) -> None:
        self._tell = tell
        # A dataset that has no such column was made before, or of features without.
        self._drops = known is not None and IDENTIFIER not in known.fields

    def record(self, line: int, value: Any) -> dict[str, Any]:
        """Return the record of a feature. Raises `BadRow`."""
        if type(value) is not dict:
            raise BadRow("a record must be a JSON object", line=line, value=json.dumps(value))
        properties = value.get("properties", ())
        if value.get("type") != "Feature" or GEOMETRY not in value:
            raise BadRow("not a Feature with properties and geometry", line=line)
        if properties is not None and not isinstance(properties, dict):
            raise BadRow("the properties of a Feature are an object or null", line=line)
        record = dict(properties or {})
        if GEOMETRY in record:
            record[OTHER_GEOMETRY] = record.pop(GEOMETRY)
            self._tell(
                f"features have a property `{GEOMETRY}` beside their geometry; here it is "
                f"`{OTHER_GEOMETRY}`"
            )
        if value.get(IDENTIFIER) is not None:
            self._identify(record, value[IDENTIFIER])
        geometry = value[GEOMETRY]
        record[GEOMETRY] = None if geometry is None else compact_json(geometry)
        return record

    def _identify(self, record: dict[str, Any], identifier: Any) -> None:
        if IDENTIFIER not in record:
            if self._drops:
                self._tell("features have an `id`, which is no column of the dataset: left out")
            else:
                record[IDENTIFIER] = identifier
        elif str(record[IDENTIFIER]) != str(identifier):
            if OTHER_IDENTIFIER not in record and not self._drops:
                record[OTHER_IDENTIFIER] = identifier
            self._tell(
                f"features have an `id` and another property `id`; the former is here "
                f"`{OTHER_IDENTIFIER}`"
            )


def features_of(scanner: JsonScanner, tell: Tell) -> Iterator[Value]:
    """Yield the features of a `FeatureCollection`. Raises `BadInput`."""
    if scanner.peek() != "{":
        raise BadInput("a GeoJson document must be a FeatureCollection")
    kind, found, count = None, False, 0
    pages = Pages(tell)
    for key in keys_of(scanner):
        if key == "features" and scanner.peek() == "[":
            found = True
            for value in array_of(scanner):
                count += 1
                yield value
            continue
        value = scanner.value()
        kind = value if key == "type" else kind
        if key == "crs":
            _check_crs(value, tell)
        pages.met(key, value)
    if kind != "FeatureCollection" or not found:
        raise BadInput("a GeoJson document must be a FeatureCollection with features")
    scanner.end()
    pages.ended(count)


def _check_crs(crs: Any, tell: Tell) -> None:
    properties = crs.get("properties") if isinstance(crs, dict) else None
    name = properties.get("name") if isinstance(properties, dict) else None
    if isinstance(name, str) and not is_wgs84(name):
        tell(not_wgs84(name))


def is_wgs84(name: str) -> bool:
    """Whether the name of a coordinate system is one of WGS 84 by longitude and latitude."""
    return _WGS84.search(name) is not None


def not_wgs84(name: str) -> str:
    """Return the warning about coordinates of another system, which are stored as they are."""
    return (
        f"the coordinates are not in WGS 84, but in {name[:100]!r}, as maps and GeoJson do not "
        "expect; they are stored as they are"
    )
