"""A poll takes equal bytes once, whatever the server says of them, and tells of files that wait."""

from __future__ import annotations

import io
import os
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace as replace_fields
from refusals import refusing
from tests.workers.datasets import bench_without_engine, created, now
from throwaway import throwaway_stores
from web_server import Answer, Asked, web_server

from odf_protocol.chain.rules import author
from odf_protocol.instant import Instant
from odf_protocol.metadata.events import AddData, SetPollingSource
from odf_protocol.metadata.sources import (
    CompressionFormat,
    EventTimeSourceFromPath,
    FetchStepFilesGlob,
    FetchStepUrl,
    MergeStrategyAppend,
    MergeStrategyLedger,
    MergeStrategySnapshot,
    PrepStep,
    PrepStepDecompress,
    ReadStepCsv,
    ReadStepNdJson,
)
from odf_protocol.multihash import Multihash
from odf_protocol.sources.source_marks import (
    ADDRESS_KEY,
    FILES_KEY,
    FORGOTTEN_KEY,
    address_mark,
    marks_of,
    merged_marks,
)
from odf_storage.datasets.dataset.dataset import Dataset
from odf_storage.datasets.job_payloads.poll_job import PollPayload, PollReceipt
from odf_storage.datasets.rewrite.compact import reset, set_watermark
from odf_storage.datasets.rewrite.compaction import Merge, merged_event
from odf_workers.fetch.values import FetchRules
from odf_workers.jobs.sources.poll import run_poll
from odf_workers.jobs.work.context import PollOptions, WorkerContext

ROWS = b'{"n": 1}\n{"n": 2}\n'
CASES = Path(__file__).parents[1] / "vectors" / "cases"


class Polled:
    """A dataset that polls, and a worker that does it."""

    def __init__(
        self,
        folder: Path,
        fetch: Any,
        merge: Any = None,
        read: Any = None,
        prepare: tuple[PrepStep, ...] = (),
    ) -> None:
        self.stores, self.folder = throwaway_stores(), folder
        self.variables: dict[str, str] = {}
        self.source = SetPollingSource(
            fetch=fetch,
            prepare=prepare or None,
            read=read or ReadStepNdJson(),
            merge=merge or MergeStrategyAppend(),
        )
        self.dataset: Dataset = created(self.stores, source=self.source)
        self.bench = self.worker()

    def worker(self) -> WorkerContext:
        rules = FetchRules(
            networks=("127.0.0.0/8",),
            roots=(self.folder,),
            resolve=lambda host, port: ["127.0.0.1"],
            variables=self.variables,
            mark_key=b"key",
        )
        bench = bench_without_engine(self.stores, self.folder)
        return replace(bench, polls=PollOptions(fetch=rules))

    def redefine(self, **fields: Any) -> None:
        source = replace_fields(self.source, **fields)
        state = self.dataset.state()
        blocks, _ = author(state, [source], system_time=now())
        self.dataset.commit(blocks, expected=state.head)

    def poll(self, **asked: Any) -> PollReceipt:
        return run_poll(self.dataset, PollPayload(**asked), self.bench, now=now())


@pytest.mark.parametrize(
    "validators",
    [
        lambda n: {"ETag": '"x"'},
        lambda n: {"ETag": f'"{n}"'},
        lambda n: {"Last-Modified": "Thu, 01 Jan 2026 00:00:00 GMT"},
        lambda n: {"Last-Modified": f"Thu, 01 Jan 2026 00:00:0{n} GMT"},
        lambda n: {"ETag": '"x"'} if n % 2 else {"Last-Modified": "Thu, 01 Jan 2026 00:00:00 GMT"},
    ],
    ids=["same tag", "other tags", "same time", "other times", "now a tag, now a time"],
)
def test_case_05_equal_bytes_are_taken_once_whatever_the_validators_are(
    tmp_path: Path, validators: Any
) -> None:
    body = ROWS

    def answer(_: Asked) -> Answer:  # it ignores conditions, as many do
        return Answer(200, validators(len(server.asked)), body)

    with web_server(answer) as server:
        polled = Polled(tmp_path, FetchStepUrl(url=f"http://srv.test:{server.port}/"))
        assert polled.poll().rows_added == 2
        head = polled.dataset.head()
        for _ in range(3):
            assert polled.poll().outcome == "up-to-date"
        assert polled.dataset.head() == head
        set_watermark(
            polled.stores, polled.dataset.entry, Instant.parse("2200-01-01T00:00:00Z"), now=now()
        )
        assert polled.poll().outcome == "up-to-date"
        body = ROWS + b'{"n": 3}\n'
        assert polled.poll().rows_added == 3
        assert polled.poll().outcome == "up-to-date"
        body = ROWS
        assert polled.poll().rows_added == 2, "bytes that return are a change"


