"""Columns that a batch adds to its dataset, because its publisher asks for that."""

from __future__ import annotations

import io
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from refusals import refusing
from tests.workers.datasets import bench_without_engine, created, upload
from tests.workers.partitions.many import Many
from throwaway import throwaway_stores

from odf_protocol.chain.state import Vocab
from odf_protocol.columns.arrow_schema import to_arrow
from odf_protocol.columns.column_names import texts_of
from odf_protocol.errors import BadInput
from odf_protocol.instant import Instant
from odf_protocol.metadata.attributes import Attributes
from odf_protocol.metadata.events import AddData, AddPushSource, DataSlice, SetDataSchema
from odf_protocol.metadata.schema import (
    DataField,
    DataSchema,
    DataTypeInt64,
    DataTypeOption,
    DataTypeString,
)
from odf_protocol.metadata.sources import (
    MergeStrategyAppend,
    MergeStrategyLedger,
    MergeStrategySnapshot,
    MergeStrategyUpsertStream,
    ReadStepCsv,
    ReadStepJson,
    ReadStepNdJson,
    ReadStepParquet,
)
from odf_protocol.multihash import Multihash
from odf_storage.datasets.job_payloads import ingest_job
from odf_storage.datasets.job_payloads.ingest_job import IngestPayload, IngestReceipt
from odf_storage.datasets.node.stores import Stores
from odf_storage.stores.ports.values import Failed, JobId, JobSpec, ObjectKind, Succeeded
from odf_workers.jobs.ingest.run import run_ingest
from odf_workers.jobs.transform.check import columns_of
from odf_workers.partitions.port import Here
from odf_workers.program.loop import Worker
from odf_workers.slices.schema import BadInputSchema, IncompatibleSchema

NOW = Instant.parse("2050-01-01T12:00:00Z")
FIRST, WIDER = b"id,a\n1,x\n2,y\n", b"b,id,a\n0.5,2,y\n1.5,3,z\n"


@pytest.fixture
def stores() -> Iterator[Stores]:
    return throwaway_stores()


class Posting:
    """A dataset of one source that declares nothing, and what its posts came to."""

    def __init__(self, stores: Stores, folder: Path, **source: Any) -> None:
        self.stores, self.dataset = stores, created(stores, **source)
        self.bench = bench_without_engine(stores, folder)

    def post(self, body: bytes | pa.Table, **asked: Any) -> IngestReceipt:
        if isinstance(body, pa.Table):
            sink = io.BytesIO()
            pq.write_table(body, sink)
            body = sink.getvalue()
        payload = msgspec.structs.replace(upload(self.stores, self.dataset, body), **asked)
        return run_ingest(self.dataset, payload, self.bench, now=NOW)

    @property
    def columns(self) -> dict[str, str]:
        """Columns of the dataset by type; optional ones with a question mark."""
        schema = self.dataset.state().data_schema
        assert schema is not None
        fields = list(to_arrow(schema))[4:]
        return {each.name: f"{each.type}{'?' if each.nullable else ''}" for each in fields}

    def rows(self, *columns: str) -> list[tuple[Any, ...]]:
        found: list[tuple[Any, ...]] = []
        for data in self._slices():
            with self.dataset.open_object(ObjectKind.DATA, data.physical_hash) as stream:
                rows = pq.read_table(stream).to_pylist()
            found += [tuple(row.get(name) for name in columns) for row in rows]
        return found

    def _slices(self) -> Iterator[DataSlice]:
        for block in self.dataset.blocks():
            if isinstance(block.event, AddData) and block.event.new_data is not None:
                yield block.event.new_data


@pytest.fixture
def posting(stores: Stores, tmp_path: Path) -> Any:
    return lambda **source: Posting(stores, tmp_path, **source)


def csv(**options: Any) -> ReadStepCsv:
    return ReadStepCsv(header=True, infer_schema=True, **options)


def test_new_columns_extend_the_schema_in_the_commit_of_their_rows(posting: Any) -> None:
    on = posting(read=csv())
    on.post(FIRST)
    receipt = on.post(WIDER, add_columns=True)
    assert on.columns == {"id": "int64?", "a": "string?", "b": "double?"}
    events = [type(block.event) for block in on.dataset.blocks()]
    assert events[-2:] == [SetDataSchema, AddData]
    assert len(receipt.blocks) == 2
    assert (receipt.outcome, receipt.rows_added) == ("updated", 2)
    assert set(on.rows("id", "a", "b")) == {
        (1, "x", None),
        (2, "y", None),
        (2, "y", 0.5),
        (3, "z", 1.5),
    }


