"""Changelogs whose rows lack event times: what is stored of random histories is what a second
implementation in plain Python says.

`ODF_TEST_CHANGELOGS` is how many histories are played.
"""

from __future__ import annotations

import os
import random
from collections import Counter
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from refusals import refusing
from tests.workers.datasets import bench_without_engine, created, ndjson, upload
from throwaway import throwaway_stores, throwing_away

from odf_protocol.chain.state import Vocab
from odf_protocol.codec.manifests import from_data
from odf_protocol.instant import Instant
from odf_protocol.metadata.attributes import Attributes
from odf_protocol.metadata.events import AddPushSource
from odf_protocol.metadata.schema import DataSchema
from odf_protocol.metadata.sources import MergeStrategyChangelogStream, ReadStepNdJson
from odf_protocol.multihash import Multihash
from odf_storage.datasets.dataset.dataset import Dataset
from odf_storage.datasets.read.rows import Projection, project
from odf_storage.stores.ports.values import ObjectKind
from odf_workers.jobs.ingest.run import run_ingest

HISTORIES = int(os.environ.get("ODF_TEST_CHANGELOGS", "40"))
pytestmark = pytest.mark.timeout(900 + 2 * HISTORIES)
ADD, RETRACT, FROM, TO = range(4)
BEGIN = datetime(2050, 1, 1, tzinfo=UTC)
DAY = timedelta(days=1)
Row = dict[str, Any]
COLUMNS = [
    {"name": "op", "type": "Int32"},
    {"name": "k", "type": "Int64"},
    {"name": "v", "type": {"kind": "Option", "inner": "Int64"}},
]


@dataclass
class Ledger:
    """The second implementation: what stands, every row that was written, and the watermark."""

    days: bool
    rows: list[Row] = field(default_factory=list)
    stands: dict[int, Row] = field(default_factory=dict)
    watermark: datetime | None = None

    def post(self, rows: list[Row], fallback: datetime, now: datetime) -> Counter[int] | None:
        """Rows by operation; None if the post is refused."""
        stands, done = dict(self.stands), []
        for row in sorted(rows, key=lambda row: row["k"]):
            old = stands.get(row["k"])
            at = row["at"]
            if row["op"] in (RETRACT, FROM):
                if old is None or old["v"] != row["v"]:
                    return None
                if at is not None and self.stored(at) != old["at"]:
                    return None
                at = old["at"]
            done.append({**row, "at": self.stored(at or fallback)})
            if row["op"] == RETRACT:
                del stands[row["k"]]
            else:
                stands[row["k"]] = done[-1]
        times = [row["at"] for row in done if row["at"] <= now + DAY]
        known = [time for time in (self.watermark, *times) if time is not None]
        self.rows, self.stands, self.watermark = self.rows + done, stands, max(known, default=None)
        return Counter(row["op"] for row in done)

    def stored(self, time: datetime) -> datetime:
        return datetime(time.year, time.month, time.day, tzinfo=UTC) if self.days else time


def posts_of(chance: random.Random, ledger: Ledger) -> list[Row]:
    """Rows that mostly are a right continuation, many of them without a time."""
    stands: dict[int, Row] = {key: {**row} for key, row in ledger.stands.items()}
    rows: list[Row] = []
    for _ in range(chance.choice([0, 1, 3, 8])):
        key, value = chance.randrange(5), chance.choice([None, 1, 2, 3])
        old = stands.get(key)
        if old is None or chance.random() < 0.2:
            rows.append({"op": ADD, "k": key, "v": value, "at": time_of(chance)})
        else:
            at = None if chance.random() < 0.7 else old["at"]
            back = {"op": RETRACT, "k": key, "v": old["v"], "at": at}
            if chance.random() < 0.03:
                back["v"] = 9
            if chance.random() < 0.03:
                back["at"] = BEGIN - 999 * DAY
            if chance.random() < 0.5:
                rows.append({**back, "op": FROM})
                rows.append({"op": TO, "k": key, "v": value, "at": time_of(chance)})
            else:
                rows.append(back)
                del stands[key]
                continue
        stands[key] = rows[-1]
    return rows


