"""Preparation unpacks what a source says, within limits, and runs what the node allows."""

from __future__ import annotations

import base64
import gzip
import io
import shutil
import time
import tracemalloc
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from refusals import refusing
from tests.workers import tables

from odf_protocol.codec.manifests import from_data
from odf_protocol.errors import NodeError
from odf_protocol.metadata.sources import PrepStep
from odf_workers.prepare.run import gunzip, prepare
from odf_workers.runtime.command import PrepareLimits

LIMITS = PrepareLimits()
ERRORS = {
    "Internal": ("MalformedArchive", "EntryNotFound"),
    "PipeError": ("PipeFailed",),
}


def run(
    steps: list[dict[str, Any]], body: bytes, folder: Path, limits: PrepareLimits = LIMITS
) -> bytes:
    source = folder / "fetched"
    source.write_bytes(body)
    work = folder / "work"
    return prepare([from_data(step, PrepStep) for step in steps], source, work, limits).read_bytes()


def zipped(entries: dict[str, bytes], method: int = zipfile.ZIP_DEFLATED) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", method) as archive:
        for name, content in entries.items():
            archive.writestr(name, content)
    return out.getvalue()


ZIP: dict[str, Any] = {"kind": "Decompress", "format": "Zip"}
GZIP: dict[str, Any] = {"kind": "Decompress", "format": "Gzip"}


def pipe(*command: str) -> dict[str, Any]:
    return {"kind": "Pipe", "command": list(command)}


@pytest.mark.parametrize("case", tables.cases("prepare"), ids=lambda case: case["id"])
def test_preparation_gives_what_the_answer_says(case: dict[str, Any], tmp_path: Path) -> None:
    given, expect = case["given"], case["expect"]
    text = given["input"].get("text")
    body = text.encode() if text is not None else base64.b64decode(given["input"]["base64"])
    commands = {step["command"][0] for step in given["steps"] if step["kind"] == "Pipe"}
    for command in commands:
        if shutil.which(command) is None:
            pytest.skip(f"{command} is not on the path")
    limits = replace(LIMITS, commands=frozenset(commands))
    if "error" in expect:
        with refusing(*ERRORS[expect["error"]["kind"]]):
            run(given["steps"], body, tmp_path, limits)
    else:
        assert run(given["steps"], body, tmp_path, limits) == expect["text"].encode()


def test_without_steps_the_file_is_used_as_it_is(tmp_path: Path) -> None:
    assert run([], b"rows", tmp_path) == b"rows"


def test_an_archive_inside_of_a_stream_is_looked_up_by_name_too(tmp_path: Path) -> None:
    body = gzip.compress(zipped({"a.csv": b"1\n", "b.csv": b"2\n"}))
    assert run([GZIP, {**ZIP, "subPath": "b.csv"}], body, tmp_path) == b"2\n"


def test_an_exact_name_goes_before_a_pattern(tmp_path: Path) -> None:
    body = zipped({"x.csv": b"1", "*.csv": b"2", "folder/": b""})
    assert run([{**ZIP, "subPath": "*.csv"}], body, tmp_path) == b"2"


def test_folders_of_an_archive_are_not_entries(tmp_path: Path) -> None:
    assert run([ZIP], zipped({"folder/": b"", "folder/x.csv": b"1"}), tmp_path) == b"1"


def test_all_members_of_a_gzip_file_are_read(tmp_path: Path) -> None:
    body = gzip.compress(b"a\n") + gzip.compress(b"") + gzip.compress(b"b\n") + bytes(100)
    assert run([GZIP], body, tmp_path) == b"a\nb\n"


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"garbage",
        gzip.compress(b"rows", mtime=0)[:-3],
        gzip.compress(b"rows", mtime=0) + b"rest",
        gzip.compress(b"rows" * 100, mtime=0)[:20] + b"\xff" * 20,
    ],
)
def test_a_damaged_gzip_file_is_refused(body: bytes, tmp_path: Path) -> None:
    with refusing("MalformedArchive"):
        run([GZIP], body, tmp_path)
    assert list((tmp_path / "work").iterdir()) == []


def test_damaged_and_encrypted_and_unknown_archives_are_refused(tmp_path: Path) -> None:
    intact = zipped({"a": b"rows" * 100})
    encrypted = bytearray(intact)
    for signature, offset in ((b"PK\3\4", 6), (b"PK\1\2", 8)):
        encrypted[intact.index(signature) + offset] |= 1
    damaged = bytearray(intact)
    damaged[35] ^= 0xFF
    for body in (b"", intact[:-10], bytes(encrypted), bytes(damaged)):
        with refusing("MalformedArchive"):
            run([ZIP], body, tmp_path)
    with refusing("MalformedArchive", match="method"):
        run([ZIP], zipped({"a": b"rows"}, zipfile.ZIP_LZMA), tmp_path)


