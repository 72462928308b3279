"""A poll takes rows once that a server packs anew each time, and tells which file it reads."""

from __future__ import annotations

import gzip
import io
import os
import zipfile
from pathlib import Path
from typing import Any

import openpyxl
import pytest
import shapefile
from msgspec.structs import replace as replace_fields
from tests.workers.datasets import now
from tests.workers.readers.test_source_options import field, step_of
from tests.workers.test_poll_again import ROWS, Polled
from web_server import Answer, Asked, web_server

from odf_protocol.instant import Instant
from odf_protocol.metadata.sources import (
    CompressionFormat,
    EventTimeSourceFromPath,
    FetchStepFilesGlob,
    FetchStepUrl,
    MergeStrategyAppend,
    MergeStrategySnapshot,
    PrepStepDecompress,
    ReadStepCsv,
    ReadStepEsriShapefile,
    ReadStepNdJson,
)
from odf_storage.datasets.rewrite.compact import reset, set_watermark


def gzipped(rows: bytes, at: int) -> bytes:
    return gzip.compress(rows, mtime=at)


def zipped(*entries: tuple[str, bytes], at: int) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in entries:
            archive.writestr(zipfile.ZipInfo(name, (2026, 1, 1, 0, 0, 2 * at)), content)
    return out.getvalue()


def workbook(at: int) -> bytes:
    book = openpyxl.Workbook()
    book.active.append(["n"])
    book.active.append([1])
    book.properties.title = f"made at {at}"
    out = io.BytesIO()
    book.save(out)
    return out.getvalue()


def shapes(at: int) -> bytes:
    members = {suffix: io.BytesIO() for suffix in ("shp", "shx", "dbf")}
    with shapefile.Writer(**members, shapeType=shapefile.POINT) as out:
        out.field("n", "N", 9)
        out.point(1, 2)
        out.record(1)
    table = bytearray(members["dbf"].getvalue())
    table[1:4] = bytes((126, 1, 1 + at))  # the day on which it was written
    members["dbf"] = io.BytesIO(bytes(table))
    return zipped(*((f"a.{suffix}", each.getvalue()) for suffix, each in members.items()), at=at)


UNZIP = PrepStepDecompress(format=CompressionFormat.Zip, sub_path="*.ndjson")
PACKED: dict[str, tuple[Any, Any, Any]] = {
    "gzip by a step": (
        (PrepStepDecompress(format=CompressionFormat.Gzip),),
        ReadStepNdJson(),
        lambda at: gzipped(ROWS, at),
    ),
    "gzip by itself": ((), ReadStepNdJson(), lambda at: gzipped(ROWS, at)),
    "zip by a step": (
        (UNZIP,),
        ReadStepNdJson(),
        lambda at: zipped(("a.ndjson", ROWS), ("made.txt", b"%d" % at), at=at),
    ),
    "zip by itself": ((), ReadStepNdJson(), lambda at: zipped((f"{at}.ndjson", ROWS), at=at)),
    "gzip in zip": (
        (UNZIP, PrepStepDecompress(format=CompressionFormat.Gzip)),
        ReadStepNdJson(),
        lambda at: zipped(("a.ndjson", gzipped(ROWS, at)), at=at),
    ),
    "now packed, now plain": (
        (),
        ReadStepNdJson(),
        lambda at: ROWS if at % 2 else gzipped(ROWS, at),
    ),
    "now of UTF-8, now of UTF-16": (
        (),
        ReadStepCsv(header=True, ddl_schema=("n BIGINT",)),
        lambda at: "n\n1\n".encode("utf-8" if at % 2 else "utf-16"),
    ),
    "a line that is left out": (
        (),
        step_of("Csv", [field("n", "String")], {"skipLines": 1}),
        lambda at: b"made at %d\nn\n1\n" % at,
    ),
    "workbook": ((), ReadStepCsv(header=True, ddl_schema=("n BIGINT",)), workbook),
    "shapefile": ((), ReadStepEsriShapefile(), shapes),
}