def test_without_being_asked_for_new_columns_are_refused_and_change_nothing(posting: Any) -> None:
    on = posting(read=csv())
    on.post(FIRST)
    head = on.dataset.head()
    with pytest.raises(IncompatibleSchema, match=r"new: `b`.*addColumns"):
        on.post(WIDER)
    assert on.dataset.head() == head


def test_the_same_columns_again_add_nothing_and_fewer_are_null(posting: Any) -> None:
    on = posting(read=ReadStepNdJson())
    narrow, wide = b'{"id": 1}\n', b'{"id": 2, "b": 0.5}\n'
    assert len(on.post(narrow, add_columns=True).blocks) == 2
    assert len(on.post(wide, add_columns=True).blocks) == 2
    assert len(on.post(wide, add_columns=True).blocks) == 1
    assert len(on.post(narrow, add_columns=True).blocks) == 1
    assert on.rows("b") == [(None,), (0.5,), (0.5,), (None,)]


def test_a_dry_run_shows_the_columns_and_adds_none(posting: Any) -> None:
    on = posting(read=csv())
    on.post(FIRST)
    head = on.dataset.head()
    assert len(on.post(WIDER, add_columns=True, dry_run=True).blocks) == 2
    assert on.dataset.head() == head


@pytest.mark.parametrize("read", [ReadStepNdJson(), ReadStepJson(), ReadStepParquet()])
def test_every_format_adds_columns_in_the_types_that_its_reader_gives(
    posting: Any, read: Any
) -> None:
    on = posting(read=read)
    rows = {
        ReadStepNdJson: (b'{"id": 1}\n', b'{"id": 2, "tags": ["a"], "where": {"x": 1.5}}\n'),
        ReadStepJson: (b'[{"id": 1}]', b'[{"id": 2, "tags": ["a"], "where": {"x": 1.5}}]'),
        ReadStepParquet: (
            pa.table({"id": [1]}),
            pa.table({"id": [2], "tags": [["a"]], "where": [{"x": 1.5}]}),
        ),
    }
    first, wider = rows[type(read)]
    on.post(first)
    on.post(wider, add_columns=True)
    assert list(on.columns) == ["id", "tags", "where"]
    assert on.rows("tags", "where")[-1] == (["a"], {"x": 1.5})


@pytest.mark.parametrize("strategy", ["upsert", "snapshot", "ledger"])
@pytest.mark.parametrize("way", [Here, lambda: Many(3, Random(1))])
def test_rows_are_compared_with_a_history_that_lacks_the_columns(
    posting: Any, monkeypatch: pytest.MonkeyPatch, strategy: str, way: Any
) -> None:
    kind = {
        "upsert": MergeStrategyUpsertStream,
        "snapshot": MergeStrategySnapshot,
        "ledger": MergeStrategyLedger,
    }[strategy]
    on = posting(read=csv(), merge=kind(primary_key=("id",)))
    monkeypatch.setattr("odf_workers.jobs.ingest.run.way_of", lambda *_: way())
    on.post(FIRST)
    receipt = on.post(WIDER, add_columns=True)
    assert receipt.rows_added == 1
    assert receipt.rows_corrected == (0 if strategy == "ledger" else 1)
    assert receipt.rows_retracted == (1 if strategy == "snapshot" else 0)
    assert on.rows("id", "b")[-1] == (3, 1.5)
    assert on.post(WIDER).outcome == "up-to-date"


def test_a_source_that_declares_its_columns_adds_none_and_says_what_to_do(posting: Any) -> None:
    on = posting(read=ReadStepCsv(header=True, ddl_schema=("id bigint", "a string")))
    on.post(FIRST)
    with refusing("ColumnsAreDeclared", match=r"'default'.*SetDataSchema.*AddPushSource"):
        on.post(WIDER, add_columns=True)


