"""A stand-in for a container runtime: takes `run …` as podman does, acts as a script says.

Containers cannot be run everywhere tests are; what is tested is our side of the protocol.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from odf_workers.engines.remote.runtimes import ContainerRules

_SCRIPT = """#!{python}
import json, pathlib, sys
told = json.loads(pathlib.Path({told!r}).read_text())
seen = pathlib.Path({seen!r})
log = json.loads(seen.read_text()) if seen.exists() else []
log.append(sys.argv[1:])
seen.write_text(json.dumps(log))
if sys.argv[1] != "run":
    sys.exit(0)
options = dict(a[2:].partition("=")[::2] for a in sys.argv if a.startswith("--"))
out = pathlib.Path(dict(p.partition("=")[::2] for p in options["mount"].split(","))["source"])
pathlib.Path({env!r}).write_text(pathlib.Path(options["env-file"]).read_text())
for name, key in (("new-etag", "new_etag"), ("new-last-modified", "new_last_modified")):
    if told.get(key) is not None:
        (out / name).write_text(told[key])
if told.get("has_more"):
    (out / "new-has-more-data").write_text("")
if told.get("sleep"):
    import time; time.sleep(told["sleep"])
sys.stdout.write(told.get("stdout", ""))
sys.stdout.flush()
sys.exit(told.get("exit", 0))
"""


def ran_by(runtime: str | Path | None) -> ContainerRules:
    return ContainerRules(runtime=None if runtime is None else str(runtime))


class Runtime:
    """The command, and what it was asked."""

    def __init__(self, folder: Path, told: dict[str, Any]) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._told, self._seen = folder / "told.json", folder / "seen.json"
        self._env = folder / "env"
        self._told.write_text(json.dumps(told))
        self.path = folder / "runtime"
        parts = {"told": str(self._told), "seen": str(self._seen), "env": str(self._env)}
        self.path.write_text(_SCRIPT.format(python=sys.executable, **parts))
        self.path.chmod(0o755)

    @property
    def calls(self) -> list[list[str]]:
        return list(json.loads(self._seen.read_text()))

    @property
    def environment(self) -> dict[str, str]:
        lines = self._env.read_text().splitlines()
        return dict(line.partition("=")[::2] for line in lines)