def test_a_server_without_validators_gives_nothing_twice(tmp_path: Path) -> None:
    with web_server(lambda _: Answer(200, {}, ROWS)) as server:
        polled = Polled(tmp_path, FetchStepUrl(url=f"http://srv.test:{server.port}/"))
        assert polled.poll().rows_added == 2
        assert polled.poll().outcome == "up-to-date"
        assert polled.poll(fetch_uncacheable=True).outcome == "up-to-date"
        assert polled.dataset.state().num_records == 2


def test_rows_behind_an_answer_without_validators_are_taken(tmp_path: Path) -> None:
    """One answer of a cache without a tag does not end the polls of a source for ever."""
    body, headers = ROWS, {"ETag": '"1"'}
    with web_server(lambda _: Answer(200, headers, body)) as server:
        polled = Polled(tmp_path, FetchStepUrl(url=f"http://srv.test:{server.port}/"))
        assert polled.poll().rows_added == 2
        body, headers = b'{"n": 3}\n', {}
        assert polled.poll().rows_added == 1
        body = b'{"n": 4}\n'
        assert polled.poll().rows_added == 1


@pytest.mark.parametrize("merge", [MergeStrategyAppend(), MergeStrategyLedger(primary_key=("n",))])
def test_an_answer_without_a_byte_is_told_and_forgets_no_rows(tmp_path: Path, merge: Any) -> None:
    body = ROWS
    with web_server(lambda a: Answer(200, {"ETag": f'"{len(server.asked)}"'}, body)) as server:
        polled = Polled(tmp_path, FetchStepUrl(url=f"http://srv.test:{server.port}/"), merge)
        assert polled.poll().rows_added == 2
        body = b""
        told = polled.poll()
        assert told.rows_added == 0
        assert "gave no byte" in told.warnings[0]
        assert "gave no byte" in polled.poll().warnings[0]
        body = ROWS
        assert polled.poll().outcome == "up-to-date"
        assert polled.dataset.state().num_records == 2


def test_a_local_file_that_keeps_its_time_and_has_other_bytes_is_taken(tmp_path: Path) -> None:
    path = tmp_path / "rows.ndjson"
    path.write_bytes(ROWS)
    os.utime(path, (1, 1))
    polled = Polled(tmp_path, FetchStepUrl(url=f"file://{path}"))
    assert polled.poll().rows_added == 2
    assert polled.poll().outcome == "up-to-date"
    path.write_bytes(b'{"n": 3}\n')
    os.utime(path, (1, 1))
    assert polled.poll().rows_added == 1
    assert polled.poll().outcome == "up-to-date"


def test_a_file_that_was_touched_gives_nothing_twice(tmp_path: Path) -> None:
    path = tmp_path / "rows.ndjson"
    path.write_bytes(ROWS)
    os.utime(path, (1, 1))
    polled = Polled(tmp_path, FetchStepUrl(url=f"file://{path}"))
    assert polled.poll().rows_added == 2
    os.utime(path, (2, 2))
    assert polled.poll().outcome == "up-to-date"


def zipped(**files: str) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name, text in files.items():
            archive.writestr(f"{name}.ndjson", text)
    return out.getvalue()


def unpack(name: str) -> tuple[PrepStep, ...]:
    return (PrepStepDecompress(format=CompressionFormat.Zip, sub_path=f"{name}.ndjson"),)


