"""GeoJson features as records: properties, the identifier of the feature, `geometry` as text.

Source: RFC 7946. A feature without a place has the geometry null, one without properties has null
for these. The identifier is beside the properties; earthquake feeds and others have their key only
there. `crs` is of GeoJson 2008: since then coordinates are in WGS 84.

Hints in a JSON document that it is one page of several: a link to the next, a larger total.

A source that polls the first page of an API would take it for the whole, and a snapshot would
retract the rest. Only objects around the records are looked at, not the records.

Types of an existing dataset's columns, which apply to a source without a schema.

A type applies only if no value of the batch can lose by it: a whole number may become a fraction,
and text may be parsed, but a fraction is not cut to a whole number, and a number does not become a
time. A column that does not fit keeps its inferred type, and is refused later, by the comparison
with the dataset's schema.

Web pages that come instead of data: a login, a notice, an error that a server answers with 200.

A page is text, so that a reader of CSV would take its lines for rows.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyarrow import types

from odf_protocol.errors import BadInput
from odf_protocol.metadata.sources import ReadStep, ReadStepCsv
from odf_protocol.sources.csv_header import marked_encoding
from odf_protocol.sources.file_marks import kind_of

from ...slices.schema import BadRow
from .json_scan import JsonScanner, Value, array_of, compact_json, keys_of
from .text import has_text_form

MAX_DEPTH = 3
_NEXT = frozenset(
    {
        *("@odata.nextlink", "odata.nextlink", "@iot.nextlink", "nextlink", "next_link", "next"),
        *("nextpage", "next_page", "next_page_url", "nextpageurl", "next_url", "nexturl"),
        *("nextpagetoken", "next_page_token", "nextcursor", "next_cursor", "resumptiontoken"),
        *("nexttoken", "next_token", "nextrecordsurl", "next_href", "nexthref", "nextpagelink"),
        *("next_page_link", "nextpageuri", "@nextlink", "continuation", "continuationtoken"),
        *("continuation_token", "__next", "lastevaluatedkey", "_scroll_id", "scroll_id"),
    }
)
"""Keys, in lower case, whose value leads to more records; an empty one does not."""
_MORE = frozenset(
    {
        *("exceededtransferlimit", "hasmore", "has_more", "hasnext", "has_next", "has_next_page"),
        *("hasnextpage", "hasmoreitems", "more", "morerecords", "more_records", "truncated"),
        *("istruncated", "is_truncated", "incomplete_results"),
    }
)
"""Keys that are true if there are more records."""
_LAST = frozenset({"last", "islast", "is_last", "islastpage", "is_last_page", "done"})
"""Keys that are false if there are more records."""
_PAGES = frozenset(
    {
        *("pages", "totalpages", "total_pages", "pagecount", "page_count", "numpages"),
        *("lastpage", "last_page"),
    }
)
"""Keys whose value may be the number of pages."""
_TOTALS = frozenset(
    {
        *("total", "totalcount", "total_count", "totalresults", "total_results", "totalfeatures"),
        *("totalelements", "total_elements", "totalrecords", "total_records", "total_rows"),
        *("numbermatched", "numfound", "count", "@odata.count", "odata.count", "recordstotal"),
        *("totalitems", "total_items", "nhits", "@iot.count", "hits"),
    }
)
"""Keys whose value may be the number of all records."""
_AROUND = frozenset(
    {
        *("links", "_links", "meta", "metadata", "paging", "pagination", "page", "page_info"),
        *("pageinfo", "properties", "cursor", "cursors", "response", "info", "response_metadata"),
    }
)
"""Keys of objects in which such hints are."""


class FeaturePages:
    """Hints met so far. `tell` receives the warnings."""

    def __init__(self, tell: Callable[[str], None]) -> None:
        self._tell = tell
        self._totals: dict[str, int] = {}

    def met(self, key: str, value: Any, path: str = "", depth: int = 0) -> None:
        """Look at a value beside the records."""
        plain, name = key.lower(), f"{path}{key}"
        if plain in _NEXT and _leads_on(value):
            self._tell(_said(f"`{name}` leads to more records"))
        elif (plain in _MORE and value is True) or (plain in _LAST and value is False):
            self._tell(_said(f"`{name}` is {str(value).lower()}"))
        elif plain in _PAGES and type(value) is int and value > 1:
            self._tell(_said(f"`{name}` is {value}"))
        elif plain == "offset" and isinstance(value, str) and not value.isdecimal() and value:
            self._tell(_said(f"`{name}` leads to more records"))
        elif plain == "remark" and isinstance(value, str) and "error" in value:
            self._tell(_said(f"`{name}` says {value[:100]!r}"))
        elif plain in _TOTALS and isinstance(value, dict) and type(value.get("value")) is int:
            self._totals[f"{name}.value"] = value["value"]
        elif plain in _TOTALS and type(value) is int:
            self._totals[name] = value
        elif plain in ("links", "link") and isinstance(value, list):
            if any(isinstance(one, dict) and one.get("rel") == "next" for one in value):
                self._tell(_said(f"`{name}` has one of the relation `next`"))
        elif isinstance(value, dict) and depth < MAX_DEPTH and plain in _AROUND:
            for inner, one in value.items():
                self.met(inner, one, f"{name}.", depth + 1)

    def ended(self, records: int) -> None:
        """Compare totals with the number of records of the document."""
        for name, total in self._totals.items():
            if total > records:
                self._tell(_said(f"`{name}` is {total}, and the document has {records} records"))


def _said(hint: str) -> str:
    return f"the document may be one page of several, and only this one is read: {hint}"


def _leads_on(value: Any) -> bool:
    return (isinstance(value, str | dict) or type(value) is int) and value not in ("", 0, {})


@dataclass(frozen=True, slots=True)
class Known:
    """Columns of the dataset, by their names in the source's files. The event time is not converted
    by these types."""

    fields: Mapping[str, pa.Field]
    event_time: str

    def type_of(self, name: str, found: pa.DataType) -> pa.DataType:
        """Return the type in which to read a column with the inferred type `found`."""
        field = self.fields.get(name)
        if field is None or not fits(found, field.type):
            return found
        wanted = loosened(field.type)
        return found if loosened(found) == wanted else wanted

    def type_of_text(self, name: str, found: pa.DataType) -> pa.DataType:
        """Return the type in which to read a column of texts: the dataset's, except that a time
        does not become a date."""
        field = self.fields.get(name)
        if field is None or not has_text_form(field.type):
            return found
        cut = types.is_timestamp(found) and types.is_date(field.type)
        return found if cut else field.type

    def absent(self, names: Collection[str]) -> list[pa.Field]:
        """Return the dataset's optional columns that are not among the names; none if a name is
        unknown to the dataset, because the batch then has different columns."""
        if any(name not in self.fields and name != self.event_time for name in names):
            return []
        return [
            field.with_name(name).with_type(loosened(field.type))
            for name, field in self.fields.items()
            if name not in names and field.nullable
        ]


def loosened(kind: pa.DataType) -> pa.DataType:
    """Return the type with all parts optional: nulls are counted when rows are written."""
    if types.is_struct(kind):
        members = [kind.field(at) for at in range(kind.num_fields)]
        return pa.struct([pa.field(each.name, loosened(each.type)) for each in members])
    if types.is_list(kind):
        return pa.list_(pa.field(kind.value_field.name, loosened(kind.value_type)))
    return kind


def fits(found: pa.DataType, wanted: pa.DataType) -> bool:
    """Whether values of one type can be read as another without loss."""
    if types.is_null(found) or found == wanted:
        return True
    if types.is_struct(found) and types.is_struct(wanted):
        return _members_fit(found, wanted)
    if _is_list(found) and _is_list(wanted):
        return fits(found.value_type, wanted.value_type)
    return any(one(found) and other(wanted) for one, other in _FITTING)


def _members_fit(found: pa.DataType, wanted: pa.DataType) -> bool:
    theirs = {wanted.field(at).name: wanted.field(at) for at in range(wanted.num_fields)}
    members = [found.field(at) for at in range(found.num_fields)]
    return all(
        member.name in theirs and fits(member.type, theirs[member.name].type) for member in members
    )


def _is_list(kind: pa.DataType) -> bool:
    return bool(types.is_list(kind) or types.is_large_list(kind))


def _is_text(kind: pa.DataType) -> bool:
    return bool(types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind))


def _is_number(kind: pa.DataType) -> bool:
    return bool(types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind))


def _is_wide_fraction(kind: pa.DataType) -> bool:
    return bool(types.is_float64(kind) or types.is_decimal(kind))


_FITTING = (
    (_is_text, lambda kind: _is_text(kind) or types.is_temporal(kind) or types.is_decimal(kind)),
    (types.is_integer, _is_number),
    (types.is_floating, _is_wide_fraction),
    (types.is_decimal, types.is_decimal),
    (types.is_date, types.is_timestamp),
    (types.is_timestamp, types.is_timestamp),
)
"""Pairs of an inferred type and a type in which it may be read; values are checked when read."""


GEOMETRY, IDENTIFIER = "geometry", "id"
OTHER_GEOMETRY, OTHER_IDENTIFIER = "_geometry", "feature_id"
"""Names of a property `geometry`, and of an identifier beside another property `id`."""
_WGS84 = re.compile(
    r"(?i)(EPSG:+(?:[\d.]*:)?(?:4326|4979)|OGC:[\d.]*:?CRS84h?|WGS[ _]?(?:19)?84)\W*$"
)

_MEMBERS = frozenset({"type", "properties", GEOMETRY, IDENTIFIER, "bbox"})
"""Members of a feature that are stored, or that its geometry tells."""
SHOWN_MEMBERS = 5

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
        if others := sorted(value.keys() - _MEMBERS):
            told = ", ".join(f"`{one[:100]}`" for one in others[:SHOWN_MEMBERS])
            self._tell(
                f"features have members beside their properties, which are not stored: {told}"
            )
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
    pages = FeaturePages(tell)
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


BEGIN_BYTES = 1_024
_PAGE = re.compile(
    rb"(?:\xef\xbb\xbf)?\s*(?:<\?xml[^>]*>\s*)?(?><!--.*?-->\s*)*<(?:!doctype\s+html|html|head|body)"
    rb"[\s>]",
    re.IGNORECASE | re.DOTALL,
)
_OBJECT = re.compile(rb'(?:\xef\xbb\xbf)?\s*(?:\[\s*)?\{\s*"(?:[^"\\\n]|\\.)*"\s*:')
"""The beginning of records of JSON, or of an object around them."""
_TYPES = frozenset({"text/html", "application/xhtml+xml"})
_NOT_TEXT = re.compile(
    rb"PK\x03\x04|\x1f\x8b|BZh[1-9]|\x28\xb5\x2f\xfd|PAR1|\xd0\xcf\x11\xe0|\xff\xff\xff\xff"
)
_JSON = re.compile(rb"(?:\xef\xbb\xbf)?\s*[\[{]")


def refuse_page(begin: bytes, step: ReadStep) -> None:
    """Raise `WebPage` if a file of text begins as something else, in UTF-8 or another encoding of
    Unicode: as a page, or as JSON where the header of a CSV file would be."""
    if (encoding := marked_encoding(begin)) is not None:
        begin = begin.decode(encoding, "ignore").encode()
    if _PAGE.match(begin):
        raise web_page(begin)
    if (kind := kind_of(begin)) is not None:
        raise _of_kind(kind.name, kind.advice)
    if isinstance(step, ReadStepCsv) and step.header and is_object(begin):
        advice = f"post it as JSON, or to a source of JSON; it begins with {_shown(begin)!r}"
        raise _of_kind("JSON (formats json and ndjson)", advice)


def _of_kind(name: str, advice: str) -> BadInput:
    """Return the error of a file that is no text of rows."""
    told = f"the source answers with {name}, which the reader does not take for rows"
    return BadInput("WebPage", f"{told}: {advice}")


def is_object(begin: bytes) -> bool:
    """Whether a text begins as records of JSON, which a reader of CSV would take for names."""
    return _OBJECT.match(begin) is not None


def _shown(begin: bytes) -> str:
    return " ".join(begin[:80].decode("utf-8", "replace").split())[:60]


def web_page(begin: bytes) -> BadInput:
    """Return the error, which shows the beginning."""
    shown = _shown(begin)
    return BadInput(
        "WebPage",
        f"the source answers with a web page, not with data; it begins with {shown!r} (if it is "
        "data, the attribute odf-node/contentType: any of the source takes it)"
        if not _PAGE.match(begin)
        else f"the source answers with a web page, not with data; it begins with {shown!r}",
    )


def is_page_type(content_type: str) -> bool:
    """Whether a media type is that of web pages."""
    return content_type.partition(";")[0].strip().lower() in _TYPES


def is_text(begin: bytes, step: ReadStep) -> bool:
    """Whether a file that a server declares to be a page may be one, for all that its beginning
    tells."""
    if _NOT_TEXT.match(begin):
        return False
    return isinstance(step, ReadStepCsv) or not _JSON.match(begin)
