"""Folders from which a child process imports our packages: those that this process has them from.

A child that does not read the environment would otherwise find the packages that are installed,
which need not be ours.
"""

from __future__ import annotations

from pathlib import Path

import odf_protocol
import odf_storage


def import_places(*files: str | None) -> tuple[str, ...]:
    """Return the folders around `odf_protocol`, `odf_storage` and the packages that begin in
    `files`: one in an installation, several in a checkout, which have nothing else in them."""
    begins = (odf_protocol.__file__, odf_storage.__file__, *files)
    return tuple(dict.fromkeys(str(Path(str(each)).resolve().parents[1]) for each in begins))
