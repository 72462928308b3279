"""Coverage-guided fuzzing of one target: `python tests/fuzz/run.py TARGET --seconds 600`.

The known answers and earlier finds are the first inputs. An input that raises anything but a
`NodeError` is kept in `tests/fuzz/crashes/<target>/<sha256>`, one for each place it came
from, and the run goes on; one that kills the process, takes too long or too much memory
ends it and is kept as well. Prints executions, coverage and crashes at the end.
Needs the extra `fuzz`: `make fuzz` installs it.
"""

from __future__ import annotations

import argparse
import hashlib
import re
import subprocess
import sys
import traceback
from pathlib import Path

from odf_protocol.errors import code_of

ROOT = Path(__file__).parents[2]
CORPUS = ROOT / ".cache" / "fuzz"
RSS_LIMIT_MIB = 1024
INPUT_SECONDS = 5
FOUND = "FOUND "


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("target")
    parser.add_argument("--seconds", type=int, default=600)
    parser.add_argument("--inner", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.inner:
        fuzz(options.target, options.seconds)
        return 0
    return watch(options.target, options.seconds)


def watch(target: str, seconds: int) -> int:
    """Run the fuzzer in a process of its own, pass on what it says, and sum it up."""
    command = [sys.executable, __file__, target, "--seconds", str(seconds), "--inner"]
    executions = coverage = features = finds = 0
    with subprocess.Popen(command, stderr=subprocess.STDOUT, stdout=subprocess.PIPE) as process:
        for line in process.stdout or ():
            text = line.decode("utf-8", "replace").rstrip()
            print(text, flush=True)
            finds += text.startswith(FOUND)
            if pulse := re.match(r"#(\d+)\s.*\bcov: (\d+) ft: (\d+)", text):
                executions, coverage, features = map(int, pulse.groups())
    if process.returncode and not executions:
        return process.returncode
    killed = process.returncode != 0
    print(
        f"{target}: {executions} executions, coverage {coverage} edges ({features} features), "
        f"{finds + killed} crashes" + (" (the last one ended the run)" if killed else "")
    )
    return 1 if finds or killed else 0


def fuzz(name: str, seconds: int) -> None:
    """Never returns: libFuzzer ends the process."""
    import atheris

    sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "support")]
    with atheris.instrument_imports(include=["odf_protocol"]):
        from tests.fuzz.catalog import CRASHES, TARGETS
    if name not in TARGETS:
        sys.exit(f"the targets are {', '.join(TARGETS)}")
    target, finds, corpus = TARGETS[name], CRASHES / name, CORPUS / name
    for folder in (finds, corpus):
        folder.mkdir(parents=True, exist_ok=True)
    for seed in target.seeds():
        (corpus / hashlib.sha256(seed).hexdigest()).write_bytes(seed)
    places: set[str] = set()

    def one(data: bytes) -> None:
        try:
            target.run(data)
        except Exception as problem:
            place = place_of(problem)
            if place not in places:
                places.add(place)
                (finds / hashlib.sha256(data).hexdigest()).write_bytes(data)
                print(f"{FOUND}{place}: {problem!r:.300}", flush=True)

    atheris.Setup(
        [
            sys.argv[0],
            f"-max_total_time={seconds}",
            f"-max_len={target.max_bytes}",
            f"-rss_limit_mb={RSS_LIMIT_MIB}",
            f"-timeout={INPUT_SECONDS}",
            f"-artifact_prefix={finds}/",
            "-print_final_stats=1",
            str(corpus),
            str(finds),
        ],
        one,
    )
    atheris.Fuzz()


def place_of(problem: Exception) -> str:
    """Kind of failure and the innermost line of ours, so that one fault is kept once."""
    ours = [
        frame
        for frame in traceback.extract_tb(problem.__traceback__)
        if frame.filename.startswith(str(ROOT)) and ".venv" not in frame.filename
    ]
    last = ours[-1]
    return f"{code_of(problem)} at {Path(last.filename).relative_to(ROOT)}:{last.lineno}"


if __name__ == "__main__":
    sys.exit(main())
