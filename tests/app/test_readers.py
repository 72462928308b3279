"""Rows are read in processes of their own: what is in them costs the service nothing."""

from __future__ import annotations

import io
import os
import signal
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import httpx
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from processes import with_work
from servers import wait_until
from service import NOON, SCHEMA, Chain, seeded, serving
from table_made import ITEMS, TableMade, item

from odf_node.service.readers import pool
from odf_protocol.metadata.events import AddData, DataSlice, OffsetInterval, SetDataSchema
from odf_protocol.multihash import Multihash
from odf_storage.datasets.read.formats import JOINED_BATCHES, Format
from odf_storage.stores.ports.values import ObjectKey, ObjectKind, Visibility

MIB = 1024 * 1024
READ_BYTES = 20 * MIB


def slice_of(cities: pa.Array) -> Chain:
    """A dataset of one slice with these cities, as short as Parquet makes it."""
    chain, rows = seeded().add(SetDataSchema(schema=SCHEMA)), len(cities)
    utc = pa.timestamp("ms", "UTC")
    table = pa.table(
        {
            "offset": pa.array(range(rows), pa.int64()),
            "op": pa.array([0] * rows, pa.int32()),
            "system_time": pa.array([NOON.millis] * rows, utc),
            "event_time": pa.array([NOON.millis] * rows, utc),
            "city": cities,
            "population": pa.array([1] * rows, pa.int64()),
        }
    )
    sink = io.BytesIO()
    pq.write_table(table, sink, compression="zstd")
    content = sink.getvalue()
    name = Multihash.of(content)
    piece = DataSlice(
        logical_hash=name,
        physical_hash=name,
        offset_interval=OffsetInterval(start=0, end=rows - 1),
        size=len(content),
    )
    chain.objects[ObjectKind.DATA, name] = content
    return chain.add(AddData(new_data=piece, new_watermark=NOON))


@pytest.fixture(scope="module")
def node(tmp_path_factory):
    limits = {
        "max_tail_bytes": 4 * MIB,
        "max_read_bytes": READ_BYTES,
        "reader_memory_bytes": 80 * MIB,
        "turn_wait_s": 0.5,
        "readers": 3,
        "share": 0.5,
        "read_held_s": 60,  # a busy machine computes slowly
        "compress_from_bytes": 0,  # lengths are those of the rows
    }
    with serving(tmp_path_factory.mktemp("readers"), **limits) as service:
        service.keep(slice_of(pa.array(["x" * MIB]).take(pa.array([0] * 100))), "kamu/wide")
        service.keep(slice_of(pa.array(["x" * 60 * MIB])), "kamu/cell")
        service.keep(slice_of(pa.array([f"c{n}" for n in range(600_000)])), "kamu/long")
        yield service


def memory_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE")


def readers() -> set[int]:
    """Processes that read."""
    return set(with_work(pool.NURSERY.pid))


def only_those_that_wait() -> bool:
    return not readers()


@pytest.mark.parametrize("asked", ["wide/tail?limit=100", "cell/tail?limit=1"])
def test_rows_above_the_budget_of_a_tail_are_refused(node, asked):
    """A few kilobytes of Parquet that are a hundred megabytes of answer."""
    with node.http() as client:
        client.get("/wide/tail?limit=1")
        before = memory_bytes()
        answer = client.get(f"/{asked}")
        grown = memory_bytes() - before
    assert answer.status_code == 413, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json().get("setting") in (None, "ODF_NODE_READER_MEMORY_BYTES")
    assert grown < 20 * MIB  # of 100


def test_a_tail_within_its_budget_comes_whole(node):
    with node.http() as client:
        answer = client.get("/wide/tail?limit=3")
    assert answer.status_code == 200, answer.text
    assert [len(row["city"]) for row in answer.json()["data"]] == [MIB] * 3
    assert int(answer.headers["content-length"]) == len(answer.content)


def test_a_page_shows_that_rows_are_too_long_for_it(node):
    with node.http() as client:
        answer = client.get("/wide", headers={"accept": "text/html"})
    assert answer.status_code == 200
    assert "ask for fewer" in answer.text


def test_a_reader_that_needs_more_memory_than_it_may_is_told(node):
    """The state of a dataset is kept in memory by key; here a cell is all it takes."""
    with node.http() as client:
        answer = client.get("/cell/read")
        assert (answer.status_code, answer.json()["setting"]) == (
            413,
            "ODF_NODE_READER_MEMORY_BYTES",
        )
        assert client.get("/long/read?limit=2").status_code == 200