def time_of(chance: random.Random) -> datetime | None:
    if chance.random() < 0.4:
        return None
    if chance.random() < 0.05:
        return datetime(2099, 1, 1, tzinfo=UTC)
    return BEGIN + timedelta(hours=chance.randrange(-100, 100))


def source(*, days: bool) -> AddPushSource:
    kind = "Date" if days else "Timestamp"
    time = {"name": "event_time", "type": {"kind": "Option", "inner": kind}}
    schema = from_data({"fields": [time, *COLUMNS]}, DataSchema)
    return AddPushSource(
        source_name="default",
        read=ReadStepNdJson(schema=schema),
        merge=MergeStrategyChangelogStream(primary_key=("k",)),
    )


def written(dataset: Dataset, receipt: Any) -> list[Row]:
    rows = []
    for each in receipt.slices:
        with dataset.open_object(ObjectKind.DATA, Multihash.parse(each.physical_hash)) as stream:
            rows += map(told, pq.read_table(stream).to_pylist())
    return rows


def told(row: Row) -> Row:
    time = row["event_time"]
    if isinstance(time, datetime):
        time = time.astimezone(UTC)
    else:
        time = datetime(time.year, time.month, time.day, tzinfo=UTC)
    return {"op": row["op"], "k": row["k"], "v": row["v"], "at": time}


def text_of(time: datetime | None, *, days: bool) -> str | None:
    if time is None:
        return None
    return time.date().isoformat() if days else time.isoformat()


def at(time: datetime) -> Instant:
    return Instant.parse(time.isoformat())


def instant(text: str | None) -> datetime | None:
    return None if text is None else datetime.fromisoformat(text)


def facts(rows: list[Row]) -> list[Row]:
    table = pa.table(
        {
            "offset": pa.array(range(len(rows)), pa.int64()),
            "op": pa.array([row["op"] for row in rows], pa.int32()),
            "event_time": pa.array([row["at"] for row in rows], pa.timestamp("ms", "UTC")),
            "k": pa.array([row["k"] for row in rows], pa.int64()),
            "v": pa.array([row["v"] for row in rows], pa.int64()),
        }
    )

    def scan(columns: Any, offsets: Any) -> Any:
        found = table if columns is None else table.select(list(columns))
        found = found if offsets is None else found.take(pa.array(offsets))
        yield from found.to_batches()

    batches = list(project(scan, Vocab(), Projection.FACTS))
    return [told(row) for batch in batches for row in batch.to_pylist()]


def in_order(rows: Any) -> list[str]:
    return sorted(str([row["k"], row["at"], row["v"]]) for row in rows)