ID_A = DataSchema(
    fields=(
        DataField(name="id", type=DataTypeInt64()),
        DataField(name="a", type=DataTypeOption(inner=DataTypeString())),
    ),
    extra=Attributes.of({"odf-node/decimal": ","}),
)
DECLARED: dict[str, tuple[Any, bytes | pa.Table, bytes | pa.Table, str]] = {
    "csv": (
        ReadStepCsv(header=True, separator=";", escape="", schema=ID_A),
        b"id;a\n1;x\n",
        b"b;A;id\nnew;y;2\n",
        "string?",
    ),
    "ndjson": (
        ReadStepNdJson(schema=ID_A),
        b'{"id": 1, "a": "x"}\n',
        b'{"id": 2, "a": "y", "b": [1]}\n{"id": 3, "a": "z"}\n',
        "list<item: int64>?",
    ),
    "parquet": (
        ReadStepParquet(schema=ID_A),
        pa.table({"id": [1], "a": ["x"]}),
        pa.table({"b": [0.5], "id": [2], "a": ["y"]}),
        "double?",
    ),
}
"""Sources that declare a schema, as proposals do; a first post and a wider one, and the type that
its new column gets."""


@pytest.mark.parametrize("form", DECLARED)
@pytest.mark.parametrize("way", [Here, lambda: Many(3, Random(1))])
@pytest.mark.parametrize("is_first", [False, True])
def test_a_source_that_declares_a_schema_gets_the_new_columns_too(
    posting: Any, monkeypatch: pytest.MonkeyPatch, form: str, way: Any, is_first: bool
) -> None:
    read, first, wider, kind = DECLARED[form]
    on = posting(read=read)
    monkeypatch.setattr("odf_workers.jobs.ingest.run.way_of", lambda *_: way())
    if not is_first:
        on.post(first)
    on.post(wider, add_columns=True)
    events = [type(block.event) for block in on.dataset.blocks()]
    assert events[-3:] == [SetDataSchema, AddPushSource, AddData]
    assert on.columns == {"id": "int64", "a": "string?", "b": kind}
    assert on.rows("a", "b")[-1] != (None, None)
    source = on.dataset.state().push_sources["default"]
    assert [field.name for field in source.read.schema.fields] == ["id", "a", "b"]
    assert source.read.schema.extra == ID_A.extra
    assert msgspec.structs.replace(source.read, schema=ID_A) == read
    assert len(on.post(wider, add_columns=True).blocks) == 1
    assert len(on.post(wider).blocks) == 1


A_ID = DataSchema(fields=(*reversed(ID_A.fields),), extra=ID_A.extra)
"""The same columns in another order."""
OF_OTHERS: dict[str, tuple[Any, bytes | pa.Table]] = {
    "csv": (ReadStepCsv(header=True, schema=A_ID), b"a,id\ny,2\n"),
    "ndjson": (ReadStepNdJson(schema=A_ID), b'{"a": "y", "id": 2}\n'),
    "parquet": (ReadStepParquet(schema=A_ID), pa.table({"a": ["y"], "id": [2]})),
    "ddl": (ReadStepNdJson(ddl_schema=("a STRING", "id BIGINT NOT NULL")), b'{"a":"y","id":2}\n'),
}


@pytest.mark.parametrize("form", OF_OTHERS)
@pytest.mark.parametrize("way", [Here, lambda: Many(3, Random(1))])
def test_columns_that_one_source_adds_are_null_in_rows_of_others_and_each_receipt_says_so(
    posting: Any, monkeypatch: pytest.MonkeyPatch, form: str, way: Any
) -> None:
    read, body = OF_OTHERS[form]
    merge = MergeStrategyUpsertStream(primary_key=("id",))
    other = AddPushSource(source_name="other", read=read, merge=merge)
    on = posting(read=ReadStepNdJson(schema=ID_A), merge=merge, more=(other,))
    monkeypatch.setattr("odf_workers.jobs.ingest.run.way_of", lambda *_: way())
    wide = b'{"id": 1, "a": "x", "b": 1.5}\n{"id": 2, "a": "x", "b": 2.5}\n'
    on.post(wide, source_name="default", add_columns=True)
    receipt = on.post(body, source_name="other")
    assert receipt.rows_corrected == 1
    assert on.rows("id", "a", "b")[-1] == (2, "y", None)
    told = "columns of the dataset that the source does not name are null: `b`"
    assert receipt.warnings.count(told) == 1
    assert list(on.columns) == ["id", "a", "b"]
    assert on.post(body, source_name="other").outcome == "up-to-date"


