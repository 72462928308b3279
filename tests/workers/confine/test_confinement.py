"""A confined process reaches its own folder and nothing else; each way is tried for real."""

from __future__ import annotations

import json
import logging
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from refusals import refusing

from odf_workers import confine
from odf_workers.confine import Rules, environment, landlock, launcher, program_reads, seccomp
from odf_workers.confine.apply import check_alone
from odf_workers.confine.rules import PLACES, SYSTEM_READS
from odf_workers.program import wiring as lifetime
from odf_workers.program.metrics import WorkerMetrics

CANARY = "canary-of-the-parent"
needs_kernel = pytest.mark.skipif(
    bool(confine.missing()), reason="this kernel has no Landlock of version 6, or no filter"
)


@dataclass(frozen=True, kw_only=True)
class Place:
    """A folder of the job, a secret beside it, and listeners that nobody may reach."""

    own: Path
    secret: Path
    given: dict[str, Any]

    @property
    def rules(self) -> Rules:
        probe = str(Path(__file__).parent)
        return Rules(reads=(*program_reads(), probe), writes=(str(self.own),), mode="require")

    def tries(self, *command: str, rules: Rules | None, env: dict[str, str]) -> dict[str, str]:
        """What the probe could reach. Without a command it confines itself."""
        given = {**self.given, "parent": os.getpid()}
        if rules is not None:
            given["rules"] = rules.text()
        probe = str(Path(__file__).with_name("probe.py"))
        done = subprocess.run(
            [*command, sys.executable, "-P", probe, json.dumps(given)],
            env={**env, "PYTHONPATH": os.pathsep.join(PLACES)},
            capture_output=True,
            text=True,
            timeout=60,
            cwd="/",
        )
        assert done.returncode == 0, done.stderr
        told: dict[str, str] = json.loads(done.stdout)
        return told


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    monkeypatch.setenv("ODF_STORE_SECRETS_KEYS", CANARY)
    own, secret = tmp_path / "own", tmp_path / "secret.key"
    own.mkdir()
    (own / "in").write_text("input")
    secret.write_text(CANARY)
    abstract, local = f"odf-test-{os.getpid()}", str(tmp_path / "socket")
    with ExitStack() as stack:
        servers = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(2)]
        for address in (local, "\0" + abstract):
            server = stack.enter_context(socket.socket(socket.AF_UNIX))
            server.bind(address)
            server.listen()
        given = {
            "own": str(own),
            "secret": str(secret),
            "tcp": servers[0].getsockname(),
            "allowed": servers[1].getsockname(),
            "local": local,
            "abstract": abstract,
        }
        yield Place(own=own, secret=secret, given=given)


def did(told: dict[str, str]) -> set[str]:
    return {name for name, outcome in told.items() if outcome.startswith("did")}


def test_a_free_process_reaches_everything_that_is_tried(place: Place) -> None:
    told = place.tries(rules=None, env=dict(os.environ))
    assert did(told) >= set(told) - {"parent memory", "trace parent", "parent environment"}
    assert CANARY in told["read beside"]


@needs_kernel
def test_a_process_that_confines_itself_reaches_its_own_folder_only(place: Place) -> None:
    rules = replace(place.rules, file_bytes=100_000)
    told = place.tries(rules=rules, env=environment())
    assert did(told) == {"read own", "write own", "own environment"}
    assert CANARY not in json.dumps(told)


@needs_kernel
def test_a_command_behind_the_launcher_reaches_what_its_rules_name(place: Place) -> None:
    """As a Java runtime runs: TCP at ports that are named, processes of its own."""
    rules = replace(
        place.rules, sockets="stream", connects=(place.given["allowed"][1],), binds=(0,)
    )
    told = place.tries(*launcher(rules), rules=None, env=environment())
    free = {"allowed tcp", "bind", "start", "fork", "long file"}
    assert did(told) == {"read own", "write own", "own environment", *free}
    assert CANARY not in json.dumps(told)


@needs_kernel
def test_local_sockets_are_scoped_where_they_are_possible(place: Place) -> None:
    told = place.tries(rules=replace(place.rules, sockets="any"), env=environment())
    assert not {"tcp", "abstract socket", "signal parent"} & did(told)


