"""Real flights through `examples/flights`: posted month by month, joined with weather, summed up by
day, ranked by week, one flight corrected late; and all of it once more on another node.

    python tests/workers/transform/flights.py        (`make pipeline`: all of the examples)
"""

from __future__ import annotations

import argparse
import csv
import gzip
import io
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest import mock

from service import Service, serving
from tests.workers.datasets import ingest_options, now, submit
from tests.workers.derivatives import read
from tests.workers.transform.manifests import EXAMPLES, made

from odf_node.client.nodes.remotes import Location
from odf_node.client.transfer import sync
from odf_protocol.identity import DatasetRef
from odf_protocol.metadata.events import ExecuteTransform
from odf_storage.datasets.dataset.dataset import Dataset
from odf_storage.datasets.job_payloads.transform_job import TransformPayload, TransformReceipt
from odf_storage.datasets.node.stores import Stores
from odf_storage.stores.ports.values import ObjectKey, ObjectKind, Succeeded, Visibility
from odf_workers.slices.schema import Operation

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MONTHS = ("2013-01", "2013-02", "2013-03")
DERIVED = ("flights-weather", "carrier-delays", "top-routes")
INPUTS = ("flights", "weather")
FIRST_PLACES = 10
Row = dict[str, str]
Key = tuple[str, str, str]


@dataclass(frozen=True, kw_only=True)
class Tables:
    """What is posted: flights by month, and weather."""

    months: Sequence[Sequence[Row]]
    weather: Sequence[Row]


def tables(names: Sequence[str] = MONTHS, *, every: int = 1) -> Tables:
    """Of the examples; every so manieth flight, and the last of each month."""
    months = []
    for month in names:
        rows = _rows(EXAMPLES / "flights" / f"{month}.csv.gz")
        months.append([*rows[:-1:every], rows[-1]])
    weather = _rows(EXAMPLES / "weather" / "weather.csv.gz")
    first, last = months[0][0]["time_hour"], max(row["time_hour"] for row in months[-1])
    hours = [row for row in weather if first <= row["time_hour"] <= last]
    after = next(row for row in weather if row["time_hour"] > last)
    return Tables(months=months, weather=[*hours, after])


def _rows(path: Path) -> list[Row]:
    with gzip.open(path, "rt") as lines:
        return list(csv.DictReader(lines))


