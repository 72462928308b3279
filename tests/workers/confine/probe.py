"""What a process can reach: tried, and printed as JSON. A program of its own, which imports no
more of ours than it is told to."""

from __future__ import annotations

import ctypes
import json
import os
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path


def outcome(attempt: Callable[[], object]) -> str:
    try:
        return f"did: {attempt()!r}"[:200]
    except (OSError, subprocess.SubprocessError, ConnectionError) as refused:
        return f"refused: {type(refused).__name__} {getattr(refused, 'errno', '')}"


def connect(kind: int, family: int, address: object) -> object:
    with socket.socket(family, kind) as own:
        own.connect(address)  # type: ignore[arg-type]
        return "connected"


def bound(port: int) -> object:
    with socket.create_server(("127.0.0.1", port)) as own:
        return own.getsockname()[1] > 0


def traced(pid: int) -> object:
    """Seized, which unlike attaching does not stop it; let go when this process ends."""
    library = ctypes.CDLL(None, use_errno=True)
    if library.ptrace(0x4206, pid, None, None) < 0:
        raise OSError(ctypes.get_errno(), "ptrace")
    return "traced"


def main() -> None:
    given = json.loads(sys.argv[1])
    if "rules" in given:
        from odf_workers.confine import Rules, confine

        confine(Rules.of_text(given["rules"]))
    parent, secret, own = given["parent"], Path(given["secret"]), Path(given["own"])
    tried: dict[str, Callable[[], object]] = {
        "read beside": secret.read_text,
        "list beside": lambda: sorted(secret.parent.iterdir()),
        "write beside": lambda: (secret.parent / "new").write_text("x"),
        "passwords": lambda: Path("/etc/passwd").read_text(),
        "read own": lambda: (own / "in").read_text(),
        "write own": lambda: (own / "out").write_text("x"),
        "parent environment": lambda: Path(f"/proc/{parent}/environ").read_text(),
        "parent memory": lambda: os.pread(os.open(f"/proc/{parent}/mem", os.O_RDONLY), 1, 4096),
        "trace parent": lambda: traced(parent),
        "signal parent": lambda: os.kill(parent, 0),
        "tcp": lambda: connect(socket.SOCK_STREAM, socket.AF_INET, tuple(given["tcp"])),
        "allowed tcp": lambda: connect(socket.SOCK_STREAM, socket.AF_INET, tuple(given["allowed"])),
        "datagram": lambda: connect(socket.SOCK_DGRAM, socket.AF_INET, tuple(given["tcp"])),
        "local socket": lambda: connect(socket.SOCK_STREAM, socket.AF_UNIX, given["local"]),
        "abstract socket": lambda: connect(
            socket.SOCK_STREAM, socket.AF_UNIX, "\0" + given["abstract"]
        ),
        "bind": lambda: bound(0),
        "start": lambda: subprocess.run(["/bin/true"], check=True, capture_output=True),
        "fork": os.fork,
        "long file": lambda: (own / "long").write_bytes(bytes(200_000)),
        "own environment": lambda: dict(os.environ),
    }
    pid = os.getpid()
    told = {}
    for name, attempt in tried.items():
        told[name] = outcome(attempt)
        if os.getpid() != pid:
            os._exit(0)
    print(json.dumps(told))


if __name__ == "__main__":
    main()
