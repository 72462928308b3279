"""Local files, patterns of files, ftp and images as sources."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from ftp_server import ftp_server
from refusals import refusing
from tests.workers.fetch.runtime import Runtime, ran_by

from odf_protocol.instant import Instant
from odf_protocol.metadata.sources import (
    EnvVar,
    EventTimeSourceFromPath,
    FetchStepContainer,
    FetchStepFilesGlob,
    FetchStepUrl,
    SourceOrdering,
)
from odf_workers.fetch import values
from odf_workers.fetch.glob import from_path
from odf_workers.fetch.run import fetch

Ask = Callable[..., values.FetchRequest]


def test_files_outside_of_the_allowed_folders_are_refused(asked: Ask, tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    (root / "link").symlink_to("/etc/passwd")
    (root / "way").symlink_to("/etc")
    for path in ("/etc/passwd", f"{root}/../../etc/passwd", f"{root}/link", f"{root}/way/passwd"):
        with refusing("SourceRefused"):
            fetch(FetchStepUrl(url=f"file://{path}"), asked(roots=(root,)))
    for pattern in ("/etc/pass*", f"{root}/way/pass*", f"{root}/lin*", "/*/passwd"):
        with refusing("SourceRefused"):
            fetch(FetchStepFilesGlob(path=pattern), asked(roots=(root,)))
    with refusing("SourceRefused"):
        fetch(FetchStepUrl(url=f"file://{root}/link"), asked(roots=()))


def test_addresses_that_are_no_local_file_are_refused(asked: Ask, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in ("pipe", "", "missing"):
        with refusing("SourceMissing"):
            fetch(FetchStepUrl(url=f"file://{tmp_path}/{path}"), asked())
    for url in (f"file://host{tmp_path}/x", f"file://{tmp_path}/%00"):
        with refusing("MalformedSource"):
            fetch(FetchStepUrl(url=url), asked())
    for pattern in (f"{tmp_path}/../x*", "relative*"):
        with refusing("MalformedSource"):
            fetch(FetchStepFilesGlob(path=pattern), asked())


def test_an_unchanged_file_is_up_to_date_and_modification_times_are_rounded(
    asked: Ask, tmp_path: Path
) -> None:
    path = tmp_path / "with blank.csv"
    path.write_text("rows")
    when = Instant.parse("2020-01-01T00:00:00.0005Z").ns
    os.utime(path, ns=(when, when))
    step = FetchStepUrl(url=f"file://{tmp_path}/with%20blank.csv")
    found = fetch(step, asked())
    assert found is not None
    assert found.state == values.state(values.LAST_MODIFIED, "2020-01-01T00:00:00.001Z")
    assert found.path != path
    assert fetch(step, asked(state=found.state)) is None


def test_files_are_read_one_by_one_in_the_order_of_their_names(asked: Ask, tmp_path: Path) -> None:
    for name in ("b/2", "a/3", "a/1", "c/1"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(name)
    step = FetchStepFilesGlob(path=f"{tmp_path}/?/*")
    state, seen = None, []
    while (found := fetch(step, asked(state=state))) is not None:
        seen.append((found.path.read_text(), found.has_more))
        state = found.state
    assert seen == [("a/1", True), ("b/2", True), ("a/3", False)]
    with refusing("SourceMissing"):
        fetch(FetchStepFilesGlob(path=f"{tmp_path}/*.none"), asked())


def test_files_can_be_read_in_the_order_of_their_event_times(asked: Ask, tmp_path: Path) -> None:
    for name in ("a-2022.csv", "b-2020.csv", "c-2021.csv", "d-2020.csv"):
        (tmp_path / name).write_text(name)
    step = FetchStepFilesGlob(
        path=f"{tmp_path}/*.csv",
        order=SourceOrdering.ByEventTime,
        event_time=EventTimeSourceFromPath(pattern=r"-(\d+)", timestamp_format="%Y"),
    )
    state, seen = None, []
    while (found := fetch(step, asked(state=state))) is not None:
        seen.append(found.path.read_text())
        state = found.state
    assert seen == ["b-2020.csv", "d-2020.csv", "c-2021.csv", "a-2022.csv"]


def test_a_new_pattern_of_event_times_has_to_match_the_last_file_read(
    asked: Ask, tmp_path: Path
) -> None:
    (tmp_path / "day_2024-02-01.csv").write_text("rows")
    state = values.state(values.ETAG, "data-2024-01-31.csv")

    def found(pattern: str, order: SourceOrdering) -> values.Fetched | None:
        rule = EventTimeSourceFromPath(pattern=pattern)
        step = FetchStepFilesGlob(path=f"{tmp_path}/*.csv", order=order, event_time=rule)
        return fetch(step, asked(state=state))

    with pytest.raises(values.EventTimeNotFound, match="or order the files by name"):
        found(r"day_([\d-]+)", SourceOrdering.ByEventTime)
    assert found(r"(?:data-|day_)([\d-]+)", SourceOrdering.ByEventTime) is not None
    assert found(r"day_([\d-]+)", SourceOrdering.ByName) is not None


def test_the_path_of_an_address_may_hold_the_event_time(asked: Ask, tmp_path: Path) -> None:
    (tmp_path / "2020-01-02").mkdir()
    (tmp_path / "2020-01-02" / "rows.csv").write_text("rows")
    rule = EventTimeSourceFromPath(pattern=r"/(\d+-\d+-\d+)/")
    found = fetch(
        FetchStepUrl(url=f"file://{tmp_path}/2020-01-02/rows.csv", event_time=rule), asked()
    )
    assert found is not None
    assert found.event_time == Instant.parse("2020-01-02T00:00:00Z")


def test_what_a_template_stands_for_is_not_told_with_an_event_time(asked: Ask) -> None:
    rule = EventTimeSourceFromPath(pattern=r"/(secret)")
    step = FetchStepUrl(url="https://x.test/${{ env.KEY }}", event_time=rule)
    with pytest.raises(values.EventTimeNotFound) as caught:
        fetch(step, asked(variables={"KEY": "secret"}))
    assert "secret" not in str([caught.value, caught.value.facts])


@pytest.mark.parametrize(
    ("pattern", "wanted", "name", "time"),
    [
        (r"(\d+)", "%Y%m%d", "x20200102y30.csv", "2020-01-02T00:00:00Z"),
        (r"_(.*)\.", "%Y%m%dT%H%M%S%#z", "s_20200102T030405Z.csv", "2020-01-02T03:04:05Z"),
        (r"_(.*)\.", "%FT%T%z", "s_2020-01-02T03:04:05+0100.csv", "2020-01-02T02:04:05Z"),
        (r"(.*)", "%Y-%m-%d %H:%M", "2020-01-02 03:04", "2020-01-02T00:00:00Z"),
        (r"_(.*)\.", "yyyyMMdd'T'HHmm", "s_20200102T0304.csv", "2020-01-02T03:04:00Z"),
        (r"^(?i)DATA-(.*)$", None, "data-2020-01-02", "2020-01-02T00:00:00Z"),
    ],
)
def test_event_times_come_from_the_first_group(
    pattern: str, wanted: str | None, name: str, time: str
) -> None:
    rule = EventTimeSourceFromPath(pattern=pattern, timestamp_format=wanted)
    assert from_path(rule, name) == Instant.parse(time)


@pytest.mark.parametrize(
    ("pattern", "wanted"),
    [
        (r"x(\d+)", None),
        (r"data", None),
        (r"(data)", None),
        (r"(", None),
        (r"(?=a)(a)", None),
        (r"a)(b", None),
        ("(" + "a" * 2_000 + ")", None),
        (r"-(.*)", "dd.MM.yyyy"),
        (r"-(.*)", "%Q"),
        (r"-(.*)", "%Y-%Y-%Y"),
        (r"-(.*)", "%" * 99),
    ],
)
def test_event_times_that_are_not_there_are_refused(pattern: str, wanted: str | None) -> None:
    with pytest.raises(values.EventTimeNotFound):
        from_path(
            EventTimeSourceFromPath(pattern=pattern, timestamp_format=wanted), "data-2020-01-02"
        )


def test_a_hostile_pattern_takes_no_longer_than_others() -> None:
    began = time.process_time()
    with pytest.raises(values.EventTimeNotFound):
        from_path(EventTimeSourceFromPath(pattern="^((a+)+)+$"), "a" * 250 + "!")
    assert time.process_time() - began < 5


def test_ftp_files_are_read_from_the_address_that_was_connected_to(asked: Ask) -> None:
    with ftp_server({"dir/d.csv": b"rows"}, ("me", "p@ss")) as server:
        base = f"ftp://me:p%40ss@srv.test:{server.port}"
        found = fetch(FetchStepUrl(url=f"{base}/dir/d.csv"), asked())
        assert found is not None
        assert found.path.read_bytes() == b"rows"
        with refusing("SourceMissing"):
            fetch(FetchStepUrl(url=f"{base}/other.csv"), asked())
        with refusing("SourceUnreachable"):
            fetch(FetchStepUrl(url=f"ftp://srv.test:{server.port}/dir/d.csv"), asked())
        with refusing("FetchedTooLarge"):
            fetch(FetchStepUrl(url=f"{base}/dir/d.csv"), asked(max_bytes=3))
        with refusing("SourceRefused"):
            fetch(FetchStepUrl(url=f"{base}/dir/d.csv"), asked(networks=()))
        for bad in (f"{base}/a%0d%0aDELE x", "ftp://srv.test/", "ftp://srv.test:x/y"):
            with refusing("MalformedSource", "SourceUnreachable"):
                fetch(FetchStepUrl(url=bad), asked())
        assert not any(word.startswith("DELE") for word in server.asked)


def test_images_are_refused_where_no_runtime_is(asked: Ask) -> None:
    for runtime in (None, "no-such-runtime"):
        with refusing("SourceRefused", match="container image"):
            fetch(FetchStepContainer(image="img"), asked(containers=ran_by(runtime)))


def test_an_image_is_told_where_it_left_off_and_nothing_secret_on_the_command_line(
    asked: Ask, tmp_path: Path
) -> None:
    runtime = Runtime(
        tmp_path / "rt", {"stdout": "rows", "new_last_modified": "2020-01-01T00:00:00+00:00"}
    )
    step = FetchStepContainer(
        image="reg.test/img:${{ env.TAG || '1' }}",
        command=("sh", "-c"),
        args=("echo",),
        env=(EnvVar(name="KEY"), EnvVar(name="MODE", value="${{ env.KEY }}2")),
    )
    state = values.state(values.ETAG, "40")
    rules = {"containers": ran_by(runtime.path), "variables": {"KEY": "s3cret"}}
    found = fetch(step, asked(state=state, **rules))
    assert found is not None
    assert found.state == values.state(values.LAST_MODIFIED, "2020-01-01T00:00:00Z")
    call = runtime.calls[0]
    assert call[-4:] == ["--entrypoint=sh", "reg.test/img:1", "-c", "echo"]
    assert "s3cret" not in " ".join(call)
    told = runtime.environment
    assert (told["KEY"], told["MODE"], told["ODF_ETAG"]) == ("s3cret", "s3cret2", "40")
    with refusing("ValueNotFound"):
        fetch(step, asked(containers=ran_by(runtime.path)))


def test_definitions_that_would_change_the_command_are_refused(asked: Ask, tmp_path: Path) -> None:
    runtime = str(Runtime(tmp_path / "rt", {}).path)
    for image in ("--privileged", "", "a b", "-v/:/x"):
        with refusing("MalformedSource"):
            fetch(FetchStepContainer(image=image), asked(containers=ran_by(runtime)))
    for name, value in (("A", "x\nB=y"), ("A=B", "x"), ("", "x")):
        step = FetchStepContainer(image="img", env=(EnvVar(name=name, value=value),))
        with refusing("MalformedSource"):
            fetch(step, asked(containers=ran_by(runtime)))
    step = FetchStepContainer(image="img", env=(EnvVar(name="ODF_BATCH_SIZE", value="-1"),))
    with refusing("InvalidParameterFormat"):
        fetch(step, asked(containers=ran_by(runtime)))


def test_an_image_that_does_not_end_is_removed(asked: Ask, tmp_path: Path) -> None:
    runtime = Runtime(tmp_path / "rt", {"sleep": 60})
    with refusing("ContainerFailed", match="did not end"):
        fetch(FetchStepContainer(image="img"), asked(containers=ran_by(runtime.path), total_s=1))
    run, kill, remove = runtime.calls
    name = next(word for word in run if word.startswith("--name=")).removeprefix("--name=")
    assert (kill, remove) == (["kill", name], ["rm", "--force", name])