@pytest.mark.parametrize(
    "merge", [MergeStrategyAppend(), MergeStrategySnapshot(primary_key=("n",))]
)
def test_a_source_that_is_defined_anew_reads_what_it_names_now(tmp_path: Path, merge: Any) -> None:
    body = zipped(a='{"n": 1}\n', b='{"n": 11}\n{"n": 12}\n')

    def answer(asked: Asked) -> Answer:
        return Answer(304) if "If-None-Match" in asked.headers else Answer(200, {"ETag": "1"}, body)

    with web_server(answer) as server:
        step = FetchStepUrl(url=f"http://srv.test:{server.port}/")
        polled = Polled(tmp_path, step, merge, prepare=unpack("a"))
        assert polled.poll(max_vanish_percent=100).rows_added == 1
        assert polled.poll().outcome == "up-to-date"
        polled.redefine(prepare=unpack("b"))
        assert polled.poll(max_vanish_percent=100).rows_added == 2
        assert polled.poll().outcome == "up-to-date"
        assert server.asked[-1].headers["If-None-Match"] == "1"


def test_equal_rows_of_another_definition_are_merged_by_key_and_told_where_they_would_double(
    tmp_path: Path,
) -> None:
    path = tmp_path / "rows.ndjson"
    path.write_bytes(ROWS)
    for merge in (MergeStrategyLedger(primary_key=("n",)), MergeStrategyAppend()):
        polled = Polled(tmp_path, FetchStepUrl(url=f"file://{path}"), merge)
        assert polled.poll().rows_added == 2
        polled.redefine(read=ReadStepNdJson(timestamp_format="yyyy-MM-dd"))
        told = polled.poll()
        assert told.rows_added == 0
        doubles = isinstance(merge, MergeStrategyAppend)
        assert any("defined anew" in each for each in told.warnings) is doubles


def test_the_tag_of_an_address_is_not_sent_where_a_variable_leads_to_another(
    tmp_path: Path,
) -> None:
    def answer(asked: Asked) -> Answer:
        if "If-None-Match" in asked.headers:
            return Answer(304)
        return Answer(200, {"ETag": "1"}, b'{"n": 1}\n' if asked.path == "/eu" else ROWS)

    with web_server(answer) as server:
        url = f"http://srv.test:{server.port}/${{{{ env.REGION }}}}"
        polled = Polled(tmp_path, FetchStepUrl(url=url))
        polled.variables["REGION"] = "eu"
        assert polled.poll().rows_added == 1
        polled.variables["REGION"] = "us"
        assert polled.poll().rows_added == 2
        assert polled.poll().outcome == "up-to-date"
        assert [a.path for a in server.asked] == ["/eu", "/us", "/us"]
    marks = marks_of(polled.dataset.state().last_add_data)
    known = {address_mark(url.replace("${{ env.REGION }}", "us"), [], key) for key in (b"", b"k")}
    assert marks[ADDRESS_KEY] not in known, "who has no key cannot try which value it was"


@pytest.mark.parametrize("tag", ["ETag", "Last-Modified"])
def test_the_tag_of_one_file_counts_for_no_other_that_an_address_leads_to(
    tmp_path: Path, tag: str
) -> None:
    """A redirect of `latest` moves to an older file, which has not changed since."""
    condition = {"ETag": "If-None-Match", "Last-Modified": "If-Modified-Since"}[tag]
    validator = {"ETag": "1", "Last-Modified": "Thu, 01 Jan 2026 00:00:00 GMT"}[tag]
    today = "/2?sign={}"

    def answer(asked: Asked) -> Answer:
        if asked.path == "/latest":
            sign = len(server.asked) if tag == "ETag" else 0
            return Answer(302, {"Location": today.format(sign)})
        if condition in asked.headers:
            return Answer(304)
        return Answer(200, {tag: validator}, ROWS if asked.path[1] == "2" else b'{"n": 1}\n')

    with web_server(answer) as server:
        polled = Polled(tmp_path, FetchStepUrl(url=f"http://srv.test:{server.port}/latest"))
        assert polled.poll().rows_added == 2
        assert polled.poll().outcome == "up-to-date"
        assert len(server.asked) == 4, "the file was not sent a second time"
        today = "/1?sign={}"
        assert polled.poll().rows_added == 1
        assert polled.poll().outcome == "up-to-date"
        assert len(server.asked) == 10


def test_after_a_reset_bytes_are_new_again(tmp_path: Path) -> None:
    path = tmp_path / "rows.ndjson"
    path.write_bytes(ROWS)
    polled = Polled(tmp_path, FetchStepUrl(url=f"file://{path}"))
    before = polled.dataset.head()
    polled.poll()
    reset(polled.stores, polled.dataset.entry, target=before)
    assert polled.poll().rows_added == 2


