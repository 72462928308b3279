"""Images for a real container runtime, made of this machine: no registry, nothing to download.

An image is a handful of empty folders and the command it runs; the programs are mounted from
the machine, read-only.
"""

from __future__ import annotations

import io
import json
import secrets
import subprocess
import sys
import tarfile
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from odf_workers.engines.remote.runtimes import ContainerRules
from odf_workers.settings import CONTAINER_ENVIRONMENT, environment

ROOT = Path(__file__).parents[3]
RUNTIMES = ("docker", "podman")
_PLACES = tuple(
    Path(place)
    for place in ("/usr", "/bin", "/lib", "/lib64", sys.base_prefix, sys.prefix, ROOT)
    if Path(place).exists()
)
_EMPTY = ("tmp", "proc", "sys", "dev", "etc", "opt/engine")


@cache
def missing(runtime: str) -> str | None:
    """Why images cannot be run with it here; None if they can."""
    try:
        _run(runtime, "run", "--detach", "--rm", *_mounts(), _image(runtime, ["/bin/true"]))
    except FileNotFoundError:
        return f"{runtime} is not installed"
    except subprocess.CalledProcessError as bad:
        return f"{runtime} runs no containers here: {bad.stderr.decode().strip()[-300:]}"
    return None


def rules(runtime: str, *, memory: str = "1g") -> ContainerRules:
    return ContainerRules(
        runtime=runtime,
        environment=environment(CONTAINER_ENVIRONMENT),
        memory=memory,
        options=[*_mounts(), f"--workdir={ROOT}"],
    )


def image(runtime: str, command: Sequence[str]) -> str:
    """The name of an image that runs the command; `forget` removes it."""
    return _image(runtime, command)


def forget(runtime: str) -> None:
    """Remove what tests of this process have made."""
    names = [name for made, name in _made if made == runtime]
    if names:
        subprocess.run([runtime, "rmi", "--force", *names], capture_output=True, check=False)
    _made[:] = [one for one in _made if one[0] != runtime]


_PREFIX = f"odf-test-{secrets.token_hex(4)}"
_made: list[tuple[str, str]] = []


def _image(runtime: str, command: Sequence[str]) -> str:
    name = f"{_PREFIX}-{len(_made)}:1"
    entry = f"ENTRYPOINT {json.dumps(list(command))}"
    _run(runtime, "import", "--change", entry, "-", name, given=_files())
    _made.append((runtime, name))
    return name


def _files() -> bytes:
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as tar:
        for name in (*_EMPTY, *(str(place)[1:] for place in _mounted())):
            folder = tarfile.TarInfo(name)
            folder.type, folder.mode = tarfile.DIRTYPE, 0o1777 if name == "tmp" else 0o755
            tar.addfile(folder)
        for place in _PLACES:
            if place.is_symlink():
                link = tarfile.TarInfo(str(place)[1:])
                link.type, link.linkname = tarfile.SYMTYPE, str(place.readlink())
                tar.addfile(link)
    return made.getvalue()


def _mounted() -> list[Path]:
    return [place for place in dict.fromkeys(_PLACES) if not place.is_symlink()]


def _mounts() -> list[str]:
    return [f"--volume={place}:{place}:ro" for place in _mounted()]


def _run(*arguments: str, given: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        arguments,
        input=given,
        env=environment(CONTAINER_ENVIRONMENT),
        capture_output=True,
        check=True,
        timeout=120,
    )
