"""Features take part by their records: the core of the service names none of them."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

import grimp
import pytest
from refusals import refusing

import odf_node
from odf_node.service.features import OWN
from odf_storage.runtime.features import Feature, installed, loaded

SERVICE = "odf_node.service"
DOORS = ("catalogs", "ducklake", "iceberg", "mcp", "odata", "projections", "sharing", "webhooks")
"""Packages of the service that hold nothing but one feature."""
BORROWED = {
    f"{SERVICE}.pages.datasets.content -> {SERVICE}.catalogs.catalogs",  # Croissant inside a page
    f"{SERVICE}.citation.citation -> {SERVICE}.catalogs.catalogs",  # what catalogues tell, cited
    f"{SERVICE}.citation.citation -> {SERVICE}.catalogs.told",
    f"{SERVICE}.citation.routes -> {SERVICE}.catalogs.routes",
    f"{SERVICE}.pages.datasets.loading -> {SERVICE}.sharing.names",  # loads a shared table
}


def places(feature: Feature) -> list[str]:
    """All names in a record."""
    found = []
    for each in fields(feature):
        value = getattr(feature, each.name)
        values = value.values() if isinstance(value, dict) else (value,)
        for one in values:
            found += [one] if isinstance(one, str) else [*one] if isinstance(one, tuple) else []
    return [text for text in found if ":" in text]


@pytest.mark.parametrize("feature", OWN, ids=lambda each: each.name)
def test_what_a_record_names_exists(feature):
    assert places(feature)
    for place in places(feature):
        assert loaded(place) is not None


def test_the_core_imports_no_feature():
    graph = grimp.build_graph("odf_node", cache_dir=None)
    inside = {f"{SERVICE}.{door}" for door in DOORS}
    found = {
        f"{importer} -> {imported}"
        for door in inside
        for imported in graph.find_descendants(door)
        for importer in graph.find_modules_that_directly_import(imported)
        if importer.startswith(f"{SERVICE}.")
        and not importer.startswith((*inside, f"{SERVICE}.parts.doors"))
    }
    assert found <= BORROWED


def test_a_record_that_is_none_is_named(monkeypatch, tmp_path: Path):
    info = tmp_path / "odf_none-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: odf-none\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[odf_node.features]\nnone = odf_node:__all__\n")
    monkeypatch.syspath_prepend(tmp_path)
    installed.cache_clear()
    try:
        with refusing("FeatureUnusable", match=r"none \(odf_node:__all__\)"):
            installed()
    finally:
        installed.cache_clear()


def test_the_packages_of_features_are_there():
    folder = Path(odf_node.__path__[0]) / "service"
    assert all((folder / door).is_dir() for door in DOORS)
