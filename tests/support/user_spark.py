"""A Spark of a user, in a process of its own, which does what a test says.

The Spark of the test run is a worker's: confined, it reaches no node.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

HERE = str(Path(__file__).parent)


class UserSpark:
    """Runs Python beside a session that is called `spark`."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def run(self, code: str, **names: Any) -> Any:
        """The JSON-compatible value that `code` gives to `found`, among `names`.

        Raises `AssertionError` with the message of an exception in it.
        """
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps([textwrap.dedent(code), names]) + "\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        assert answer, "the process of Spark has ended"
        is_good, found = json.loads(answer)
        assert is_good, found
        return found


@contextmanager
def user_spark(scratch: Path) -> Iterator[UserSpark]:
    """One that ends with the block."""
    command = [sys.executable, __file__, str(scratch)]
    with (
        (scratch / "spark.log").open("w") as log,
        subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True
        ) as process,
    ):
        try:
            yield UserSpark(process)
        finally:
            assert process.stdin is not None
            process.stdin.close()
            process.wait(60)


def _serve(scratch: Path) -> None:
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what Spark prints is no answer
    from odf_workers.engines.spark.session import SparkOptions, start_spark

    spark = start_spark(SparkOptions(scratch=scratch / "scratch", confinement="off"))
    for line in sys.stdin:
        code, names = json.loads(line)
        try:
            namespace = {**names, "spark": spark}
            exec(code, namespace)
            answer = [True, namespace.get("found")]
        except Exception as error:
            answer = [False, f"{type(error).__name__}: {error}"]
        answers.write(json.dumps(answer, default=str) + "\n")
        answers.flush()
    spark.stop()


if __name__ == "__main__":
    sys.path.remove(HERE)
    _serve(Path(sys.argv[1]))
