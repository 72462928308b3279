"""What a node receives passes its gate, by whatever way it came: slices are what blocks say."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from msgspec.structs import replace
from raw_peer import bundled, files_of, head_of, named, push, talking
from service import SCHEMA as COLUMNS
from service import Chain, Service, described, parquet_rows, seeded, serving, ten_rows
from websockets.exceptions import ConnectionClosed

from odf_node.service.mirrors.mirror_pull import NodeTarget
from odf_protocol.columns.arrow_digest import digest_of
from odf_protocol.identity import DatasetRef
from odf_protocol.metadata.events import AddData, DataSlice, OffsetInterval, SetDataSchema
from odf_protocol.multihash import Multihash
from odf_storage.datasets.gate.gate import DataDoesNotMatchMetadata
from odf_storage.datasets.job_payloads import verify_job
from odf_storage.stores.ports.values import ObjectKind

ROWS = 1000
Forge = Callable[[pa.Table], bytes]


def written(rows: pa.Table) -> bytes:
    sink = io.BytesIO()
    pq.write_table(rows, sink)
    return sink.getvalue()


def with_column(name: str, values: pa.Array) -> Forge:
    def forge(rows: pa.Table) -> bytes:
        return written(rows.set_column(rows.schema.get_field_index(name), name, values))

    return forge


LATE = pa.timestamp("ms", "UTC")
FORGED: dict[str, tuple[Forge, str]] = {
    "text": (lambda _: b"id,name\n1,a\n2,b\n3,c\n4,d", "UnreadableSlice"),
    "truncated": (lambda rows: written(rows)[:-100], "UnreadableSlice"),
    "fewer rows": (lambda rows: written(rows.slice(0, 10)), "RowCountMismatch"),
    "other offsets": (
        with_column("offset", pa.array(range(1, ROWS + 1), pa.int64())),
        "OffsetColumnMismatch",
    ),
    "a gap": (
        with_column("offset", pa.array([*range(500), *range(501, ROWS + 1)], pa.int64())),
        "OffsetColumnMismatch",
    ),
    "other columns": (lambda rows: written(rows.drop_columns(["city"])), "SchemaMismatch"),
    "another type": (with_column("population", pa.array(["1"] * ROWS)), "SchemaMismatch"),
    "another operation": (with_column("op", pa.array([9] * ROWS, pa.int32())), "OperationMismatch"),
    "another system time": (
        with_column("system_time", pa.array([4_000_000_000_000] * ROWS, LATE)),
        "SystemTimeMismatch",
    ),
    "a bomb": (
        lambda rows: written_small(
            rows.set_column(4, "city", pa.array(["x" * (1 << 17)] * ROWS).dictionary_encode())
        ),
        "SliceTooLarge",
    ),
    "other rows": (
        with_column("population", pa.array(range(ROWS), pa.int64())),
        "LogicalHashMismatch",
    ),
}


def written_small(rows: pa.Table) -> bytes:
    sink = io.BytesIO()
    pq.write_table(rows, sink, compression="zstd", store_schema=False)
    return sink.getvalue()


def claiming(content: bytes, rows: int = ROWS) -> Chain:
    """A chain whose last block says that the content is a slice of so many rows."""
    honest = parquet_rows(0, rows)
    chain = seeded().add(described(), SetDataSchema(schema=COLUMNS))
    piece = DataSlice(
        logical_hash=digest_of(pq.ParquetFile(io.BytesIO(honest))).finish(),
        physical_hash=Multihash.of(content),
        offset_interval=OffsetInterval(start=0, end=rows - 1),
        size=len(content),
    )
    chain.objects[ObjectKind.DATA, piece.physical_hash] = content
    return chain.add(AddData(new_data=piece))


def forged(kind: str) -> tuple[Chain, str]:
    make, reason = FORGED[kind]
    rows = pq.read_table(io.BytesIO(parquet_rows(0, ROWS)))
    return claiming(make(rows)), reason


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    settings = {"poll_s": 0.05, "slice_memory_bytes": 512 << 20, "max_slice_ratio": 100}
    with serving(tmp_path_factory.mktemp("gate"), **settings) as running:
        yield running


def put(answer: dict[str, Any], contents: dict[str, bytes]) -> None:
    for strategy in answer["Ok"]["object_transfer_strategies"]:
        target = strategy["upload_to"]
        headers = {one["name"]: one["value"] for one in target["headers"]}
        content = contents[strategy["object_file"]["physical_hash"]]
        assert httpx.put(target["url"], content=content, headers=headers).status_code == 200


def patch(answer: dict[str, Any], contents: dict[str, bytes]) -> None:
    """In two parts, as uploads that broke off go on."""
    for strategy in answer["Ok"]["object_transfer_strategies"]:
        target = strategy["upload_to"]
        headers = {one["name"]: one["value"] for one in target["headers"]}
        content = contents[strategy["object_file"]["physical_hash"]]
        half = len(content) // 2
        for start, part in ((0, content[:half]), (half, content[half:])):
            place = {"upload-offset": str(start), "upload-length": str(len(content))}
            done = httpx.patch(target["url"], content=part, headers={**headers, **place})
            assert done.status_code == 204, done.text


def refused(service: Service, path: str, chain: Chain, send: Any = put, force: bool = False) -> str:
    """What the Close frame of a push says."""
    contents = {str(name): content for (_, name), content in chain.objects.items()}
    head = head_of(service, path, service.token())
    with talking(service, f"{path}/push", service.token()) as peer:
        assert peer.request_push(head, len(chain.blocks), force=force) == {"Ok": {}}
        assert peer.ask(bundled(named(chain.blocks))) == {"Ok": {}}
        send(peer.ask({"object_files": files_of(chain), "is_truncated": False}), contents)
        peer.say({"details": "Complete"})
        peer.say({})
        code, reason = peer.close_frame()
    assert code == 1011
    said = json.loads(reason)["Err"]["Internal"]
    assert said["phase"] == {"Push": "CompleteRequest"}
    return str(said["error_message"])


@pytest.mark.parametrize("send", [put, patch])
@pytest.mark.parametrize("kind", FORGED)
def test_a_forged_slice_that_is_pushed_moves_nothing(
    service: Service, kind: str, send: Any
) -> None:
    chain, reason = forged(kind)
    path = f"/forged-{FORGED_NAMES[kind]}-{send.__name__}"
    assert refused(service, path, chain, send) == f"block 3: {reason}"
    assert head_of(service, path, service.token()) == str(chain.blocks[0].hash)
    with service.http(service.token()) as http:
        assert http.get(f"{path}/tail").json()["data"] == []


FORGED_NAMES = {kind: str(number) for number, kind in enumerate(FORGED)}


def test_force_opens_no_other_way(service: Service) -> None:
    chain = ten_rows()
    push(service, "/forced", chain, service.token())
    other = Chain(chain.id)
    other.blocks, other.state = [chain.blocks[0]], chain.state
    content = b"not any rows at all"
    forged_chain = claiming(content)
    rows = forged_chain.blocks[-1].event.new_data  # type: ignore[union-attr]
    replaced = Chain(chain.id).add(chain.blocks[0].event, SetDataSchema(schema=COLUMNS))
    replaced.objects[ObjectKind.DATA, rows.physical_hash] = content
    replaced.add(AddData(new_data=rows))
    assert refused(service, "/forced", replaced, force=True) == "block 2: UnreadableSlice"
    assert head_of(service, "/forced", service.token()) == str(chain.head)


@pytest.mark.parametrize("kind", ["text", "other rows"])
def test_a_forged_slice_of_a_remote_does_not_reach_a_mirror(service: Service, kind: str) -> None:
    chain, reason = forged(kind)
    entry = service.keep(Chain(chain.id, blocks=chain.blocks[:3]), f"kamu/mirror-{kind[:4]}")
    target = NodeTarget(service.node.mirrors.receiving, entry)
    for (of, name), content in chain.objects.items():
        target.put(of, name, [content])
    with pytest.raises(DataDoesNotMatchMetadata) as wrong:
        target.move_head(expected=chain.blocks[2].hash, new=chain.blocks[3:])
    assert wrong.value.reason == reason
    assert target.head() == chain.blocks[2].hash


def test_slices_lie_in_the_schema_of_their_own_block(service: Service) -> None:
    chain = ten_rows()
    push(service, "/evolved", chain, service.token())
    with_more = COLUMNS.fields[4]
    grown = replace(COLUMNS, fields=(*COLUMNS.fields, replace(with_more, name="note")))
    start = len(chain.blocks)
    chain.objects.clear()
    chain.add(SetDataSchema(schema=grown)).add_rows(5)
    contents = {str(name): content for (_, name), content in chain.objects.items()}
    with talking(service, "/evolved/push", service.token()) as peer:
        new = chain.blocks[start:]
        assert peer.request_push(chain.blocks[start - 1].hash, len(new)) == {"Ok": {}}
        assert peer.ask(bundled(named(new))) == {"Ok": {}}
        put(peer.ask({"object_files": files_of(chain), "is_truncated": False}), contents)
        peer.say({"details": "Complete"})
        peer.say({})
        _, reason = peer.close_frame()
    assert "block 5: SchemaMismatch" in reason


# --- rows that are hashed later ---------------------------------------------------------------


@pytest.fixture
def later(tmp_path: Path) -> Iterator[Service]:
    with serving(tmp_path, poll_s=0.05, rows_hashed_at_once_bytes=100) as running:
        yield running


def shown(service: Service, path: str) -> dict[str, Any]:
    with service.http(service.token()) as http:
        found: dict[str, Any] = http.get(path, headers={"accept": "application/json"}).json()
    return found


def test_rows_of_large_pushes_count_marked_until_a_job_has_hashed_them(later: Service) -> None:
    chain = ten_rows()
    push(later, "/large", chain, later.token(), visibility="Public")
    assert head_of(later, "/large", later.token()) == str(chain.head)
    found = shown(later, "/large")["unverified"]
    assert (found["after"], found["upto"]) == (str(chain.blocks[0].hash), str(chain.head))
    [job] = later.node.stores.jobs.page()
    payload = verify_job.payload_of(job.spec.payload)
    assert (payload.after, payload.upto) == (found["after"], found["upto"])
    assert payload.gate is not None
    with later.http() as http:
        page = http.get("/large", headers={"accept": "text/html"})
    assert "Unverified: rows up to" in page.text
    system_columns_only, _ = forged("other offsets")
    assert refused(later, "/wrong", system_columns_only) == "block 3: OffsetColumnMismatch"
    assert shown(later, "/wrong")["unverified"] is None


def test_small_pushes_are_not_marked(service: Service) -> None:
    push(service, "/small", ten_rows(), service.token())
    assert shown(service, "/small")["unverified"] is None


def test_objects_of_another_dataset_are_fine_under_their_hash_its_blocks_are_not(
    service: Service,
) -> None:
    """Mix and match: what a chain may name is decided by its hashes, which lead to its Seed."""
    one, other = ten_rows(), ten_rows()
    push(service, "/one", one, service.token())
    push(service, "/other", other, service.token())
    content = next(iter(one.objects.values()))
    same = claiming(content, 10)  # the same rows, in a chain of their own
    push(service, "/same", same, service.token())
    head = other.blocks[-1].hash
    with talking(service, "/other/push", service.token()) as peer:
        assert peer.request_push(head, 1) == {"Ok": {}}
        peer.ask(bundled(named(one.blocks[-1:])))
        with suppress(ConnectionClosed):  # the node may have closed before it is asked
            peer.say({"object_files": [], "is_truncated": False})
        code, _ = peer.close_frame()
    assert code == 1011
    assert head_of(service, "/other", service.token()) == str(head)
    dataset = service.node.stores.dataset(DatasetRef(id=other.id))
    assert dataset.head() == head