def test_bombs_are_refused_by_ratio_and_by_size(tmp_path: Path) -> None:
    zeros = bytes(30 << 20)
    for steps, body in (([ZIP], zipped({"a": zeros})), ([GZIP], gzip.compress(zeros))):
        with refusing("DecompressionTooLarge", match="times"):
            run(steps, body, tmp_path, replace(LIMITS, max_ratio=100))
        with refusing("DecompressionTooLarge", match="bytes"):
            run(steps, body, tmp_path, replace(LIMITS, max_bytes=1 << 20))
    assert list((tmp_path / "work").iterdir()) == []


def test_a_bomb_is_refused_before_it_takes_memory(tmp_path: Path) -> None:
    body = zipped({"a": bytes(64 << 20)}, zipfile.ZIP_BZIP2)
    tracemalloc.start()
    try:
        with refusing("DecompressionTooLarge"):
            run([ZIP], body, tmp_path, replace(LIMITS, max_bytes=1 << 20))
        assert tracemalloc.get_traced_memory()[1] < 8 << 20
    finally:
        tracemalloc.stop()


def test_an_archive_of_very_many_entries_is_refused(tmp_path: Path) -> None:
    body = zipped({str(at): b"" for at in range(50)})
    with refusing("DecompressionTooLarge", match="entries"):
        run([ZIP], body, tmp_path, replace(LIMITS, max_entries=49))


def test_a_huge_table_of_contents_is_not_read(tmp_path: Path) -> None:
    body = zipped({f"{at}-{'x' * 1000}": b"" for at in range(5_000)})
    with refusing("DecompressionTooLarge", match="table of contents"):
        run([ZIP], body, tmp_path)


def test_commands_are_refused_unless_the_node_allows_them(tmp_path: Path) -> None:
    for allowed in (frozenset(), frozenset({"/bin/cat", "ca"})):
        with refusing("PipeRefused"):
            run([pipe("cat")], b"x", tmp_path, replace(LIMITS, commands=allowed))


def test_a_command_reads_what_the_step_before_wrote(tmp_path: Path) -> None:
    limits = replace(LIMITS, commands=frozenset({"sort"}))
    assert run([GZIP, pipe("sort")], gzip.compress(b"b\na\n"), tmp_path, limits) == b"a\nb\n"


def test_a_command_sees_no_shell_no_files_and_no_settings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ODF_STORE_DATABASE_URL", "postgresql://secret")
    limits = replace(LIMITS, commands=frozenset({"env", "echo", "ls"}))
    assert b"secret" not in run([pipe("env")], b"", tmp_path, limits)
    assert run([pipe("echo", "$PATH; ls")], b"", tmp_path, limits) == b"$PATH; ls\n"
    assert run([pipe("ls", "-A")], b"", tmp_path, limits) == b""


def test_a_command_that_does_not_end_is_ended(tmp_path: Path) -> None:
    limits = replace(LIMITS, commands=frozenset({"sh"}), command_seconds=0.5)
    began = time.monotonic()
    with refusing("PipeFailed", match="seconds"):
        run([pipe("sh", "-c", "sleep 100 & sleep 100")], b"", tmp_path, limits)
    assert time.monotonic() - began < 100


def test_a_command_that_writes_without_end_is_ended(tmp_path: Path) -> None:
    limits = replace(LIMITS, commands=frozenset({"yes"}), max_bytes=1 << 20)
    with refusing("DecompressionTooLarge"):
        run([pipe("yes")], b"", tmp_path, limits)


def test_what_a_failed_command_said_is_told_in_part(tmp_path: Path) -> None:
    limits = replace(LIMITS, commands=frozenset({"sh", "missing-command"}))
    script = "echo bad rows >&2; yes x | head -c 200000 >&2; exit 3"
    with refusing("PipeFailed", match="exit code 3: bad rows") as caught:
        run([pipe("sh", "-c", script)], b"", tmp_path, limits)
    assert len(str(caught.value)) < 3_000
    with refusing("PipeFailed", match="cannot be started"):
        run([pipe("missing-command")], b"", tmp_path, limits)


@given(st.binary(), st.lists(st.integers(1, 7), max_size=5))
def test_hostile_gzip_bytes_end_in_an_answer(body: bytes, cuts: list[int]) -> None:
    packed = gzip.compress(body)
    chunks = [packed[at : at + 3] for at in range(0, len(packed), 3)]
    assert b"".join(gunzip(chunks, LIMITS)) == body
    for cut in cuts:
        chunks = [packed[:cut], body]
        try:
            list(gunzip(chunks, LIMITS))
        except NodeError:
            continue
