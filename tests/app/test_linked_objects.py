"""Linked objects travel with the rows that link to them, and stay as long as the rows do."""

from __future__ import annotations

import io
from dataclasses import replace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from footers import deadly
from msgspec.structs import replace as changed
from refusals import refusing
from service import NOON, SCHEMA, Chain, seeded, serving
from upkeep_parts import TOMORROW

from odf_node.client.nodes.limits import LIMITS
from odf_node.client.nodes.remotes import Location
from odf_node.client.transfer import sync
from odf_protocol.columns.arrow_digest import logical_hash_of
from odf_protocol.columns.arrow_schema import to_arrow
from odf_protocol.identity import DatasetRef
from odf_protocol.metadata.attributes import Attributes
from odf_protocol.metadata.events import AddData, DataSlice, OffsetInterval, SetDataSchema
from odf_protocol.multihash import Multihash
from odf_protocol.references import LinkedObjects, summary_of
from odf_storage.datasets.integrity.healing import retry_open_damages
from odf_storage.datasets.upkeep.fsck import FsckOptions, check_stores
from odf_storage.datasets.upkeep.gc import collect_garbage
from odf_storage.datasets.verify.run import DatasetSource, verify_chain
from odf_storage.stores.ports.values import ObjectKey, ObjectKind, Visibility

LINK = Attributes.of(
    {"opendatafabric.org/type": {"kind": "ObjectLink", "linkType": {"kind": "Multihash"}}}
)
LINKED_SCHEMA = changed(
    SCHEMA, fields=(*SCHEMA.fields[:4], changed(SCHEMA.fields[4], extra=LINK), SCHEMA.fields[5])
)
SCAN = b"a large scan" * 1000
SCAN_HASH = Multihash.of(SCAN)
SCAN_SIZE = len(SCAN)


def slice_of_links(*links: str | None) -> tuple[bytes, DataSlice]:
    utc, count = pa.timestamp("ms", "UTC"), len(links)
    table = pa.table(
        {
            "offset": pa.array(range(count), pa.int64()),
            "op": pa.array([0] * count, pa.int32()),
            "system_time": pa.array([NOON.millis] * count, utc),
            "event_time": pa.array([NOON.millis] * count, utc),
            "city": pa.array(links, pa.string()),
            "population": pa.array(range(count), pa.int64()),
        }
    )
    sink = io.BytesIO()
    pq.write_table(table, sink)
    content = sink.getvalue()
    return content, DataSlice(
        logical_hash=logical_hash_of(pq.ParquetFile(io.BytesIO(content))),
        physical_hash=Multihash.of(content),
        offset_interval=OffsetInterval(start=0, end=count - 1),
        size=len(content),
    )


def linking_chain() -> Chain:
    """A dataset of three rows; two link to the scan."""
    chain = seeded().add(SetDataSchema(schema=LINKED_SCHEMA))
    content, data = slice_of_links(str(SCAN_HASH), None, str(SCAN_HASH))
    chain.objects[ObjectKind.DATA, data.physical_hash] = content
    told = summary_of(LinkedObjects(2, 2 * SCAN_SIZE))
    return chain.add(AddData(new_data=data, new_watermark=NOON, extra=told))


@pytest.fixture
def served(tmp_path):
    with serving(tmp_path / "node", tenancy="single") as service:
        chain = linking_chain()
        service.keep(chain)
        yield service, chain


def put_scan(service, chain) -> None:
    key = ObjectKey(chain.id, ObjectKind.DATA, SCAN_HASH)
    service.node.stores.objects.put(key, [SCAN])


@pytest.mark.parametrize("scheme", ["odf+", ""])
def test_a_pull_brings_what_the_rows_link_to(served, tmp_path, scheme):
    service, chain = served
    put_scan(service, chain)
    outcome = sync.pull(
        Location.parse(f"{scheme}{service.url}/foo"), Location.parse(str(tmp_path / "foo"))
    )
    assert (outcome.objects, outcome.linked) == (1, 1)
    assert (tmp_path / "foo" / "data" / str(SCAN_HASH)).read_bytes() == SCAN


