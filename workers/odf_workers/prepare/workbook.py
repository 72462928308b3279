"""A sheet of a workbook (xlsx, xlsm, xlsb, xls, ods) as CSV, which a source of CSV reads.

The specification has no read step for workbooks. A library reads them cell by cell, in a process
with little memory (`workbook_program.py`): a short file may describe a sheet of any size.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from odf_protocol.errors import BadInput

from ..runtime.command import Command, PrepareLimits, output_of
from ..runtime.progress import Content, opened
from .run import entry_names, unzip

PROGRAM = Path(__file__).with_name("workbook_program.py")
SECONDS = 300.0
MEMORY_BYTES = 2 << 30
OLE, ZIP = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", b"PK\x03\x04"
_OPEN_DOCUMENT = b"application/vnd.oasis.opendocument.spreadsheet"
SHOWN_SHEETS = 20


class UnusableWorkbook(BadInput):
    """A workbook cannot be read, or its source does not tell the sheet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """The characters in which the rows are written, and the limit of columns."""

    separator: str
    quote: str
    escape: str | None
    columns: int


def is_workbook(content: Content, limits: PrepareLimits) -> bool:
    """Whether a file is a workbook, by its first bytes and the names of its parts. Raises
    `MalformedArchive`, `DecompressionTooLarge`."""
    with opened(content) as stream:
        begin = stream.read(len(OLE))
    if begin == OLE:
        return True
    if not begin.startswith(ZIP):
        return False
    names = set(entry_names(content, limits))
    if "mimetype" in names:
        return b"".join(unzip(content, "mimetype", limits)).startswith(_OPEN_DOCUMENT)
    return bool(names & {"xl/workbook.xml", "xl/workbook.bin"})


def sheet_as_csv(
    content: Content, sheet: str | None, dialect: Dialect, target: Path, limits: PrepareLimits
) -> tuple[str, ...]:
    """Write a sheet to `target` as CSV, whose folder exists; without a name, the only visible sheet
    that has values. Return warnings for the publisher.

    Raises:
        UnusableWorkbook.
    """
    with tempfile.TemporaryDirectory(prefix="workbook-", dir=target.parent) as folder:
        source = content
        if not isinstance(source, Path):
            source = Path(folder) / "workbook"
            source.write_bytes(content.content)  # type: ignore[union-attr]
        request = {
            "source": str(source.resolve()),
            "target": str(target.resolve()),
            "sheet": sheet,
            "separator": dialect.separator,
            "quote": dialect.quote,
            "escape": dialect.escape,
            "columns": dialect.columns,
            "memory": MEMORY_BYTES,
            "bytes": limits.max_bytes,
        }
        command = Command(
            arguments=(sys.executable, "-I", str(PROGRAM), json.dumps(request)),
            folder=Path(folder),
            environment={"PATH": os.defpath, "LANG": "C.UTF-8"},
            seconds=SECONDS,
            failure=UnusableWorkbook,
        )
        try:
            report = json.loads(b"".join(output_of(command)))
        except UnusableWorkbook as bad:
            raise UnusableWorkbook(
                "the workbook cannot be read within the memory and time of this node: save the "
                "sheet as CSV",
                **bad.facts,
            ) from None
    if "problem" in report:
        raise UnusableWorkbook(_reason(report, sheet, dialect))
    return tuple(report["told"])


def _reason(report: dict[str, Any], sheet: str | None, dialect: Dialect) -> str:
    names = ", ".join(map(repr, report.get("sheets", ())[:SHOWN_SHEETS]))
    match report["problem"]:
        case "no sheet":
            return f"the workbook has no sheet {sheet!r}; it has {names}"
        case "sheets":
            return f"the workbook has several sheets ({names}); odf-node/sheet names one"
        case "empty":
            return "no visible sheet of the workbook has values; odf-node/sheet names another one"
        case "columns":
            return f"the sheet has {report['found']} columns, at most {dialect.columns} are taken"
    return f"the workbook cannot be read ({report.get('said', '')})"