@pytest.mark.parametrize("case", PACKED)
@pytest.mark.parametrize(
    "merge", [MergeStrategyAppend(), MergeStrategySnapshot(primary_key=("n",))]
)
def test_rows_that_are_packed_anew_for_each_answer_are_taken_once(
    tmp_path: Path, case: str, merge: Any
) -> None:
    steps, read, made = PACKED[case]

    def answer(_: Asked) -> Answer:
        return Answer(200, {"ETag": f'"{len(server.asked)}"'}, made(len(server.asked)))

    with web_server(answer) as server:
        url = f"http://srv.test:{server.port}/"
        polled = Polled(tmp_path, FetchStepUrl(url=url), merge, read, steps)
        assert polled.poll().rows_added > 0
        head = polled.dataset.head()
        for _ in range(2):
            assert polled.poll().outcome == "up-to-date"
        set_watermark(
            polled.stores, polled.dataset.entry, Instant.parse("2200-01-01T00:00:00Z"), now=now()
        )
        assert polled.poll().outcome == "up-to-date"
        reset(polled.stores, polled.dataset.entry, target=head)
        assert polled.poll().outcome == "up-to-date"


def test_other_rows_in_a_packed_file_are_taken(tmp_path: Path) -> None:
    path = tmp_path / "rows.ndjson.gz"
    path.write_bytes(gzipped(ROWS, 1))
    polled = Polled(tmp_path, FetchStepUrl(url=f"file://{path}"))
    assert polled.poll().rows_added == 2
    path.write_bytes(gzipped(b'{"n": 3}\n', 1))
    os.utime(path, (2, 2))
    assert polled.poll().rows_added == 1


def test_at_another_address_the_tag_and_time_of_the_first_one_are_no_conditions(
    tmp_path: Path,
) -> None:
    """An older file has no later time, and would be no answer to a conditional request."""
    steps = []
    for number, modified in ((1, 1_700_000_000), (2, 1_600_000_000), (3, 1_500_000_000)):
        path = tmp_path / f"{number}.ndjson.gz"
        path.write_bytes(gzipped(b'{"n": %d}\n' % min(number, 2), number))
        os.utime(path, (modified, modified))
        steps.append(FetchStepUrl(url=f"file://{path}"))
    os.utime(tmp_path / "2.ndjson.gz", (1_700_000_000, 1_700_000_000))
    polled = Polled(tmp_path, steps[0])
    assert polled.poll().rows_added == 1
    polled.redefine(fetch=steps[1])
    assert polled.poll().rows_added == 1
    polled.redefine(fetch=steps[2])
    assert polled.poll().outcome == "up-to-date", "the same rows are a repeat at any address"


def test_equal_bytes_at_a_path_with_another_time_are_other_rows(tmp_path: Path) -> None:
    rule = EventTimeSourceFromPath(pattern=r"(\d{4}-\d\d-\d\d)")
    for day in ("2026-01-01", "2026-01-02"):
        (tmp_path / f"{day}.ndjson.gz").write_bytes(gzipped(ROWS, int(day[-1])))
    step = FetchStepUrl(url=f"file://{tmp_path}/2026-01-01.ndjson.gz", event_time=rule)
    polled = Polled(tmp_path, step)
    assert polled.poll().rows_added == 2
    polled.redefine(fetch=replace_fields(step, url=step.url.replace("-01.", "-02.")))
    assert polled.poll().rows_added == 2


def test_a_file_of_a_folder_that_is_packed_anew_is_no_other_file(tmp_path: Path) -> None:
    for number in (1, 2):
        (tmp_path / f"d-{number}.gz").write_bytes(gzipped(b'{"n": %d}\n' % number, 1))
    polled = Polled(tmp_path, FetchStepFilesGlob(path=f"{tmp_path}/d-*.gz"))
    polled.poll(exhaust_sources=True)
    (tmp_path / "d-1.gz").write_bytes(gzipped(b'{"n": 1}\n', 9))
    assert polled.poll().warnings == ()
    (tmp_path / "d-1.gz").write_bytes(gzipped(b'{"n": 7}\n', 9))
    (told,) = polled.poll().warnings
    assert told.startswith("1 file has other bytes than when it was read: d-1.gz")


@pytest.mark.parametrize("sub_path", [None, "*.ndjson"])
def test_of_an_archive_of_several_files_it_is_told_which_one_is_read(
    tmp_path: Path, sub_path: str | None
) -> None:
    path = tmp_path / "rows.zip"
    path.write_bytes(zipped(("b.ndjson", ROWS), ("a.ndjson", b'{"n": 9}\n'), at=1))
    step = PrepStepDecompress(format=CompressionFormat.Zip, sub_path=sub_path)
    polled = Polled(tmp_path, FetchStepUrl(url=f"file://{path}"), prepare=(step,))
    done = polled.poll()
    (told,) = done.warnings
    meant = "" if sub_path is None else " of the name '*.ndjson'"
    assert done.rows_added == 2
    assert told == (
        f"the archive holds 2 files{meant}, and 'b.ndjson' alone, the first, is read: subPath can "
        "name another one"
    )
