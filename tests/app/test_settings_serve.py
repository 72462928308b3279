"""`odf-node serve` and `odf-node token` as processes and commands; workers kept alive."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import httpx
import pytest
from click.testing import CliRunner
from refusals import refusing
from servers import free_port, wait_until
from service import serving

from odf_node.cli.machine.admin import parse_expiry, token
from odf_node.cli.machine.serve import welcome
from odf_node.service.processes.supervisor import Supervisor, worker_command
from odf_node.service.settings import Settings, load_settings
from odf_protocol.instant import Instant

COMMAND = Path(sys.executable).parent / "odf-node"
NOW = Instant.parse("2050-01-01T00:00:00Z")


def test_a_node_starts_says_what_to_do_next_and_ends_on_a_signal(tmp_path):
    port = free_port()
    words = ["serve", "--port", str(port), "--data", str(tmp_path / "data"), "--workers", "0"]
    process = subprocess.Popen([COMMAND, *words], stdout=subprocess.PIPE, text=True)
    url = f"http://127.0.0.1:{port}"

    def answers():
        try:
            return httpx.get(f"{url}/system/health").status_code == 200
        except httpx.HTTPError:
            return False

    try:
        wait_until(answers, "the node")
        process.send_signal(signal.SIGTERM)
        said, _ = process.communicate(timeout=90)
    finally:
        process.kill()
    assert process.returncode == 0
    assert url in said
    assert "odf-node token create" in said
    assert "curl" in said


def test_an_address_in_use_is_told(tmp_path):
    import socket

    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        words = ["serve", "--port", port, "--data", str(tmp_path), "--workers", "0"]
        done = subprocess.run(
            [COMMAND, *words], capture_output=True, text=True, timeout=60, check=False
        )
    assert done.returncode == 1
    assert port in done.stderr


def _run(*words):
    done = CliRunner().invoke(token, [str(word) for word in words], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.stdout.strip()


def test_tokens_are_made_listed_and_revoked(tmp_path):
    where = ("--data", tmp_path)
    plain = _run("create", "--account", "alice", *where)
    assert plain.startswith("ka_")
    assert len(plain) == 61
    made = json.loads(
        _run("create", "--account", "ALICE", "--scope", "read", "--expires", "1d", "--json", *where)
    )
    assert made["account"] == "alice"
    listed = json.loads(_run("list", "--account", "alice", "--json", *where))
    assert [sorted(item["scopes"]) for item in listed if item["id"] == made["id"]] == [["read"]]
    assert len(listed) == 2
    assert not any(made["token"] in str(item) for item in listed)
    _run("revoke", made["id"], *where)
    assert "revoked" in _run("list", "--account", "alice", *where)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("60s", "2050-01-01T00:01:00Z"),
        ("12h", "2050-01-01T12:00:00Z"),
        ("30d", "2050-01-31T00:00:00Z"),
        ("2051-01-01T00:00:00Z", "2051-01-01T00:00:00Z"),
    ],
)
def test_an_expiry_is_an_instant_or_a_duration(text, expected):
    assert parse_expiry(text, NOW) == Instant.parse(expected)


@pytest.mark.parametrize("text", ["", "d", "-1d", "1w", "0s", "99999999999d", "tomorrow", "1.5h"])
def test_an_expiry_that_is_neither_is_refused(text):
    with refusing("UnreadableExpiry"):
        parse_expiry(text, NOW)


def test_workers_are_called_by_command_line_alone(tmp_path):
    settings = Settings(data=tmp_path, database_url="postgresql://x", objects_url="s3://b")
    command = worker_command(settings)
    assert command[:4] == [sys.executable, "-P", "-m", "odf_workers.main"]
    assert command[4:] == [
        *("--data", str(tmp_path)),
        *("--database-url", "postgresql://x"),
        *("--objects-url", "s3://b"),
        *("--parent-pid", str(os.getpid())),
        *("--jobs", "others"),
    ]
    assert "odf_workers" not in {name.split(".")[0] for name in _modules_of_the_service()}


def test_queries_have_no_worker_of_their_own_on_a_cluster_that_the_first_one_takes(monkeypatch):
    assert load_settings().query_workers == 1
    monkeypatch.setenv("ODF_WORKER_SPARK_MASTER", "spark://127.0.0.1:7077")
    assert load_settings().query_workers == 0
    assert load_settings(query_workers=2).query_workers == 2
    monkeypatch.setenv("ODF_WORKER_SPARK_CORES", "4")
    assert load_settings().query_workers == 1
    monkeypatch.delenv("ODF_WORKER_SPARK_CORES")
    monkeypatch.setenv("ODF_WORKER_SPARK_MASTER", "local[4]")
    assert load_settings().query_workers == 1


def test_a_worker_imports_nothing_from_the_folder_that_the_node_was_started_in(tmp_path):
    for name in ("odf_node", "odf_workers"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("raise SystemExit('imported')")
    command = [*worker_command(Settings(data=tmp_path / "data")), "--help"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def _modules_of_the_service():
    probe = (
        "import sys; from odf_node.service import main; "
        "from odf_node.service.processes import server, supervisor; "
        "print('\\n'.join(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=True)
    return done.stdout.split()


def test_a_worker_that_dies_is_started_again_and_ends_with_the_service(tmp_path):
    born = tmp_path / "born"
    script = f"open({str(born)!r}, 'a').write('x'); import time; time.sleep(300)"
    workers = Supervisor([sys.executable, "-c", script], 1, patience_s=5)
    workers.start()
    try:
        wait_until(lambda: born.exists(), "the worker")
        (first,) = workers.pids()
        os.kill(first, signal.SIGKILL)
        wait_until(lambda: born.read_text() == "xx", "the second worker")
        (second,) = workers.pids()
    finally:
        workers.stop()
    assert second != first
    assert workers.pids() == []
    with pytest.raises(ProcessLookupError):
        os.kill(second, 0)


def test_a_worker_that_nobody_needs_is_not_started(tmp_path):
    born, needed = tmp_path / "born", []
    script = f"open({str(born)!r}, 'a').write('x')"
    workers = Supervisor(
        [sys.executable, "-c", script], 1, patience_s=5, is_needed=lambda: bool(needed)
    )
    workers.start()
    try:
        time.sleep(0.5)
        assert not born.exists()
        needed.append("a query")
        wait_until(born.exists, "the worker")
    finally:
        workers.stop()


def test_readiness_says_when_no_worker_starts(tmp_path):
    with serving(tmp_path / "node") as service, service.http() as client:
        health = service.node.worker_health
        command = [sys.executable, "-c", "raise SystemExit(3)"]
        workers = Supervisor(command, 1, patience_s=1, health=health)
        workers.start()
        try:
            wait_until(lambda: health.trouble() is not None, "workers that do not start")
            told = client.get("/system/health", params={"type": "readiness"})
            assert (told.status_code, told.json()["degraded"]) == (200, True)
            assert "ended with code 3" in told.json()["reason"]
        finally:
            workers.stop()


@pytest.mark.parametrize(("limits", "fits"), [((256, 4096), True), ((256, 256), False)])
def test_descriptors_are_raised_as_far_as_the_system_allows_or_said_to_be_few(limits, fits):
    probe = (
        "import resource, sys\n"
        f"resource.setrlimit(resource.RLIMIT_NOFILE, {limits})\n"
        "from odf_storage.runtime.processes import raise_limit\n"
        "few = raise_limit(3000)\n"
        "print(resource.getrlimit(resource.RLIMIT_NOFILE)[0], few)"
    )
    done = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=True)
    soft, _, few = done.stdout.strip().partition(" ")
    assert int(soft) == limits[1]
    assert ("ulimit -n 3000" in few) is not fits


def test_a_worker_that_does_not_listen_is_killed(tmp_path):
    ready = tmp_path / "ready"
    script = (
        "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN);"
        f"open({str(ready)!r}, 'w').close(); time.sleep(300)"
    )
    workers = Supervisor([sys.executable, "-c", script], 1, patience_s=0.5)
    workers.start()
    wait_until(lambda: ready.exists(), "the worker")
    began = time.monotonic()
    workers.stop()
    assert time.monotonic() - began < 100
    assert workers.pids() == []


def test_the_welcome_fits_the_tenancy(tmp_path):
    assert "/weather/ingest" in welcome(Settings(data=tmp_path), 8080)
    shared = welcome(Settings(data=tmp_path, tenancy="multi", host="0.0.0.0"), 8080)
    assert "http://127.0.0.1:8080/NAME/weather/ingest" in shared


def test_a_node_that_shows_everything_says_so_when_it_starts(tmp_path):
    shown = welcome(Settings(data=tmp_path, anonymous_reads="all"), 8080)
    assert "private ones, too (ODF_NODE_ANONYMOUS_READS=all)" in shown
    assert "--visibility" not in shown
    closed = welcome(Settings(data=tmp_path), 8080)
    assert "private ones" not in closed
    assert "--visibility public" in closed