def test_the_environment_of_a_confined_process_is_made_of_names_that_hold_no_secrets(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("ODF_STORE_SECRETS_KEYS", "AWS_SECRET_ACCESS_KEY", "PGPASSWORD", "LC_ALL", "X"):
        monkeypatch.setenv(name, CANARY)
    made = environment({"TMPDIR": "/job"})
    assert [name for name, value in made.items() if value == CANARY] == ["LC_ALL"]
    assert made["TMPDIR"] == "/job"


def test_rules_survive_being_written_down() -> None:
    rules = Rules(reads=("/a",), connects=None, binds=(0,), sockets="any", cpu_s=3, mode="off")
    assert Rules.of_text(rules.text()) == rules
    with pytest.raises(ValueError):
        Rules.of_text('{"reed": []}')


def test_a_launcher_without_rules_or_command_runs_nothing() -> None:
    for arguments in ([], ["{}"], ["{}", "--"], ["[]", "--", "true"], ["{", "--", "true"]):
        done = subprocess.run(
            [sys.executable, "-P", "-m", "odf_workers.confine", *arguments],
            capture_output=True,
        )
        assert done.returncode == 126, arguments
        assert b"confine: " in done.stderr


def test_limits_hold_whatever_the_kernel_can_confine(tmp_path: Path) -> None:
    rules = Rules(mode="off", address_space=1 << 30, cpu_s=1)
    command = [*launcher(rules), sys.executable, "-c"]
    much = subprocess.run([*command, "x = bytearray(2 << 30)"], capture_output=True)
    assert b"MemoryError" in much.stderr
    long = subprocess.run([*command, "while True: pass"], capture_output=True, timeout=60)
    assert long.returncode in (-signal.SIGKILL, -signal.SIGXCPU)


def test_a_process_with_threads_is_not_confined_in_part() -> None:
    until = threading.Event()
    thread = threading.Thread(target=until.wait)
    thread.start()
    try:
        with pytest.raises(confine.CannotConfine):
            check_alone()
    finally:
        until.set()
        thread.join()


def test_the_filter_is_made_for_every_machine_we_know() -> None:
    for machine in ("x86_64", "aarch64"):
        for rules in (Rules(), Rules(starts=True, sockets="any"), Rules(sockets="stream")):
            steps = seccomp.program(rules, machine)
            ends = [at + 1 + max(skip, other) for at, (_, skip, other, _) in enumerate(steps)]
            assert max(ends) <= len(steps)
            assert all(0 <= value < 1 << 32 for *_, value in steps)


def test_a_kernel_that_cannot_confine_is_told_once_or_refused(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(landlock, "version", lambda: 3)
    monkeypatch.setattr(lifetime, "close_own_memory", lambda: None)
    with caplog.at_level(logging.WARNING, "odf.worker"):
        lifetime.check_confinement("auto")
    (said,) = caplog.messages
    assert "any address by TCP" in said
    assert "ODF_WORKER_ENGINE_CONFINEMENT" in said
    assert "any file" not in said
    with refusing("InvalidSetting", match="ODF_WORKER_ENGINE_CONFINEMENT"):
        lifetime.check_confinement("require")
    metrics = WorkerMetrics()
    metrics.confinement("auto")
    assert metrics.registry.get_sample_value("odf_worker_engines_confined", {"what": "tcp"}) == 0
    assert metrics.registry.get_sample_value("odf_worker_engines_confined", {"what": "files"}) == 1


def test_folders_of_the_machine_that_are_readable_hold_nothing_of_the_node() -> None:
    assert not [
        path for path in SYSTEM_READS if Path(path) in (Path("/"), Path.home(), Path("/etc"))
    ]
    roots = {Path(path) for path in program_reads()}
    assert Path(confine.__file__).parents[3] not in roots


def test_a_worker_keeps_others_of_its_user_out_of_its_memory() -> None:
    program = (
        "from odf_storage.runtime.processes import close_own_memory; import ctypes;"
        "close_own_memory(); print(ctypes.CDLL(None).prctl(3, 0, 0, 0, 0))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout.strip() == "0"