def folder_of(tmp_path: Path, *names: str) -> Path:
    feed = tmp_path / "feed"
    feed.mkdir(exist_ok=True)
    for name in names:
        put(feed, name)
    return feed


def put(feed: Path, name: str) -> None:
    """A file of the case; others have a row of their own."""
    given = CASES / "10-glob-late-name" / name
    content = given.read_bytes() if given.exists() else f"id,v\n{name[2:-4]},z\n".encode()
    (feed / name).write_bytes(content)


def glob(tmp_path: Path, pattern: str = "d-*.csv", **more: Any) -> Polled:
    read = ReadStepCsv(header=True, ddl_schema=("id BIGINT", "v STRING"))
    step = FetchStepFilesGlob(path=f"{tmp_path}/feed/{pattern}", **more)
    return Polled(tmp_path, step, read=read)


LATE = (
    "1 file sorts before the last one read and was never read: d-10.csv "
    "(refresh with lateFiles, --late-files, to take it)"
)


def test_case_10_a_file_that_sorts_before_the_last_one_is_told_and_can_be_taken(
    tmp_path: Path,
) -> None:
    feed = folder_of(tmp_path, "d-8.csv", "d-9.csv")
    polled = glob(tmp_path)
    assert polled.poll(exhaust_sources=True).warnings == ()
    put(feed, "d-10.csv")
    told = polled.poll()
    assert (told.outcome, told.warnings) == ("up-to-date", (LATE,))
    polled.bench = polled.worker()  # another one, which remembers nothing
    assert polled.poll().warnings == (LATE,)
    put(feed, "d-91.csv")
    taken = polled.poll()
    assert (taken.rows_added, taken.warnings) == (1, (LATE,))
    late = polled.poll(late_files=True)
    assert (late.rows_added, late.warnings) == (1, ())
    assert polled.poll() == replace_fields(polled.poll(), warnings=())
    polled.bench = polled.worker()
    assert polled.poll().warnings == ()
    put(feed, "d-92.csv")
    assert polled.poll().rows_added == 1, "the source goes on where it was"


def test_late_files_are_taken_in_their_order_one_commit_each(tmp_path: Path) -> None:
    feed = folder_of(tmp_path, "d-9.csv")
    polled = glob(tmp_path)
    polled.poll()
    for number in (10, 11, 12):
        put(feed, f"d-{number}.csv")
    put(feed, "d-99.csv")
    done = polled.poll(late_files=True)
    assert (done.rows_added, done.fetches, done.has_more) == (4, 4, False)
    files = [[*marks_of(b.event)[FILES_KEY]] for b in polled.dataset.blocks() if adds(b.event)]
    assert files == [["d-9.csv"], ["d-10.csv"], ["d-11.csv"], ["d-12.csv"], ["d-99.csv"]]


def adds(event: Any) -> bool:
    return isinstance(event, AddData)


def test_a_file_that_was_rewritten_is_told_and_can_be_read_again(tmp_path: Path) -> None:
    feed = folder_of(tmp_path, "d-8.csv", "d-9.csv")
    polled = glob(tmp_path)
    polled.poll(exhaust_sources=True)
    os.utime(feed / "d-8.csv")
    assert polled.poll().warnings == (), "it was touched, and has the same bytes"
    (feed / "d-8.csv").write_bytes(b"id,v\n8,corrected\n")
    (told,) = polled.poll().warnings
    assert told == (
        "1 file has other bytes than when it was read: d-8.csv (refresh with file=NAME to read it "
        "again)"
    )
    again = polled.poll(files=("d-8.csv",))
    assert (again.rows_added, again.has_more) == (1, False)
    assert polled.poll().warnings == ()
    with refusing("SourceMissing", match=r"d-7\.csv"):
        polled.poll(files=("d-7.csv",))


def test_late_files_without_new_rows_do_not_wait_for_ever(tmp_path: Path) -> None:
    feed = folder_of(tmp_path, "d-9.csv")
    ledger = MergeStrategyLedger(primary_key=("id",))
    read = ReadStepCsv(header=True, ddl_schema=("id BIGINT", "v STRING"))
    polled = Polled(tmp_path, FetchStepFilesGlob(path=f"{tmp_path}/feed/d-*.csv"), ledger, read)
    polled.poll()
    for name in ("d-10.csv", "d-11.csv"):
        (feed / name).write_bytes((feed / "d-9.csv").read_bytes())
    assert polled.poll(late_files=True).rows_added == 0
    assert polled.poll().warnings == ()