def test_columns_that_the_dataset_requires_or_the_strategy_names_are_not_null_by_absence(
    posting: Any,
) -> None:
    (_, only_a), fields = ID_A.fields, ID_A.fields
    merge = MergeStrategySnapshot(primary_key=("id",), compare_columns=("a",))
    lacking = {
        "required": AddPushSource(
            source_name="required",
            read=ReadStepNdJson(schema=DataSchema(fields=(only_a,))),
            merge=MergeStrategyAppend(),
        ),
        "compared": AddPushSource(
            source_name="compared",
            read=ReadStepNdJson(schema=DataSchema(fields=fields[:1])),
            merge=merge,
        ),
    }
    on = posting(read=ReadStepNdJson(schema=ID_A), merge=merge, more=tuple(lacking.values()))
    on.post(b'{"id": 1, "a": "x"}\n', source_name="default")
    head = on.dataset.head()
    for name, column in (("required", "id"), ("compared", "a")):
        with pytest.raises(IncompatibleSchema, match=f"missing: `{column}`"):
            on.post(b'{"id": 2, "a": "y"}\n', source_name=name)
    assert on.dataset.head() == head


def test_a_source_that_lacks_optional_columns_fits_when_it_is_defined(tmp_path: Path) -> None:
    none: Any = None
    source = AddPushSource(
        source_name="s", read=ReadStepNdJson(schema=A_ID), merge=MergeStrategyAppend()
    )
    with_b = DataField(name="b", type=DataTypeOption(inner=DataTypeString()))
    vocab = Vocab()
    first = columns_of(source, vocab, None, none, none, tmp_path)
    assert first is not None
    current = msgspec.structs.replace(first, fields=(*first.fields, with_b))
    assert columns_of(source, vocab, current, none, none, tmp_path) == current


def test_a_declared_source_keeps_its_format_when_a_post_of_another_adds_columns(
    posting: Any,
) -> None:
    on = posting(read=ReadStepNdJson(schema=ID_A))
    rows = pa.table({"id": [2], "a": ["y"], "b": [0.5]})
    on.post(rows, add_columns=True, media_type="application/vnd.apache.parquet")
    read = on.dataset.state().push_sources["default"].read
    assert (type(read), len(read.schema.fields)) == (ReadStepNdJson, 3)
    assert on.post(b'{"id": 3, "b": 1.5}\n').rows_added == 1


def test_columns_that_the_node_writes_are_not_added_to_a_declared_source(posting: Any) -> None:
    on = posting(read=ReadStepNdJson(schema=ID_A))
    on.post(b'{"id": 1}\n')
    row = b'{"id": 2, "offset": 7, "op": 1, "event_time": "2020-01-01T00:00:00Z"}\n'
    receipt = on.post(row, add_columns=True)
    assert len(receipt.blocks) == 1
    assert list(on.columns) == ["id", "a"]
    assert any("not stored" in text for text in receipt.warnings)


def test_a_wider_post_to_a_declared_source_that_is_refused_changes_nothing(posting: Any) -> None:
    on = posting(read=ReadStepNdJson(schema=ID_A))
    on.post(b'{"id": 1}\n')
    head = on.dataset.head()
    for bad in (b'{"id": "x", "b": 1}\n', b'{"id": 2, "b": null}\n', b'{"b": 1}\n'):
        with pytest.raises(BadInput):
            on.post(bad, add_columns=True)
        assert on.dataset.head() == head
    assert len(on.post(b'{"id": 2, "b": 1}\n', add_columns=True, dry_run=True).blocks) == 3
    assert on.dataset.head() == head


def test_a_header_of_other_names_adds_no_columns(posting: Any) -> None:
    """Its columns go by their places, so that none of them is known to be new."""
    on = posting(read=ReadStepCsv(header=True, schema=ID_A))
    on.post(b"id,a\n1,x\n")
    on.post(b"number,word\n2,y\n", add_columns=True)
    assert list(on.columns) == ["id", "a"]
    with pytest.raises(BadInput, match="addColumns"):
        on.post(b"number,word,b\n2,y,z\n", add_columns=True)