def test_a_read_breaks_off_at_its_budget(node):
    received: list[bytes] = []
    client, cut = node.http(), pytest.raises(httpx.RemoteProtocolError)
    with client, client.stream("GET", "/long/read") as answer, cut:
        received.extend(answer.iter_raw())
    assert READ_BYTES / 2 < sum(map(len, received)) <= READ_BYTES


def test_a_long_answer_costs_the_service_no_memory(node):
    with node.http() as client:
        client.get("/long/tail?limit=1")
        before, most, received = memory_bytes(), 0, 0
        with client.stream("GET", "/long/read?columns=offset,city&format=csv") as answer:
            for piece in answer.iter_raw():
                received += len(piece)
                most = max(most, memory_bytes())
    assert received > 5 * MIB
    assert most - before < 30 * MIB


@pytest.fixture
def received(monkeypatch):
    """Lengths of the pieces that the service took from readers."""
    found, piece = [], pool.ReaderAnswer._piece

    async def noted(answer):
        taken = await piece(answer)
        found.append(len(taken or b""))
        return taken

    monkeypatch.setattr(pool.ReaderAnswer, "_piece", noted)
    return found


@pytest.mark.parametrize("form", [form.value for form in Format if form is not Format.GEOPARQUET])
def test_a_short_answer_says_its_length_before_it_comes(node, form):
    asked = f"/long/read?limit=1000&format={form}"
    with node.http() as client:
        shown, answer = client.head(asked), client.get(asked)
    assert 1000 < len(answer.content) < MIB
    for one in (shown, answer):
        assert int(one.headers["content-length"]) == len(answer.content)
    assert shown.content == b""


ONE_ROW = "offset\r\n0\r\n"


@pytest.mark.parametrize(
    ("held_bytes", "held_s", "has_length"),
    [(len(ONE_ROW), 60, True), (len(ONE_ROW) - 1, 60, False), (len(ONE_ROW), 0, False)],
)
def test_which_answers_say_their_length_is_a_setting(tmp_path, held_bytes, held_s, has_length):
    asked = "/foo/read?columns=offset&format=csv"
    with serving(tmp_path, read_held_bytes=held_bytes, read_held_s=held_s) as node:
        node.keep(slice_of(pa.array(["a"])), "kamu/foo")
        with node.http() as client:
            answer = client.get(asked)
    assert answer.text == ONE_ROW
    assert ("content-length" in answer.headers) == has_length


def test_rows_that_nobody_asked_for_are_not_read_for_their_headers(node, received):
    with node.http() as client:
        answer = client.head("/long/read?format=csv&columns=offset,city")
        assert client.head("/long/tail?limit=3").status_code == 200
        assert client.head("/long/read?columns=mayor").status_code == 400
    assert (answer.status_code, answer.headers["content-type"][:8]) == (200, "text/csv")
    assert "odf-block" in answer.headers
    assert "content-length" not in answer.headers
    assert MIB < sum(received) < 4 * MIB  # of 8
    wait_until(only_those_that_wait, "the reader's end")


def test_slices_of_single_rows_are_few_row_groups_of_a_parquet_answer(node):
    single = TableMade(node.node.stores, "kamu/single", ITEMS, visibility=Visibility.PUBLIC)
    single.add_blocks([[item(at)] for at in range(2 * JOINED_BATCHES + 1)])
    with node.http() as client:
        answer = client.get("/single/read?format=parquet")
    file = pq.ParquetFile(io.BytesIO(answer.content))
    groups = [file.metadata.row_group(at).num_rows for at in range(file.num_row_groups)]
    assert groups == [JOINED_BATCHES, JOINED_BATCHES, 1]
    assert file.read().column("offset").to_pylist() == list(range(2 * JOINED_BATCHES + 1))


@pytest.mark.parametrize("limit", [1000, 600_000])
@pytest.mark.parametrize("form", ["csv", "parquet"])
def test_duckdb_reads_rows_by_their_address_and_they_are_computed_once(node, received, form, limit):
    import duckdb
    import duckdb_extension_httpfs

    extension = next(Path(duckdb_extension_httpfs.__file__).parent.rglob("*.duckdb_extension"))
    url = f"{node.url}/long/read?format={form}&columns=offset,city&limit={limit}"
    with node.http() as client:
        length = len(client.get(url).content)
    received.clear()
    with duckdb.connect() as db:
        db.load_extension(str(extension))
        query = f'select count(*), max("offset") from read_{form}(?)'
        assert db.execute(query, [url]).fetchone() == (limit, limit - 1)
    assert length <= sum(received) < length + 2 * MIB