def test_equal_files_of_two_names_are_two_files(tmp_path: Path) -> None:
    feed = folder_of(tmp_path)
    for day in ("2026-01-01", "2026-01-02"):
        (feed / f"d-{day}.csv").write_bytes(b"id,v\n1,same\n")
    polled = glob(tmp_path, event_time=EventTimeSourceFromPath(pattern=r"(\d{4}-\d\d-\d\d)"))
    assert polled.poll(exhaust_sources=True).rows_added == 2


def test_files_of_one_name_in_several_folders_are_told_and_can_be_taken(tmp_path: Path) -> None:
    def put_row(folder: str, row: str) -> None:
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "data.csv").write_text(f"id,v\n{row}\n")

    put_row("feed/2", "2,two")
    polled = glob(tmp_path, "*/data.csv")
    assert polled.poll().rows_added == 1
    put_row("feed/1", "1,one")
    put_row("feed/3", "3,three")
    (told, _) = polled.poll().warnings  # the first folder has the name now, with other bytes
    assert "1 file has the name of a file in another folder and was never read: 3/data.csv" in told
    assert polled.poll(late_files=True).rows_added == 1
    assert polled.poll(files=("data.csv", "3/data.csv")).rows_added == 2
    assert polled.poll().warnings == ()
    assert polled.dataset.state().last_source_state.value == "data.csv"


def test_a_file_whose_name_no_block_can_hold_is_named(tmp_path: Path) -> None:
    (folder_of(tmp_path, "d-1.csv") / os.fsdecode(b"d-\xff.csv")).write_bytes(b"id,v\n1,x\n")
    with refusing("SourceRefused", match=r"'d-\\xff\.csv' is not UTF-8"):
        glob(tmp_path).poll()


def test_a_file_of_another_folder_with_the_name_of_one_that_was_read_is_told(
    tmp_path: Path,
) -> None:
    feed = folder_of(tmp_path, "d-5.csv")
    (tmp_path / "other").mkdir()
    for name in ("d-1.csv", "d-5.csv", "d-9.csv"):
        (tmp_path / "other" / name).write_text(f"id,v\n{name[2]},other\n")
    polled = glob(tmp_path)
    assert polled.poll().rows_added == 1
    polled.redefine(fetch=FetchStepFilesGlob(path=f"{tmp_path}/other/d-*.csv"))
    for _ in range(2):
        told = polled.poll(exhaust_sources=True).warnings
        assert ["d-1.csv" in told[0], "other bytes" in told[1], "d-5.csv" in told[1]] == [True] * 3
    assert polled.poll(files=("d-5.csv",)).rows_added == 1
    assert len(polled.poll().warnings) == 1
    polled.redefine(fetch=FetchStepFilesGlob(path=f"{feed}/*.csv"))
    assert len(polled.poll(late_files=True).warnings) == 1


def test_only_folders_take_files_by_name(tmp_path: Path) -> None:
    path = tmp_path / "rows.ndjson"
    path.write_bytes(ROWS)
    polled = Polled(tmp_path, FetchStepUrl(url=f"file://{path}"))
    with refusing("NotAFolder"):
        polled.poll(files=("rows.ndjson",))


def test_merged_blocks_keep_the_names_of_files(tmp_path: Path) -> None:
    folder_of(tmp_path, "d-8.csv", "d-9.csv")
    polled = glob(tmp_path)
    polled.poll(exhaust_sources=True)
    blocks = [b for b in polled.dataset.blocks() if isinstance(b.event, AddData)]
    data = blocks[-1].event.new_data
    assert data is not None
    merged = merged_event(Merge(tuple(blocks)), data)
    assert sorted(marks_of(merged)[FILES_KEY]) == ["d-8.csv", "d-9.csv"]
    many = [
        replace_fields(
            blocks[0].event,
            extra=type(merged.extra).of(  # type: ignore[union-attr]
                {
                    FILES_KEY: {
                        f"{n:0300}": str(Multihash.of(b"x")) for n in range(start, start + 500)
                    }
                }
            ),
        )
        for start in (0, 500)
    ]
    assert merged_marks(many) == {FORGOTTEN_KEY: True}
