"""Which schema may follow which, and what a first schema of ours must hold."""

from __future__ import annotations

import pyarrow as pa
import pytest
from events import COLUMNS, ROOT, SYSTEM_COLUMNS, TIME, chain, optional, schema, then
from raw_arrow import bare_schema
from refusals import refusing

from odf_protocol.chain.rules import author
from odf_protocol.chain.schema_evolution import incompatibility, is_same
from odf_protocol.chain.state import EMPTY
from odf_protocol.metadata.attributes import Attributes
from odf_protocol.metadata.events import SetDataSchema, SetVocab
from odf_protocol.metadata.schema import (
    DataField,
    DataSchema,
    DataTypeBinary,
    DataTypeDate,
    DataTypeDecimal,
    DataTypeDuration,
    DataTypeFloat64,
    DataTypeInt32,
    DataTypeInt64,
    DataTypeList,
    DataTypeMap,
    DataTypeString,
    DataTypeStruct,
    DataTypeTime,
    DataTypeTimestamp,
    DataTypeUInt64,
    TimeUnit,
)

STRING, INT = DataTypeString(), DataTypeInt64()


def struct(**members):
    return DataTypeStruct(fields=schema(**members).fields)


def list_of(item, **more):
    return DataTypeList(item_type=item, **more)


def map_of(value, key=STRING, **more):
    return DataTypeMap(key_type=key, value_type=value, **more)


WRAPPINGS = {
    "column": lambda inner: inner,
    "optional": optional,
    "member": lambda inner: struct(a=inner),
    "list": list_of,
    "map value": map_of,
    "map key": lambda inner: map_of(STRING, key=inner),
    "deep": lambda inner: optional(list_of(optional(struct(m=map_of(inner))))),
}
wrapped = pytest.mark.parametrize("wrap", WRAPPINGS.values(), ids=WRAPPINGS)


@wrapped
def test_a_struct_gains_optional_members_at_any_depth(wrap):
    before, after = struct(x=INT), struct(new=optional(STRING), x=INT)
    assert incompatibility(schema(c=wrap(before)), schema(c=wrap(after))) is None


@wrapped
def test_a_struct_gains_no_required_member_and_loses_none_at_any_depth(wrap):
    before, after = struct(x=INT), struct(x=INT, new=STRING)
    assert "new" in (incompatibility(schema(c=wrap(before)), schema(c=wrap(after))) or "")
    assert "removed" in (incompatibility(schema(c=wrap(after)), schema(c=wrap(before))) or "")


@wrapped
@pytest.mark.parametrize(
    ("before", "after"),
    [
        (DataTypeInt32(), INT),
        (INT, DataTypeFloat64()),
        (DataTypeDecimal(precision=10, scale=2), DataTypeDecimal(precision=10, scale=3)),
        (DataTypeTimestamp(), DataTypeTimestamp(timezone="Europe/Paris")),
        (DataTypeTimestamp(), DataTypeTimestamp(unit=TimeUnit.Second)),
        (DataTypeTime(), DataTypeTime(unit=TimeUnit.Nanosecond)),
        (DataTypeDuration(), DataTypeDuration(unit=TimeUnit.Microsecond)),
        (DataTypeBinary(), DataTypeBinary(fixed_length=4)),
        (list_of(INT), list_of(INT, fixed_length=3)),
        (list_of(INT), INT),
        (map_of(INT), map_of(INT, keys_sorted=True)),
        (struct(x=INT), map_of(INT)),
        (list_of(INT), list_of(optional(INT))),
    ],
    ids=str,
)
def test_no_type_changes_at_any_depth(wrap, before, after):
    assert incompatibility(schema(c=wrap(before)), schema(c=wrap(after))) is not None
    assert incompatibility(schema(c=wrap(after)), schema(c=wrap(before))) is not None


@wrapped
@pytest.mark.parametrize(
    ("implied", "spelled_out"),
    [
        (
            DataTypeTimestamp(),
            DataTypeTimestamp(unit=TimeUnit.Millisecond, timezone="UTC"),
        ),
        (DataTypeTime(), DataTypeTime(unit=TimeUnit.Millisecond)),
        (DataTypeDuration(), DataTypeDuration(unit=TimeUnit.Millisecond)),
        (map_of(INT), map_of(INT, keys_sorted=False)),
    ],
    ids=str,
)
def test_a_default_that_is_spelled_out_is_no_difference(wrap, implied, spelled_out):
    assert is_same(schema(c=wrap(implied)), schema(c=wrap(spelled_out)))
    assert incompatibility(schema(c=wrap(implied)), schema(c=wrap(spelled_out))) is None


@wrapped
def test_only_the_step_from_raw_arrow_forgives_optionality(wrap):
    before, after = schema(c=wrap(INT)), schema(c=wrap(optional(INT)))
    if before == schema(c=optional(INT)):
        before, after = schema(c=INT), before
    assert "optional" in (incompatibility(before, after) or "")
    assert "required" in (incompatibility(after, before) or "")
    assert incompatibility(before, after, forgive_optionality=True) is None
    assert incompatibility(after, before, forgive_optionality=True) is None
    other = schema(c=wrap(optional(STRING)))
    assert incompatibility(before, other, forgive_optionality=True) is not None


