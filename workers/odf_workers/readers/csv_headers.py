"""Compare the first record of a CSV file with the columns that its source declares."""

from __future__ import annotations

from collections.abc import Sequence

from odf_protocol.csv_header import HeaderMismatch, Matched, match, names_columns
from odf_protocol.source_options import HeaderRule

from ..runtime.content import Content, opened
from ..slices.frame import BadRow, InputTooLarge, Limits
from .csv_records import CsvFormat, CsvRecords, check_decoded


def matched(
    content: Content,
    form: CsvFormat,
    names: Sequence[str],
    rule: HeaderRule,
    limits: Limits,
    errors: str,
) -> Matched | None:
    """Match the fields of the file with the columns; None if the file is empty, so that there is no
    header.

    Raises:
        HeaderMismatch.
        BadRow: the header has more or fewer fields than there are columns, and its names do not
            count.
    """
    with opened(content) as stream:
        head = next(iter(CsvRecords(stream, form, limits, errors=errors)), None)
    if head is None:
        return None
    check_decoded(head)
    if len(head.fields) != len(names) and rule is HeaderRule.POSITION:
        reason = f"{len(names)} fields expected, {len(head.fields)} found"
        raise BadRow(reason, line=head.line)
    try:
        return match(head.fields, names, rule)
    except HeaderMismatch as bad:
        raise HeaderMismatch(bad.message, **{**bad.facts, "line": head.line}) from None


def refuse_header(content: Content, form: CsvFormat, names: Sequence[str], limits: Limits) -> None:
    """Raise `HeaderMismatch` if a file has a header although its source declares none."""
    with opened(content) as stream:
        records = iter(CsvRecords(stream, form, limits, errors="surrogateescape"))
        try:
            first = next(records, None)
        except (BadRow, InputTooLarge):  # reported with the rows
            return
    if first is not None and names_columns(first.fields, names):
        raise HeaderMismatch(
            "the first line names the columns, and the source says that there is no header "
            "(`header: true` would say that there is one)",
            line=first.line,
        )
