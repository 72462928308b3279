"""A verification as text: a line for each problem and, if `verbose`, for each block; totals."""

from __future__ import annotations

from .verify_job import VerifiedDataset, VerifyAnswer
from .verify_report import CheckedBlock, Problem, VerifyReport, report_of

MAX_LINE = 1000


def report_text(report: VerifyReport, *, verbose: bool = False) -> str:
    """Return the report on one dataset as text."""
    lines = [_block_line(block) for block in reversed(report.data_blocks)] if verbose else []
    lines += [_line(problem) for problem in report.problems]
    lines += ["note: " + _line(note) for note in report.notes]
    lines += ["warning: " + _line(warning) for warning in report.warnings]
    verdict = "valid" if report.ok else f"NOT VALID, {len(report.problems)} problem(s)"
    lines.append(
        f"{verdict}: {report.blocks} block(s), {report.objects} object(s), "
        f"{report.records} record(s), {report.size} bytes\nhead {report.head}"
    )
    return "\n".join(lines)


def answer_text(answer: VerifyAnswer, *, verbose: bool = False) -> str:
    """Return the results for a dataset, and for its inputs if they were verified, as text."""
    return "\n".join(_dataset_text(found, verbose=verbose) for found in answer.datasets)


def _dataset_text(found: VerifiedDataset, *, verbose: bool) -> str:
    name = _one_line(found.alias or found.id)
    if found.error is not None:
        return f"{name}: {_one_line(found.error)}"
    lines = [f"{name}:", report_text(report_of(found.report), verbose=verbose)]
    if found.replayed or found.not_verifiable:
        by = _one_line(", ".join(found.engines)) or "nobody"
        lines.append(
            f"{found.replayed} execution(s) made again with the same result by {by}, "
            f"{found.not_verifiable} not verifiable here"
        )
    return "\n".join(lines)


def _block_line(block: CheckedBlock) -> str:
    verdicts = " ".join(part for part in (block.objects, block.replay) if part) or "not looked at"
    return (
        f"#{block.sequence_number} {block.block} {block.event}: {verdicts}, "
        f"{block.records} record(s), {block.size} bytes"
    )


def _line(problem: Problem) -> str:
    number = "" if problem.sequence_number is None else f"#{problem.sequence_number} "
    parts = [part for part in (problem.block, problem.path) if part]
    kinds = (problem.kind,) if problem.kind == problem.reason else (problem.kind, problem.reason)
    return _one_line(f"{', '.join(kinds)}: {number}{' '.join(parts)}: {problem.message}")


def _one_line(text: str) -> str:
    """Replace characters that could move a terminal's cursor: the text may be from strangers."""
    shown = "".join(char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in text)
    return shown if len(shown) <= MAX_LINE else shown[: MAX_LINE - 1] + "…"
