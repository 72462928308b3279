"""What a process that forks others for questions says about each, to whoever asked for it."""

from __future__ import annotations

import struct

BIRTH = struct.Struct("=q")
"""The number of a new process, which comes with a handle of it before anything else."""
ENDING = struct.Struct("=i")
"""How it ended, as `waitpid` has it."""