def as_csv(rows: Sequence[Row]) -> bytes:
    text = io.StringIO()
    writer = csv.DictWriter(text, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue().encode()


# --- the same in plain Python ------------------------------------------------------------------


def key_of(flight: Row) -> Key:
    return flight["time_hour"], flight["carrier"], flight["flight"]


def hour_of(flight: Row) -> datetime:
    return datetime.fromisoformat(flight["time_hour"])


def week_of(flight: Row) -> datetime:
    day = hour_of(flight).replace(hour=0)
    return day - timedelta(days=day.weekday())


def class_of(weather: Row | None) -> str:
    if weather is None:
        return "unknown"
    if float(weather["visib"]) < 3:
        return "fog"
    if weather["precip"] != "NA" and float(weather["precip"]) > 0:
        return "rain"
    windy = weather["wind_speed"] != "NA" and float(weather["wind_speed"]) >= 20
    return "wind" if windy else "fair"


@dataclass(frozen=True, kw_only=True)
class Expected:
    """What the pipeline is to hold for these flights, as of a watermark."""

    flights: Mapping[Key, Row]
    weather: Mapping[tuple[str, str], Row]
    watermark: datetime

    def joined(self) -> Iterator[tuple[Row, str]]:
        for flight in self.flights.values():
            yield flight, class_of(self.weather.get((flight["origin"], flight["time_hour"])))

    def of(self, name: str) -> Counter[tuple[Any, ...]]:
        """Rows of a derivative, as `state_of` gives them."""
        if name == "flights-weather":
            return Counter(
                (hour_of(f), f["carrier"], int(f["flight"]), f["dest"], _delay(f), weather)
                for f, weather in self.joined()
            )
        return Counter(self._delays() if name == "carrier-delays" else self.routes())

    def _delays(self) -> Iterator[tuple[Any, ...]]:
        groups: dict[tuple[datetime, str, str], list[int | None]] = {}
        for flight, weather in self.joined():
            day = hour_of(flight).replace(hour=0)
            groups.setdefault((day, flight["carrier"], weather), []).append(_delay(flight))
        for (day, carrier, weather), delays in groups.items():
            if day + timedelta(days=1) <= self.watermark:
                left = [delay for delay in delays if delay is not None]
                late = sum(left) if left else None
                yield day, carrier, weather, len(delays), len(left), late

    def routes(self) -> Iterator[tuple[Any, ...]]:
        weeks: dict[datetime, Counter[tuple[str, str]]] = {}
        for flight in self.flights.values():
            route = flight["origin"], flight["dest"]
            weeks.setdefault(week_of(flight), Counter())[route] += 1
        for week, routes in weeks.items():
            if week + timedelta(days=7) <= self.watermark:
                ranked = sorted(routes, key=lambda route: (-routes[route], route))
                for place, route in enumerate(ranked[:FIRST_PLACES], 1):
                    yield week, place, *route, routes[route]


def _delay(flight: Row) -> int | None:
    return None if flight["dep_delay"] == "NA" else int(flight["dep_delay"])


COLUMNS = {
    "flights-weather": ("event_time", "carrier", "flight", "dest", "dep_delay", "weather"),
    "carrier-delays": (
        *("event_time", "carrier", "weather"),
        *("flights", "departed", "minutes_late"),
    ),
    "top-routes": ("event_time", "place", "origin", "dest", "flights"),
}


def state_of(stores: Stores, name: str) -> Counter[tuple[Any, ...]]:
    """What a changelog comes to: rows that stand, each with how often it does."""
    found: Counter[tuple[Any, ...]] = Counter()
    for row in read(stores, dataset_of(stores, name)):
        gone = row["op"] in (Operation.RETRACT, Operation.CORRECT_FROM)
        found[tuple(row[column] for column in COLUMNS[name])] += -1 if gone else 1
    assert min(found.values()) >= 0, "something was retracted that never was"
    return +found


# --- the play ----------------------------------------------------------------------------------


@dataclass(kw_only=True)
class Played:
    """What came of it: rows, executions and seconds of each step; what was made again."""

    rows: dict[str, int] = field(default_factory=dict)
    corrections: dict[str, int] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
    same: dict[str, int] = field(default_factory=dict)
    """Executions that the second node made again, byte for byte."""


def play(folder: Path, spark: SparkSession, given: Tables, *, partitions: int) -> Played:
    """Everything, on two nodes below `folder`; the second cuts its work into so many parts."""
    played = Played()
    with serving(folder / "first", follow_inputs=False) as first:
        stores = first.node.stores
        with bench_on(stores, spark, folder / "first-work", None) as bench:
            _make(stores)
            _post(stores, bench, "weather", given.weather)
            flights: dict[Key, Row] = {}
            for number, month in enumerate(given.months, 1):
                began = time.monotonic()
                _post(stores, bench, "flights", month)
                flights |= {key_of(row): row for row in month}
                _derive(stores, bench)
                played.seconds[f"month {number}"] = round(time.monotonic() - began, 1)
                _check(stores, flights, given)
            corrected = correction(_expected(stores, flights, given))
            _post(stores, bench, "flights", [corrected])
            receipts = _derive(stores, bench)
            _check(stores, flights | {key_of(corrected): corrected}, given)
        for name, receipt in receipts.items():
            played.corrections[name] = receipt.rows_corrected + receipt.rows_retracted
        played.rows = {name: dataset_of(stores, name).state().num_records for name in DERIVED}
        with serving(folder / "second", follow_inputs=False) as second:
            _pull_inputs(first, second, folder / "pulled")
            began = time.monotonic()
            ours = second.node.stores
            with bench_on(ours, spark, folder / "second-work", partitions) as bench:
                for name in DERIVED:
                    played.same[name] = rebuild(dataset_of(stores, name), ours, bench)
            played.seconds["again"] = round(time.monotonic() - began, 1)
    return played


def _make(stores: Stores) -> None:
    for path in ("weather/weather", "flights/flights", *(f"flights/{name}" for name in DERIVED)):
        dataset = made(stores, EXAMPLES / f"{path}.yaml")
        stores.set_visibility(dataset.id, Visibility.PUBLIC)


def _post(stores: Stores, bench: Any, name: str, rows: Sequence[Row]) -> None:
    from odf_workers.program.loop import Worker

    job = submit(stores, dataset_of(stores, name), as_csv(rows))
    lease = timedelta(seconds=600)
    worker = Worker(stores=stores, context=bench, name="here", lease=lease, longest_pause_s=0.1)
    worker.work(once=True)
    outcome = stores.jobs.get(job).outcome
    assert isinstance(outcome, Succeeded), outcome


def _derive(stores: Stores, bench: Any) -> dict[str, TransformReceipt]:
    from odf_workers.jobs.transform.run import run_transform

    receipts = {}
    for name in DERIVED:
        dataset = dataset_of(stores, name)
        receipts[name] = run_transform(stores, dataset, TransformPayload(), bench, now=now())
        assert receipts[name].outcome == "updated"
        assert not receipts[name].warnings
    return receipts


def _expected(stores: Stores, flights: dict[Key, Row], given: Tables) -> Expected:
    weather = {(row["origin"], row["time_hour"]): row for row in given.weather}
    mark = dataset_of(stores, "flights-weather").state().watermark
    assert mark is not None
    watermark = datetime.fromtimestamp(mark.ns / 1e9, UTC)
    return Expected(flights=flights, weather=weather, watermark=watermark)


def _check(stores: Stores, flights: dict[Key, Row], given: Tables) -> None:
    """Every derivative holds what plain Python makes of the same rows."""
    expected = _expected(stores, flights, given)
    for name in DERIVED:
        wanted, found = expected.of(name), state_of(stores, name)
        assert wanted, f"{name} is to hold something"
        assert found == wanted, f"{name}: {list((found - wanted).items())[:3]} instead of " + str(
            list((wanted - found).items())[:3]
        )


def correction(expected: Expected) -> Row:
    """The newest flight of the last week that is over, on one of its first routes, went elsewhere
    and late."""
    week = max(row[0] for row in expected.routes())
    first = {row[2:4] for row in expected.routes() if row[0] == week}
    flight = max(
        (
            flight
            for flight in expected.flights.values()
            if week_of(flight) == week and (flight["origin"], flight["dest"]) in first
        ),
        key=key_of,
    )
    return {**flight, "dest": "ANC", "dep_delay": "777"}


def _pull_inputs(first: Service, second: Service, folder: Path) -> None:
    """Roots only, by the protocols; nothing of what was derived."""
    for name in INPUTS:
        here = Location.parse(str(folder / name))
        sync.pull(Location.parse(f"odf+{first.url}/{name}"), here)
        there = Location.parse(f"odf+{second.url}/{name}")
        sync.push(here, there, token=second.token(), visibility=Visibility.PUBLIC)


def rebuild(theirs: Dataset, stores: Stores, bench: Any) -> int:
    """The chain of a derivative on another node, on objects that this one computed itself.

    A commit takes a block only with the very objects it names. How many executions there are.
    """
    blocks, count = theirs.blocks(), 0
    at = next(n for n, block in enumerate(blocks) if isinstance(block.event, ExecuteTransform))
    ours = stores.create_dataset(theirs.entry, blocks[:at])
    for block in blocks[at:]:
        event = block.event
        if isinstance(event, ExecuteTransform):
            _compute(stores, ours, block, event, bench)
            count += 1
        ours.commit([block], expected=ours.head())
    assert ours.head() == theirs.head()
    return count


def _compute(
    stores: Stores, ours: Dataset, block: Any, event: ExecuteTransform, bench: Any
) -> None:
    from odf_workers.jobs.transform.iteration import checkpoint_file, execute
    from odf_workers.jobs.transform.replay import recorded_plan
    from odf_workers.jobs.transform.run import input_files

    plan, inputs = recorded_plan(stores, ours.state(), block, event)
    with tempfile.TemporaryDirectory(dir=bench.scratch) as name:
        files = input_files(Path(name), bench.scratch, bench.transforms)
        done = execute(
            ours,
            plan,
            inputs,
            bench.engines.first,
            files,
            Path(name) / "out",
            bench.job_progress,
            checkpoint=checkpoint_file(ours, plan, files),
        )
        found = plan.event(
            data=done.made.data,
            checkpoint=done.made.checkpoint,
            watermark=done.response.new_watermark,
        )
        if event.new_data is not None:
            assert found.new_data is not None
            assert found.new_data.logical_hash == event.new_data.logical_hash
        assert found == event, f"{ours.entry.alias}: block {block.sequence_number} differs"
        for kind, part, path in (
            (ObjectKind.DATA, found.new_data, done.made.data_path),
            (ObjectKind.CHECKPOINT, found.new_checkpoint, done.made.checkpoint_path),
        ):
            if part is not None:
                key = ObjectKey(ours.id, kind, part.physical_hash)
                stores.objects.put(key, [path.read_bytes()])


def dataset_of(stores: Stores, name: str) -> Dataset:
    return stores.dataset(DatasetRef.parse(f"kamu/{name}"))


@contextmanager
def bench_on(
    stores: Stores, spark: SparkSession, scratch: Path, partitions: int | None
) -> Iterator[Any]:
    """A worker's bench; with a number, Spark cuts every input and shuffle into so many parts."""
    from odf_workers.engines.spark_engine import transform as spark_state
    from odf_workers.engines.spark_engine.engine import SparkEngine
    from odf_workers.jobs.work.context import Engines, WorkerContext

    scratch.mkdir()
    names = (
        "spark.sql.files.minPartitionNum",
        "spark.sql.shuffle.partitions",
        "spark.sql.leafNodeDefaultParallelism",
    )
    settings = {} if partitions is None else dict.fromkeys(names, str(partitions))
    engine = SparkEngine(spark, settings=settings)
    cut = partial(spark_state.run, partitions=partitions)
    with mock.patch.object(spark_state, "run", cut):
        yield WorkerContext(
            engines=Engines(session=spark, first=engine),
            objects=stores.objects,
            scratch=scratch,
            ingest=ingest_options(scratch),
        )


def main() -> None:
    from odf_workers.engines.spark.session import SparkOptions, start_spark

    words = argparse.ArgumentParser(description="The flights pipeline in full.")
    words.add_argument("--every", type=int, default=1, help="every so manieth flight")
    words.add_argument("--partitions", type=int, default=7, help="of the second node")
    asked = words.parse_args()
    with tempfile.TemporaryDirectory(prefix="odf-pipeline-") as name:
        folder = Path(name)
        spark = start_spark(SparkOptions(scratch=folder))
        given = tables(every=asked.every)
        print(f"{sum(map(len, given.months))} flights, {len(given.weather)} hours of weather")
        print(play(folder, spark, given, partitions=asked.partitions))
        spark.stop()


if __name__ == "__main__":
    main()
