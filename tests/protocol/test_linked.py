"""Which columns link to objects, and what a block tells of them."""

from __future__ import annotations

import pytest

from odf_protocol.metadata.attributes import Attributes
from odf_protocol.metadata.schema import (
    DataField,
    DataSchema,
    DataTypeInt64,
    DataTypeOption,
    DataTypeString,
)
from odf_protocol.references import (
    MAX_COUNT,
    NOTHING_LINKED,
    SUMMARY_KEY,
    LinkedObjects,
    link_columns,
    linked_objects,
    summary_of,
)

LINK = Attributes.of(
    {"opendatafabric.org/type": {"kind": "ObjectLink", "linkType": {"kind": "Multihash"}}}
)


def test_links_are_text_columns_declared_as_such():
    text = DataTypeString()
    schema = DataSchema(
        fields=(
            DataField(name="plain", type=text),
            DataField(name="one", type=text, extra=LINK),
            DataField(name="maybe", type=DataTypeOption(inner=text), extra=LINK),
            DataField(name="number", type=DataTypeInt64(), extra=LINK),
            DataField(name="other", type=text, extra=Attributes.of({"x": {"kind": "ObjectLink"}})),
        )
    )
    assert link_columns(schema) == ("one", "maybe")
    assert link_columns(None) == ()


def test_a_summary_reads_back():
    assert linked_objects(summary_of(LinkedObjects(3, 400))) == LinkedObjects(3, 400)
    assert linked_objects(None) == NOTHING_LINKED


@pytest.mark.parametrize(
    "told", [None, [], "7", {"numObjectsNaive": "7"}, {"numObjectsNaive": -1}, {"sizeNaive": True}]
)
def test_whatever_is_no_summary_counts_as_none(told):
    assert linked_objects(Attributes.of({SUMMARY_KEY: told})) == NOTHING_LINKED


@pytest.mark.parametrize("text", ["", "{", f'{{"{SUMMARY_KEY}": ', f'["{SUMMARY_KEY}"]'])
def test_text_that_is_no_map_counts_as_none(text):
    assert linked_objects(Attributes(text)) == NOTHING_LINKED


def test_sums_stay_within_what_a_counter_holds():
    huge = LinkedObjects(MAX_COUNT, MAX_COUNT)
    assert huge + huge == huge
