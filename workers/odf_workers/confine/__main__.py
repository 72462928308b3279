"""`python -m odf_workers.confine RULES -- COMMAND …`: run the command confined.

`python -m odf_workers.confine --missing` prints as JSON what code of strangers could reach here.
"""

from __future__ import annotations

import dataclasses
import json
import os
import sys

from .apply import PARTS, CannotConfine, confine, missing
from .rules import Rules

UNABLE = 126
"""Exit code that shells use for a command that cannot be run."""


def main(given: list[str]) -> int:
    """Run the command; return only if that fails, or if none was given to run."""
    if given == ["--missing"]:
        sys.stdout.write(json.dumps([PARTS[what] for what in missing()]) + "\n")
        return 0
    try:
        text, separator, *command = given
        if separator != "--" or not command:
            raise ValueError("RULES -- COMMAND …")
        confine(dataclasses.replace(Rules.of_text(text), starts=True))
        os.execvp(command[0], command)  # noqa: S606 - by path or PATH; no shell
    except (ValueError, TypeError, OSError, CannotConfine) as bad:
        sys.stderr.write(f"confine: {bad}\n")
    return UNABLE


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