def test_attributes_and_order_are_a_change_but_a_compatible_one():
    plain = schema(a=INT, b=STRING)
    described = DataSchema(
        fields=(
            DataField(name="a", type=INT, extra=Attributes.of({"d/x": 1})),
            DataField(name="b", type=STRING),
        )
    )
    for changed in (
        described,
        schema(b=STRING, a=INT),
        DataSchema(fields=plain.fields, extra=Attributes.of({"d/x": 1})),
    ):
        assert not is_same(plain, changed)
        assert incompatibility(plain, changed) is None


def test_two_columns_of_one_name_are_refused():
    twice = DataSchema(fields=(*schema(a=INT).fields, *schema(a=INT).fields))
    assert "share" in (incompatibility(schema(a=INT), twice) or "")


def test_the_same_schema_again_is_refused_and_a_larger_one_taken():
    state = chain(ROOT, COLUMNS)
    with refusing("NoOpEvent"):
        then(state, COLUMNS)
    larger = schema(**SYSTEM_COLUMNS, city=STRING, note=optional(STRING))
    assert then(state, SetDataSchema(schema=larger)).data_schema == larger
    with refusing("InvalidEvent", match=r"city"):
        then(state, SetDataSchema(schema=schema(**SYSTEM_COLUMNS, town=STRING)))


RAW = pa.schema([pa.field("a", pa.int64()), pa.field("b", pa.string(), nullable=False)])


@pytest.fixture
def raw_chain(raw_schema):
    return chain(ROOT, SetDataSchema(raw_arrow_schema=raw_schema))


@pytest.fixture
def raw_schema():
    return bare_schema(RAW)


def test_a_raw_arrow_schema_is_seen_in_its_odf_form(raw_chain):
    assert raw_chain.data_schema == schema(a=optional(INT), b=STRING)


def test_the_first_odf_form_may_mend_optionality_and_the_second_may_not(raw_chain, raw_schema):
    mended = then(raw_chain, SetDataSchema(schema=schema(a=INT, b=optional(STRING))))
    back = SetDataSchema(schema=schema(a=optional(INT), b=optional(STRING)))
    with refusing("InvalidEvent"):
        then(mended, back)
    again_raw = then(mended, SetDataSchema(raw_arrow_schema=raw_schema))
    with refusing("InvalidEvent"):
        then(again_raw, SetDataSchema(schema=schema(a=INT, b=STRING)))


def test_a_raw_schema_that_cannot_be_read_is_kept_but_has_no_successor():
    state = chain(ROOT, SetDataSchema(raw_arrow_schema=b"\x00\x01\x02\x03\x04"))
    with refusing("InvalidEvent", match="cannot be read"):
        then(state, COLUMNS)


def test_a_schema_event_holds_exactly_one_form(raw_schema):
    for event in (
        SetDataSchema(),
        SetDataSchema(schema=schema(a=INT), raw_arrow_schema=raw_schema),
    ):
        with refusing("InvalidEvent"):
            chain(ROOT, event)


# What we write ourselves


def _authored(*events):
    return author(EMPTY, (ROOT, *events), system_time=TIME)[1]


@pytest.mark.parametrize(
    "changed",
    [
        {"offset": DataTypeUInt64()},
        {"offset": optional(INT)},
        {"op": INT},
        {"system_time": DataTypeTimestamp(unit=TimeUnit.Microsecond)},
        {"system_time": optional(DataTypeTimestamp())},
        {"event_time": STRING},
        {"event_time": None},
        {"offset": None},
    ],
    ids=str,
)
def test_our_own_first_schema_declares_the_system_columns(changed):
    columns = {n: t for n, t in {**SYSTEM_COLUMNS, **changed}.items() if t is not None}
    with refusing("InvalidEvent") as caught:
        _authored(SetDataSchema(schema=schema(**columns)))
    assert next(iter(changed)) in str(caught.value)
    assert caught.value.facts["rule"] == "system_columns_are_declared"
    assert chain(ROOT, SetDataSchema(schema=schema(**columns))).num_blocks == 2


@pytest.mark.parametrize(
    "event_time",
    [DataTypeDate(), DataTypeTimestamp(), optional(DataTypeTimestamp())],
    ids=str,
)
def test_event_time_is_a_date_or_a_timestamp(event_time):
    columns = {**SYSTEM_COLUMNS, "event_time": event_time, "op": optional(DataTypeInt32())}
    assert _authored(SetDataSchema(schema=schema(**columns))).data_schema


def test_system_columns_are_looked_for_under_the_names_of_the_vocabulary():
    columns = {("at" if name == "event_time" else name): t for name, t in SYSTEM_COLUMNS.items()}
    event = SetDataSchema(schema=schema(**columns))
    assert _authored(SetVocab(event_time_column="at"), event).num_blocks == 3
    with refusing("InvalidEvent", match="event_time"):
        _authored(event)
