"""Parsers of texts of strangers, for a reader: SQL for lineage of columns, Markdown for pages."""

from __future__ import annotations

from odf_protocol.metadata.events import SqlQueryStep, TransformSql

from ..lineage.lineage_columns import Cells, column_cells
from ..pages.frame.markdown import markdown
from ..readers.tasks import ColumnsTask, MarkdownTask


def columns(task: ColumnsTask) -> Cells | None:
    steps = tuple(SqlQueryStep(alias=alias, query=query) for alias, query in task.queries)
    return column_cells(TransformSql(engine=task.engine, queries=steps), task.inputs)


def page(task: MarkdownTask) -> str | None:
    found = markdown(task.text)
    return None if found is None else str(found)