def test_a_reader_that_is_silent_for_too_long_is_ended(tmp_path):
    with serving(tmp_path, reader_silent_s=0.0001) as node, node.http() as client:
        node.keep(slice_of(pa.array(["a"])), "kamu/foo")
        for path in ("tail", "read"):
            answer = client.get(f"/foo/{path}")
            assert answer.status_code == 503
            assert answer.json()["setting"] == "ODF_NODE_READER_SILENT_S"


def test_a_client_that_leaves_ends_its_reader(node):
    with node.http() as client, client.stream("GET", "/long/read") as answer:
        pieces = answer.iter_raw()
        next(pieces)
        assert not only_those_that_wait()
    wait_until(only_those_that_wait, "the reader's end")


def test_a_client_that_takes_nothing_ends_its_reader(tmp_path):
    # compressed, all of the rows would lie in the buffers of the connection
    limits = {"client_idle_s": 0.3, "compress_from_bytes": 0}
    with serving(tmp_path, **limits) as node, node.http() as client:
        node.keep(slice_of(pa.array([f"c{n}" for n in range(600_000)])), "kamu/long")
        with client.stream("GET", "/long/read") as answer:
            pieces = answer.iter_raw()
            next(pieces)
            wait_until(only_those_that_wait, "the reader's end")
            with pytest.raises(httpx.RemoteProtocolError):
                list(pieces)


def test_a_reader_or_the_nursery_that_dies_is_replaced(node):
    with node.http() as client:
        with client.stream("GET", "/long/read") as answer:
            pieces = answer.iter_raw()
            next(pieces)
            for pid in readers():
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            with pytest.raises(httpx.RemoteProtocolError):
                list(pieces)
        assert client.get("/long/tail?limit=1").status_code == 200
        nursery = pool.NURSERY._process
        nursery.kill()
        nursery.wait(90)
        assert client.get("/long/tail?limit=1").status_code == 200
        assert pool.NURSERY.pid != nursery.pid


def test_a_lost_slice_is_said_before_the_first_row_of_a_long_answer(tmp_path, monkeypatch):
    monkeypatch.setattr(pool, "READ_HELD_BYTES", 0)
    chain = slice_of(pa.array([f"c{n}" for n in range(200_000)])).add_rows(3)
    *_, last = [name for kind, name in chain.objects if kind is ObjectKind.DATA]
    with serving(tmp_path / "node") as node, node.http() as client:
        entry = node.keep(chain, "kamu/city")
        node.node.stores.objects.delete(ObjectKey(entry.id, ObjectKind.DATA, last))
        answer = client.get("/city/read?projection=changelog")
    assert (answer.status_code, answer.json()["hash"]) == (500, str(last))


def test_one_caller_has_a_share_of_the_readers(node):
    with ExitStack() as held, node.http() as nobody, node.http(node.token()) as alice:

        def hold(client: httpx.Client) -> None:
            answer = held.enter_context(client.stream("GET", "/long/read"))
            begun.append(answer.iter_raw())
            next(begun[-1])

        begun: list[Iterator[bytes]] = []
        hold(nobody)
        hold(nobody)
        refused = nobody.get("/long/read?limit=1")
        assert (refused.status_code, refused.headers["retry-after"]) == (429, "5")
        assert refused.headers["ratelimit"] == '"ShareTaken";r=0;t=5'
        assert refused.headers["ratelimit-policy"].endswith(';qu="concurrent-requests"')
        assert refused.json()["setting"] == "ODF_NODE_SHARE"
        assert nobody.get("/long/tail?limit=1").status_code == 200  # tails have turns of their own
        assert alice.get("/long/read?limit=1").status_code == 200
        hold(alice)
        refused = alice.get("/long/read?limit=1")
        assert refused.status_code == 503
        assert refused.json()["setting"] == "ODF_NODE_READERS"
    deadline = time.monotonic() + 90
    with node.http() as nobody:
        while nobody.get("/long/read?limit=1").status_code != 200:
            assert time.monotonic() < deadline


def test_a_reader_holds_no_secret_and_no_file_of_the_node(node, monkeypatch):
    monkeypatch.setenv("ODF_STORE_SECRETS_KEYS", "a-canary")
    pool.NURSERY.stop()
    with node.http() as client, client.stream("GET", "/long/read") as answer:
        pieces = answer.iter_raw()
        next(pieces)
        for pid in readers():
            assert b"ODF_" not in Path(f"/proc/{pid}/environ").read_bytes()
            opened = {str(each.readlink()) for each in Path(f"/proc/{pid}/fd").iterdir()}
            ours = {place for place in opened if str(node.node.settings.data) in place}
            assert all("/data/f1620" in place for place in ours), ours