@pytest.mark.parametrize("scheme", ["odf+", ""])
def test_what_the_source_does_not_have_is_missing_here_as_well(served, tmp_path, scheme):
    service, _ = served
    outcome = sync.pull(
        Location.parse(f"{scheme}{service.url}/foo"), Location.parse(str(tmp_path / "foo"))
    )
    assert (outcome.outcome, outcome.linked) == ("updated", 0)


def test_a_pull_takes_no_linked_object_above_its_limit(served, tmp_path):
    service, chain = served
    put_scan(service, chain)
    with refusing("TooMuch"):
        sync.pull(
            Location.parse(f"odf+{service.url}/foo"),
            Location.parse(str(tmp_path / "foo")),
            limits=replace(LIMITS, object_bytes=SCAN_SIZE - 1),
        )
    assert not (tmp_path / "foo" / "refs" / "head").exists()


def test_a_push_brings_what_the_rows_link_to(served, tmp_path):
    service, chain = served
    put_scan(service, chain)
    folder = Location.parse(str(tmp_path / "foo"))
    sync.pull(Location.parse(f"odf+{service.url}/foo"), folder)
    with serving(tmp_path / "other", tenancy="single") as other:
        outcome = sync.push(
            folder,
            Location.parse(f"odf+{other.url}/copy"),
            token=other.token(),
            visibility=Visibility.PUBLIC,
        )
        assert outcome.objects == 2
        with other.http() as client:
            assert client.get(f"/copy/data/{SCAN_HASH}").content == SCAN


def test_the_summary_of_the_dataset_tells_of_them(served):
    service, _ = served
    with service.http(service.token()) as client:
        files = client.get("/foo/files").json()
    assert (files["linkedObjects"], files["linkedObjectsSize"]) == (2, 2 * SCAN_SIZE)


def test_garbage_collection_keeps_what_a_row_links_to(served):
    service, chain = served
    put_scan(service, chain)
    orphan = Multihash.of(b"nobody links to this")
    stores = service.node.stores
    stores.objects.put(ObjectKey(chain.id, ObjectKind.DATA, orphan), [b"nobody links to this"])
    report = collect_garbage(stores, clock=TOMORROW)
    assert {reason: counters.count for reason, counters in report.removed.items()} == {
        "unreferenced data": 1
    }
    assert stores.objects.stat(ObjectKey(chain.id, ObjectKind.DATA, SCAN_HASH)) is not None


WITHOUT_LINKS = {
    "no attribute": SetDataSchema(schema=SCHEMA),
    "Arrow's own form": SetDataSchema(
        raw_arrow_schema=to_arrow(SCHEMA).serialize().to_pybytes()[8:]
    ),
}


@pytest.mark.parametrize("schema", WITHOUT_LINKS.values(), ids=WITHOUT_LINKS)
def test_old_rows_keep_their_links_when_a_later_schema_has_none(tmp_path, schema):
    """A change of attributes is accepted, and changes no row."""
    with serving(tmp_path / "node", tenancy="single") as service:
        chain = linking_chain().add(schema)
        service.keep(chain)
        put_scan(service, chain)
        assert collect_garbage(stores_of(service), clock=TOMORROW).removed == {}
        outcome = sync.pull(
            Location.parse(f"odf+{service.url}/foo"), Location.parse(str(tmp_path / "foo"))
        )
        assert outcome.linked == 1


@pytest.mark.parametrize("schema", WITHOUT_LINKS.values(), ids=WITHOUT_LINKS)
def test_links_of_old_rows_are_verified_when_a_later_schema_has_none(tmp_path, schema):
    with serving(tmp_path / "node", tenancy="single") as service:
        chain = linking_chain().add(schema)
        service.keep(chain)
        source = DatasetSource(stores_of(service).dataset(DatasetRef(id=chain.id)))
        assert [each.reason for each in verify_chain(source).problems] == ["LinkedObjectMissing"]
        put_scan(service, chain)
        assert verify_chain(source).ok


def test_nothing_is_collected_while_links_cannot_be_read(served):
    service, chain = served
    put_scan(service, chain)
    stores = service.node.stores
    data = next(name for kind, name in chain.objects if kind is ObjectKind.DATA)
    stores.objects.delete(ObjectKey(chain.id, ObjectKind.DATA, data))
    report = collect_garbage(stores, clock=TOMORROW)
    assert report.removed == {}
    assert "links to" in report.left_alone[0]


