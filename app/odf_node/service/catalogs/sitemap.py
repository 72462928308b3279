"""Site maps: lists of pages for search engines. Source: sitemaps.org, protocol 0.9."""

from __future__ import annotations

from collections.abc import Iterable
from xml.etree import ElementTree as Xml

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