def test_random_changelogs_without_times_are_what_a_second_implementation_says(
    tmp_path: Path,
) -> None:
    seen: Counter[str] = Counter()
    for seed in range(HISTORIES):
        chance = random.Random(seed)
        ledger, stored = Ledger(days=chance.random() < 0.3), list[Row]()
        with throwing_away():
            stores = throwaway_stores()
            folder = tmp_path / str(seed)
            folder.mkdir()
            bench = bench_without_engine(stores, folder, watermark_ahead_s=86_400)
            dataset = created(stores, source=source(days=ledger.days))
            now = BEGIN
            for number in range(chance.randrange(3, 9)):
                now += timedelta(hours=chance.choice([0, 1, 30]))
                fallback = chance.choice([now, now, BEGIN - 40 * DAY, now + 400 * DAY])
                rows = posts_of(chance, ledger)
                if number == 0 and not rows:
                    rows = [{"op": ADD, "k": 0, "v": 1, "at": None}]
                body = ndjson(
                    [
                        {
                            "op": row["op"],
                            "k": row["k"],
                            "v": row["v"],
                            "event_time": text_of(row["at"], days=ledger.days),
                        }
                        for row in rows
                    ]
                )
                payload = msgspec.structs.replace(
                    upload(stores, dataset, body), source_event_time=fallback.isoformat()
                )
                wanted = ledger.post(rows, fallback, now)
                if wanted is None:
                    with refusing("NotWhatStands"):
                        run_ingest(dataset, payload, bench, now=at(now))
                    seen["refused"] += 1
                    continue
                receipt = run_ingest(dataset, payload, bench, now=at(now))
                seen.update(f"op {code}" for code in wanted)
                seen["without a time"] += sum(row["at"] is None for row in rows)
                seen["warned"] += bool(receipt.warnings)
                new = written(dataset, receipt)
                stored += new
                assert new == ledger.rows[len(ledger.rows) - len(rows) :]
                assert instant(receipt.watermark) == ledger.watermark
                assert (
                    receipt.rows_read,
                    receipt.rows_added,
                    receipt.rows_retracted,
                    receipt.rows_corrected,
                    receipt.rows_known,
                ) == (len(rows), wanted[ADD], wanted[RETRACT], wanted[TO], 0)
        sums: Counter[Any] = Counter()
        for row in stored:
            sign = -1 if row["op"] in (RETRACT, FROM) else 1
            sums[row["at"].date()] += sign * (row["v"] or 0)
        standing = replaced(stored)
        assert in_order(facts(stored)) == in_order(standing)
        assert {day: total for day, total in sums.items() if total} == dict(windows_of(standing))
    assert min(seen[f"op {code}"] for code in range(4)) > HISTORIES / 2
    assert seen["without a time"] > HISTORIES
    assert seen["refused"] < HISTORIES
    assert min(seen["refused"], seen["warned"]) > 0


def replaced(rows: list[Row]) -> list[Row]:
    """The rows that were added and not taken back, whatever their key."""
    left: list[Row] = []
    for row in rows:
        if row["op"] in (ADD, TO):
            left.append(row)
            continue
        gone = {"k": row["k"], "v": row["v"], "at": row["at"]}
        same = [n for n, each in enumerate(left) if all(each[k] == v for k, v in gone.items())]
        del left[same[-1]]
    return left


def windows_of(rows: list[Row]) -> Counter[Any]:
    sums: Counter[Any] = Counter()
    for row in rows:
        sums[row["at"].date()] += row["v"] or 0
    return +sums


@pytest.mark.parametrize("asked", [0, 3600, None])
def test_a_source_says_how_far_ahead_of_the_clock_times_move_the_watermark(
    tmp_path: Path, asked: int | None
) -> None:
    stores = throwaway_stores()
    bench = bench_without_engine(stores, tmp_path, watermark_ahead_s=86_400)
    given = source(days=False)
    if asked is not None:
        extra = Attributes.of({"odf-node/watermarkAheadSeconds": asked})
        schema = msgspec.structs.replace(given.read.schema, extra=extra)  # type: ignore[union-attr]
        given = msgspec.structs.replace(given, read=ReadStepNdJson(schema=schema))
    dataset = created(stores, source=given)
    times = ["2049-12-31T00:00:00Z", "2050-01-01T00:30:00Z", "2050-01-01T20:00:00Z"]
    times += ["2050-01-03T00:00:00Z", "2099-01-01T00:00:00Z"]
    rows = [{"op": 0, "k": n, "v": 1, "event_time": at} for n, at in enumerate(times)]
    payload = upload(stores, dataset, ndjson(rows))
    receipt = run_ingest(dataset, payload, bench, now=Instant.parse("2050-01-01T00:00:00Z"))
    moved = {0: 0, 3600: 1, None: 2}[asked]
    assert receipt.watermark == times[moved]
    assert receipt.rows_added == 5
    (warning,) = receipt.warnings
    assert warning.startswith(
        f"{4 - moved} rows have event times too far ahead of the clock, up to"
    )
    assert "2099-01-01T00:00:00Z: they are stored, and do not move the watermark" in warning
