"""Transfers that break off, expire or never end: what was verified once is not fetched again."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from chains import files_of, make_dataset
from static_files import answering, send
from strangers import Stranger, honest_pull, playing
from threaded_node import threaded_node

from odf_node.cli.copies.transfer import _mirrored
from odf_node.client.nodes.http import Unreachable
from odf_node.client.nodes.limits import ClientLimits
from odf_node.client.nodes.remotes import Location
from odf_node.client.transfer import sync
from odf_node.client.transfer.linked import UrlExpired
from odf_node.client.transfer.receive import Outcome

KILLS = int(os.environ.get("ODF_TEST_KILLS", "3"))
"""How often a real process is killed; set it to 30 to be sure."""
ODF_NODE = Path(sys.executable).with_name("odf-node")


def pull_process(source: str, target: Path, *options: str) -> subprocess.Popen[str]:
    command = [str(ODF_NODE), "pull", source, str(target), *options]
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )


def held(folder: Path) -> set[str]:
    """Objects in the folder under their own name, which they get once they were verified."""
    return {path.name for path in folder.glob("data/*") if not path.name.startswith(".")}


def test_a_pull_killed_again_and_again_fetches_nothing_verified_twice(tmp_path):
    theirs = make_dataset(tmp_path / "theirs", rows=[3] * 40)
    local = tmp_path / "local"
    fetched: list[str] = []
    twice: list[str] = []

    def slow_file(handler):
        path = theirs.folder / handler.path.lstrip("/")
        if not path.is_file():
            send(handler, 404)
            return
        content, name = path.read_bytes(), path.name
        if path.parent.name == "data":
            fetched.append(name)
            if name in held(local):
                twice.append(name)
            time.sleep(0.02)
        send(handler, 200, content)

    rng, kills = random.Random(5), 0
    with answering(slow_file) as server:
        while kills < KILLS:
            running = pull_process(server.url, local, "--json")
            seen = len(fetched)
            began = time.monotonic()
            while running.poll() is None and len(fetched) == seen:
                assert time.monotonic() - began < 200
                time.sleep(0.002)
            time.sleep(rng.uniform(0, 0.06))
            if running.poll() is None:
                os.killpg(running.pid, signal.SIGKILL)
                kills += 1
            out, errors = running.communicate()
            if running.returncode == 0:  # was faster than the killer: from the start
                assert json.loads(out)["newHead"] == str(theirs.head)
                for name in held(local):
                    (local / "data" / name).unlink()
                (local / "refs" / "head").unlink()
                fetched.clear()
        done = pull_process(server.url, local, "--json")
        out, errors = done.communicate(timeout=60)
    assert done.returncode == 0, errors
    assert twice == []
    assert json.loads(out)["newHead"] == str(theirs.head)
    assert files_of(local) == theirs.files()


def test_an_expired_url_is_asked_for_again(tmp_path):
    theirs = make_dataset(tmp_path / "theirs", rows=[5, 6])
    asked: list[str] = []

    def storage(handler):
        asked.append(handler.path)
        if handler.path.endswith("?first"):
            send(handler, 403, b"Request has expired")
            return
        send(handler, 200, (theirs.folder / handler.path.lstrip("/").split("?")[0]).read_bytes())

    rounds = iter(["first", "second"])

    def presigned(listed):
        name = next(rounds)
        for one in listed:
            one["download_from"]["url"] += f"?{name}"
            one["download_from"]["expires_at"] = "2050-01-01T00:00:00Z"
        return listed

    with (
        answering(storage) as files,
        playing(
            Stranger(honest_pull(theirs, files.url, change=presigned), str(theirs.head))
        ) as node,
    ):
        outcome = sync.pull(Location.parse(node.url), Location.parse(str(tmp_path / "local")))
    assert outcome.objects == 2
    assert sorted(path.split("?")[1] for path in asked) == ["first"] * 2 + ["second"] * 2
    assert files_of(tmp_path / "local") == theirs.files()


def test_urls_that_are_never_valid_end_the_pull(tmp_path):
    theirs = make_dataset(tmp_path / "theirs", rows=[5])

    def presigned(listed):
        listed[0]["download_from"]["expires_at"] = "2000-01-01T00:00:00Z"
        return listed

    with (
        answering(lambda handler: send(handler, 403)) as files,
        playing(
            Stranger(honest_pull(theirs, files.url, change=presigned), str(theirs.head))
        ) as node,
        pytest.raises(UrlExpired, match="clocks"),
    ):
        sync.pull(Location.parse(node.url), Location.parse(str(tmp_path / "local")))


def test_a_server_that_is_overloaded_for_a_moment_is_asked_again(tmp_path):
    theirs = make_dataset(tmp_path / "theirs", rows=[5])
    asked: dict[str, int] = {}

    def moody(handler):
        asked[handler.path] = asked.get(handler.path, 0) + 1
        if asked[handler.path] == 1:
            send(handler, 503)
        else:
            send(handler, 200, (theirs.folder / handler.path.lstrip("/")).read_bytes())

    with answering(moody) as server:
        limits = ClientLimits(attempts=2)
        sync.pull(Location.parse(server.url), Location.parse(str(tmp_path / "l")), limits=limits)
    assert files_of(tmp_path / "l") == theirs.files()
    assert set(asked.values()) == {2}


def test_a_mirror_follows_the_source_and_outlives_a_broken_line(tmp_path):
    ours = make_dataset(tmp_path / "ours", rows=[5])
    local = tmp_path / "local"
    lines: list[str] = []
    with threaded_node(tmp_path / "node") as node:
        source, target = Location.parse(str(ours.folder)), Location.parse(node.smart + "/foo")
        token = node.token()
        sync.push(source, target, token=token)
        often = ("--mirror", "--every", "0.1", "--token", token)
        mirror = pull_process(node.smart + "/foo", local, *often, "--json")
        reader = threading.Thread(target=lambda: lines.extend(mirror.stdout), daemon=True)
        reader.start()
        try:
            _wait_for(lambda: _head(local) == str(ours.head))
            ours.add_rows(3)
            sync.push(source, target, token=token)
            _wait_for(lambda: len(_heads(lines)) == 2)
        finally:
            os.killpg(mirror.pid, signal.SIGINT)
            _, errors = mirror.communicate(timeout=90)
            reader.join(timeout=60)
    assert _heads(lines) == [str(ours.blocks[-2].hash), str(ours.head)]
    assert files_of(local) == ours.files()
    assert "Traceback" not in errors


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_mirror_ends_also_if_it_is_interrupted_while_python_cleans_up() -> None:
    class Interrupted:
        def __del__(self) -> None:
            signal.raise_signal(signal.SIGINT)

    def once() -> Outcome:
        Interrupted()
        pulls.append(1)
        raise Unreachable("no line", url="")

    pulls: list[int] = []
    with pytest.raises(KeyboardInterrupt):
        list(_mirrored(once, 0))
    assert len(pulls) == 1


def _heads(lines: list[str]) -> list[str]:
    """The heads said so far; a document that is still being written is not there yet."""
    decoder, found, text = json.JSONDecoder(), [], "".join(lines).strip()
    while text:
        try:
            document, end = decoder.raw_decode(text)
        except json.JSONDecodeError:
            break
        found.append(document["newHead"])
        text = text[end:].strip()
    return found


def _head(folder: Path) -> str | None:
    path = folder / "refs" / "head"
    return path.read_text() if path.is_file() else None


def _wait_for(condition) -> None:
    deadline = time.monotonic() + 90
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)