def test_a_column_without_values_is_refused_in_json_and_text_in_parquet(posting: Any) -> None:
    on = posting(read=ReadStepNdJson())
    on.post(b'{"id": 1}\n')
    with pytest.raises(BadInputSchema, match=r"`b` holds nulls only.*leave it out"):
        on.post(b'{"id": 2, "b": null}\n', add_columns=True)
    nulls = pa.table({"id": [2], "b": pa.array([None], pa.null())})
    media_type = "application/vnd.apache.parquet"
    receipt = on.post(nulls, add_columns=True, media_type=media_type)
    assert on.columns["b"] == "string?"
    assert any("`b` holds nulls only, and is stored as text" in text for text in receipt.warnings)


def test_a_new_column_that_differs_in_case_only_is_told(posting: Any) -> None:
    on = posting(read=csv())
    on.post(FIRST)
    receipt = on.post(b"id,a,A\n3,x,y\n", add_columns=True)
    assert any("columns `a` and `A` differ in case only" in text for text in receipt.warnings)


def test_columns_that_are_missing_or_of_another_type_are_refused_all_the_same(
    posting: Any,
) -> None:
    on = posting(read=ReadStepParquet())
    on.post(pa.table(pa.table({"id": [1]}).columns, pa.schema([pa.field("id", pa.int64(), False)])))
    for wrong in ({"b": [1]}, {"id": ["x"], "b": [1]}):
        with pytest.raises(BadInput):
            on.post(pa.table(wrong), add_columns=True)
    assert list(on.columns) == ["id"]


def test_posts_that_wait_together_have_the_columns_that_one_of_them_adds(
    stores: Stores, tmp_path: Path
) -> None:
    on = Posting(stores, tmp_path, read=ReadStepNdJson())
    on.post(b'{"id": 1}\n')

    def waiting(body: bytes, **asked: Any) -> JobId:
        payload = IngestPayload(upload=str(Multihash.of(body)), **asked)
        told, lock = ingest_job.to_json(payload), str(on.dataset.id)
        return stores.jobs.submit(
            JobSpec(ingest_job.KIND, on.dataset.id, told, lock=lock, body=body)
        )

    wide = b'{"id": 2, "b": 0.5}\n'
    jobs = [
        waiting(b'{"id": 3}\n'),
        waiting(wide, add_columns=True, dry_run=True),
        waiting(wide),
        waiting(wide, add_columns=True),
        waiting(b'{"id": 4, "b": 1}\n'),
        waiting(b'{"id": 5}\n'),
    ]
    lease = timedelta(seconds=30)
    worker = Worker(stores=stores, context=on.bench, name="w", lease=lease, longest_pause_s=0.04)
    while any(stores.jobs.get(job).outcome is None for job in jobs):
        worker.work(once=True)
    ended = [stores.jobs.get(job).outcome for job in jobs]
    assert [type(each) for each in ended] == [Succeeded] * 2 + [Failed] + [Succeeded] * 3
    assert isinstance(ended[1], Succeeded)
    assert "b" in [field["name"] for field in ended[1].result["schema"]["fields"]]
    assert on.rows("id", "b") == [(1, None), (3, None), (2, 0.5), (4, 1.0), (5, None)]


def test_units_of_a_source_become_those_of_the_dataset_and_other_units_are_refused(
    stores: Stores, tmp_path: Path
) -> None:
    unit = Attributes.of({"odf-node/unit": "°C"})
    kind = DataTypeOption(inner=DataTypeInt64())
    schema = DataSchema(
        fields=(DataField(name="id", type=kind), DataField(name="t", type=kind, extra=unit)),
        extra=Attributes.of({"odf-node/unitLines": 1}),
    )
    posting = Posting(stores, tmp_path, read=ReadStepCsv(header=True, schema=schema))
    posting.post(b"id,t\n,[\xc2\xb0C]\n1,20\n")
    before = posting.dataset.state()
    assert before.data_schema is not None
    assert [texts_of(one).unit for one in before.data_schema.fields][-2:] == ["", "°C"]
    for body in (b"id,t\n,K\n2,293\n", b"id,t\n2,21\n3,22\n"):
        with refusing("UnitsDiffer", match="`t`"):
            posting.post(body)
    assert posting.dataset.state() == before
