"""Schemas of manifests, as an editor fetches them."""

from __future__ import annotations


def test_every_kind_of_manifest_has_its_schema(single):
    with single.http() as http:
        listed = http.get("/schemas").json()
        assert sorted(listed) == ["DatasetSnapshot", "MetadataBlock", "MetadataEvent"]
        for kind in listed:
            answer = http.get(f"/schemas/{kind}.json")
            assert answer.headers["content-type"] == "application/schema+json"
            assert answer.json()["title"] == kind


def test_an_unknown_kind_is_answered_with_the_known_ones(single):
    with single.http() as http:
        answer = http.get("/schemas/Unheard.json")
    assert answer.status_code == 404
    assert "DatasetSnapshot" in answer.json()["message"]