def stores_of(service):
    return service.node.stores


def test_linked_objects_are_read_and_hashed_by_fsck_and_verify(served):
    service, chain = served
    put_scan(service, chain)
    report = check_stores(stores_of(service))
    assert (report.ok, report.notes) == (True, [])
    assert report.size > SCAN_SIZE
    verified = verify_chain(DatasetSource(stores_of(service).dataset(DatasetRef(id=chain.id))))
    assert (verified.ok, verified.objects) == (True, 2)
    assert verified.size > SCAN_SIZE


@pytest.mark.parametrize("harm", ["flip", "cut", "lose"])
def test_a_linked_object_that_is_not_whole_is_named(served, harm):
    service, chain = served
    put_scan(service, chain)
    key = ObjectKey(chain.id, ObjectKind.DATA, SCAN_HASH)
    path = stores_of(service).objects.path(key)
    path.chmod(0o644)
    if harm == "lose":
        path.unlink()
    else:
        path.write_bytes(SCAN[:-1] + (b"?" if harm == "flip" else b""))
    report = check_stores(stores_of(service))
    [problem] = report.problems
    assert str(SCAN_HASH) in problem.path
    assert report.notes == []
    assert problem.reason == ("ObjectMissing" if harm == "lose" else "PhysicalHashMismatch")
    dataset = stores_of(service).dataset(DatasetRef(id=chain.id))
    [found] = verify_chain(DatasetSource(dataset)).problems
    assert str(SCAN_HASH) in found.path
    assert found.reason == f"LinkedObject{'Missing' if harm == 'lose' else 'Damaged'}"


def test_a_scrub_puts_a_damaged_linked_object_aside_and_a_put_heals_it(served):
    service, chain = served
    put_scan(service, chain)
    key = ObjectKey(chain.id, ObjectKind.DATA, SCAN_HASH)
    path = stores_of(service).objects.path(key)
    path.chmod(0o644)
    path.write_bytes(SCAN[::-1])
    report = check_stores(stores_of(service), FsckOptions(quarantine=True))
    assert [problem.action for problem in report.problems] == ["quarantined"]
    assert stores_of(service).damages.count() == 1
    put_scan(service, chain)
    assert retry_open_damages(stores_of(service)) == 1
    assert check_stores(stores_of(service)).ok


def test_links_of_a_damaged_slice_are_not_believed(served):
    """Whatever it would say, nothing that its rows linked to is removed, or called an orphan."""
    service, chain = served
    put_scan(service, chain)
    [name] = [name for kind, name in chain.objects if kind is ObjectKind.DATA]
    path = stores_of(service).objects.path(ObjectKey(chain.id, ObjectKind.DATA, name))
    path.chmod(0o644)
    content, _ = slice_of_links(None, None, None)  # a slice that links to nothing
    path.write_bytes(content)
    collected = collect_garbage(stores_of(service), clock=TOMORROW)
    assert len(collected.left_alone) == 1
    assert stores_of(service).objects.stat(ObjectKey(chain.id, ObjectKind.DATA, SCAN_HASH))
    assert check_stores(stores_of(service)).notes == []


def test_a_slice_whose_footer_ends_other_readers_is_passed_by_while_links_are_looked_for(tmp_path):
    """By fsck, which therefore calls no object an orphan, and by a verification, which says what is
    wrong with the slice."""
    chain = seeded().add(SetDataSchema(schema=LINKED_SCHEMA))
    content, data = slice_of_links(str(SCAN_HASH), None, str(SCAN_HASH))
    content = deadly(content, "city")
    name = Multihash.of(content)
    chain.objects[ObjectKind.DATA, name] = content
    chain.add(AddData(new_data=changed(data, physical_hash=name, size=len(content))))
    with serving(tmp_path / "node", tenancy="single") as service:
        service.keep(chain)
        put_scan(service, chain)
        report = check_stores(stores_of(service))
        assert (report.ok, report.notes) == (True, [])
        dataset = stores_of(service).dataset(DatasetRef(id=chain.id))
        [found] = verify_chain(DatasetSource(dataset)).problems
        assert found.reason == "UnreadableSlice"
