"""A stand-in for a container runtime, whose one image is DataFusion behind the engine protocol.

Containers cannot be run everywhere tests are. It takes the commands as podman
does; what is mounted is found by exchanging the paths inside for those outside.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[3]


def installed(folder: Path, **told: Any) -> Path:
    """The command; `told` may have it fail (`fails`), never answer (`silent`), or tell which
    images are here (`images`, of their names and digests) and can be had (`remote`)."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "told.json").write_text(json.dumps(told))
    path = folder / "runtime"
    path.write_text(
        f"#!{sys.executable}\nimport sys\nsys.path.insert(0, {str(ROOT)!r})\n"
        f"from tests.workers.engine.runtime import command\ncommand({str(folder)!r})\n"
    )
    path.chmod(0o755)
    return path


def calls(folder: Path) -> list[list[str]]:
    return [json.loads(line) for line in (folder / "calls").read_text().splitlines()]


def command(folder: str) -> None:
    base, arguments = Path(folder), sys.argv[1:]
    told = json.loads((base / "told.json").read_text())
    with (base / "calls").open("a") as log:
        log.write(json.dumps(arguments) + "\n")
    match arguments:
        case ["image", "inspect", image]:
            _inspect(base, told, image)
        case ["pull", _, image]:
            if image not in told.get("remote", {}):
                sys.exit("no such image")
            (base / "pulled").write_text(image)
        case ["run", *_]:
            if told.get("fails"):
                sys.exit("no room for it")
            if not told.get("silent"):
                _start(base, arguments)
        case ["container", "inspect", *_]:
            sys.stdout.write('{"Running": true}' if "{{json .State}}" in arguments else "{}")
        case ["port", *_]:
            _port(base / "port")
        case ["logs", *_]:
            sys.stdout.write("waiting for something")
        case ["kill", _] if (base / "pid").exists():
            os.kill(int((base / "pid").read_text()), signal.SIGTERM)


def _port(told: Path) -> None:
    if not told.exists():
        sys.exit("no public port")
    sys.stdout.write(f"127.0.0.1:{told.read_text()}\n")


def _inspect(base: Path, told: dict[str, Any], image: str) -> None:
    pulled = base / "pulled"
    here = dict(told.get("images", {image: []}))
    if pulled.exists():
        here[pulled.read_text()] = told["remote"][pulled.read_text()]
    known = {digest: digests for digests in here.values() for digest in digests} | here
    if image not in known:
        sys.exit("not known")
    sys.stdout.write(json.dumps([{"Id": "aa" * 32, "RepoDigests": known[image]}]))


def _start(base: Path, arguments: list[str]) -> None:
    bound = [a.removeprefix("--mount=") for a in arguments if a.startswith("--mount=")]
    fields = [dict(part.partition("=")[::2] for part in mount.split(",")) for mount in bound]
    mounts = {field["target"]: field["source"] for field in fields}
    code = (
        f"import sys; sys.path.insert(0, {str(ROOT)!r}); "
        f"from tests.workers.engine.runtime import inside; inside({str(base)!r}, {mounts!r})"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    (base / "pid").write_text(str(process.pid))


def inside(base: str, prefixes: dict[str, str]) -> None:
    """What runs in the container: an engine that knows its own paths only."""
    from odf_workers.engines.datafusion.engine import DataFusionEngine
    from odf_workers.engines.remote.server import serve

    class Inside(DataFusionEngine):
        def execute_transform(self, request: Any, listener: Any = None) -> Any:
            return super().execute_transform(_outside(request, prefixes), listener)

        def execute_raw_query(self, request: Any, listener: Any = None) -> Any:
            return super().execute_raw_query(_outside(request, prefixes), listener)

    _, port = serve(Inside(), "127.0.0.1:0")
    partial = Path(base, "port.part")
    partial.write_text(str(port))
    partial.replace(Path(base, "port"))
    time.sleep(120)


def _outside(value: Any, prefixes: dict[str, str]) -> Any:
    """Every text of a request that is a path inside, as it is outside."""
    from msgspec.structs import replace

    if isinstance(value, str):
        for there, here in prefixes.items():
            if value.startswith(there + "/"):
                return here + value[len(there) :]
        return value
    if isinstance(value, tuple):
        return tuple(_outside(item, prefixes) for item in value)
    if type(value).__name__ in ("TransformRequest", "TransformRequestInput", "RawQueryRequest"):
        names = value.__struct_fields__
        return replace(value, **{n: _outside(getattr(value, n), prefixes) for n in names})
    return value
