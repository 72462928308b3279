"""The content of the page of a dataset, from the use cases of the API. This module has no HTML."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlsplit

from markupsafe import Markup

from odf_protocol.chain.state import ChainState
from odf_storage.datasets.job_payloads import ingest_job, poll_job, transform_job
from odf_storage.datasets.node.naming import SINGLE_OWNER
from odf_storage.runtime.features import loaded
from odf_storage.stores.ports.values import Failed, JobStatus, Schedule, Succeeded

from ....client.nodes.limits import age_text, one_line
from ...auth.access import Action
from ...catalogs.catalogs import Catalogs
from ...datasets.datasets import description
from ...derivatives.derivatives import derivation
from ...features import features
from ...http.answers import extension_of
from ...limits.shares import AllTaken, ShareTaken
from ...limits.texts import MARKDOWN_CHARS
from ...lineage import lineage
from ...read.file_lists import list_files
from ...readers.tasks import MarkdownTask, Profiled
from ..frame.cells import fields_of, kinds_of
from ..frame.views import ROWS, Views
from ..frame.views import newest as newest_rows
from .blocks import Visit, newest
from .query_form import Telling, answered, examples
from .statistics import column_table, lineage_drawing
from .viewer import newest_table

if TYPE_CHECKING:
    from ..frame.pictures import Figure

_log = logging.getLogger("odf.node")
COLUMNS = 40
BLOCKS = 10
SUMMARY_CHARS = 200
"""Limit of the sentence that a link to the page is shown with elsewhere."""
FILES = 5
CARDS = "/v/card"
"""Beginning of the addresses of share cards."""
STEPS = 3
"""Number of lineage steps that are shown in each direction."""
EDGES = 100
RUNS = 20
RUN_KINDS = frozenset({ingest_job.KIND, poll_job.KIND, transform_job.KIND})
WARNINGS, WARNING_CHARS = 5, 1000
MARKDOWN = (".md", ".markdown")
DEFAULT_SOURCE = "default"


@dataclass(frozen=True)
class PagePart:
    """A section that a feature adds to the page of a dataset. A `html` that is no `Markup` is
    shown as text."""

    title: str
    html: str


def _more_parts(visit: Visit) -> list[PagePart]:
    """Return the sections of features. One that fails is logged, and the page goes without it."""
    parts = []
    for feature in features():
        if feature.page_part:
            try:
                part = loaded(feature.page_part)(visit)
            except Exception:
                _log.exception("the feature %s made no part of a page", feature.name)
            else:
                parts += [] if part is None else [part]
    return parts


def dataset(visit: Visit, query: str | None) -> dict[str, Any]:
    """Return the content of the page: description, age, size, rows, columns, the result of a
    query, blocks, files, and lineage."""
    views, entry, state = visit.views, visit.entry, visit.state
    shown = description(views.stores, views.access, entry, visit.base)
    fields = fields_of(state.data_schema)
    slices = len(views.outlines.of(visit.dataset, indexed=False)[0].slices)
    rows = newest_rows(views, entry, visit.caller, skip=0, limit=ROWS, changelog=False)
    columns, profiled, is_profiled_soon = column_table(visit, COLUMNS)
    figures, chosen = drawn_of(visit, profiled)
    allowed = views.access.grants(visit.actor, entry)
    attachments = state.attachments.attachments.items if state.attachments else ()
    return {
        "dataset": shown,
        "summary": sentence_of(shown),
        "card": _card_address(visit),
        "owner": str(entry.alias.account or SINGLE_OWNER),
        "changed_ago": _ago(visit, shown["updatedAt"]),
        "slices": slices,
        "schedules": [schedule_line(each) for each in views.stores.schedules.of_dataset(entry.id)],
        "derivation": derivation(views.derivatives, visit.actor, entry, state),
        "transform": _queries(state.transform),
        "failing": _failing(visit, in_full=Action.WRITE in allowed),
        "runs": _runs(visit, in_full=Action.WRITE in allowed),
        "attachments": [
            document_of(views, visit.caller, item.path, item.content) for item in attachments
        ],
        "license_url": _web_link(state.license.website_url if state.license else None),
        "may_write": Action.WRITE in allowed,
        "posting": _posting(state) if Action.WRITE in allowed else None,
        "ways": _ways(visit),
        "rows": {
            "table": newest_table(visit, rows, ROWS),
            "problem": rows.problem,
            "is_unsure": rows.is_unsure,
        },
        "standing": rows.standing,
        "more_rows": (state.num_records if rows.standing is None else rows.standing) > ROWS,
        "columns": columns,
        "more_columns": max(0, len(fields) - COLUMNS),
        "sampled": 0 if profiled is None else max(map(len, profiled.sample.values()), default=0),
        "profiled": 0 if profiled is None else profiled.profile.rows,
        "is_profiled_soon": is_profiled_soon,
        "asked": answered(visit, query),
        "figures": figures,
        "examples": examples(visit, chosen),
        "blocks": newest(visit, BLOCKS),
        "files": list_files(
            views.stores,
            views.stores.blocks,
            entry,
            f"{visit.path}/",
            at=None,
            before=None,
            limit=FILES,
        )["files"],
        "linked": _linked(visit, len(fields)),
        "more_parts": _more_parts(visit),
        **_lineage(visit),
    }


def drawn_of(visit: Visit, found: Profiled | None) -> tuple[tuple[Figure, ...], Telling]:
    """Return the figures of the dataset, and the columns that tell most."""
    if found is None:
        return (), Telling()
    from ..frame.pictures import (
        SampledRows,
        category,
        picture,
        telling,
    )  # not needed to start

    vocab, kinds = visit.state.vocab, kinds_of(visit.state.data_schema)
    system = frozenset({vocab.offset_column, vocab.operation_type_column, vocab.system_time_column})

    def draw() -> tuple[tuple[Figure, ...], Telling]:
        rows = SampledRows(found.sample, kinds)
        own = [name for name in rows.values if name not in system | {vocab.event_time_column}]
        counted, numbers = category(rows, own), telling(rows, own)
        chosen = Telling(counted and counted[0], next(iter(numbers), None))
        return picture(rows, vocab.event_time_column, system), chosen

    return visit.views.drawn.of(visit.entry.id, found, draw)


def sentence_of(shown: Mapping[str, Any]) -> str:
    """Return the sentence with which a link to the page is shown elsewhere."""
    return one_line(shown["description"] or f"{shown['records']:,} rows", SUMMARY_CHARS)


def _ways(visit: Visit) -> Any:
    from .loading import ways  # not needed to start

    return ways(visit.base, visit.alias, is_open=visit.is_open)


def _card_address(visit: Visit) -> str | None:
    """Return the address of the picture beside such a link, which changes with the head; None if
    not everybody may read the dataset."""
    address = f"{visit.base}{CARDS[1:]}/{quote(visit.alias)}?head={visit.state.head}"
    return address if visit.is_open else None


def _runs(visit: Visit, *, in_full: bool) -> dict[str, Any]:
    """Return how many rows the last runs left out as late, and, for accounts that may write, the
    warnings of the last one, which may quote posted rows."""
    jobs = visit.views.stores.jobs.page(
        dataset=visit.entry.id,
        kinds=RUN_KINDS,
        statuses={JobStatus.SUCCEEDED},
        limit=RUNS,
        newest_first=True,
    )
    results = [job.outcome.result for job in jobs if isinstance(job.outcome, Succeeded)]
    warnings = results[0].get("warnings") or [] if results and in_full else []
    return {
        "count": len(results),
        "late": sum(int(result.get("rowsLate") or 0) for result in results),
        "warnings": [one_line(str(text), WARNING_CHARS) for text in warnings[:WARNINGS]],
    }


def _failing(visit: Visit, *, in_full: bool) -> dict[str, Any] | None:
    """Return how many polls failed since the last one that succeeded, and for accounts that may
    write why the last one did: the reason may quote the source. None if the last one succeeded."""
    jobs = visit.views.stores.jobs
    if visit.state.polling_source is None:
        return None
    for failing in jobs.failing(poll_job.KIND, dataset=visit.entry.id, limit=1):
        job = jobs.get_all([failing.last]).get(failing.last)
        last = None if job is None else job.outcome
        return {
            "count": failing.count,
            "since": str(failing.since),
            "why": one_line(last.message, WARNING_CHARS)
            if in_full and isinstance(last, Failed)
            else None,
        }
    return None


def _linked(visit: Visit, width: int) -> dict[str, Any]:
    """Return the dataset's metadata for catalogues, without columns if there are too many."""
    catalogs = Catalogs(visit.views.stores, visit.views.access, visit.views.outlines)
    document = catalogs.croissant(visit.entry, visit.base)
    return document if width <= COLUMNS else {**document, "recordSet": []}


def _ago(visit: Visit, instant: str) -> str:
    now = visit.views.clock()
    return age_text(instant, datetime.fromtimestamp(now.millis / 1000, UTC))


def schedule_line(schedule: Schedule) -> dict[str, Any]:
    """Return when the schedule runs, in words, and its next time."""
    every = f"every {schedule.every_s} s" if schedule.cron is None else schedule.cron
    return {
        "when": every if schedule.cron is None else f"{every} ({schedule.time_zone})",
        "paused": schedule.paused,
        "next": None if schedule.next_at is None else str(schedule.next_at),
    }


def _queries(definition: Any) -> list[str]:
    if definition is None:
        return []
    transform = definition.transform
    steps = [step.query for step in transform.queries or ()]
    return steps or ([transform.query] if transform.query else [])


def document_of(views: Views, caller: str, path: str, content: str) -> dict[str, Any]:
    """Return an attachment; Markdown also as HTML, unless it is too long or takes too much."""
    html = None
    if path.lower().endswith(MARKDOWN) and len(content) <= MARKDOWN_CHARS:
        with suppress(ShareTaken, AllTaken):
            html = views.lineage.texts.answer(MarkdownTask(text=content), caller)
    safe = None if html is None else Markup(html)  # noqa: S704 - the renderer escapes HTML
    return {"path": path, "content": content, "html": safe}


def _web_link(url: str | None) -> str | None:
    """Return the address if it is safe as a link (http, https); strangers write it."""
    return url if url and urlsplit(url).scheme in ("http", "https") else None


def _posting(state: ChainState) -> dict[str, Any] | None:
    """Return a file name for the first push source, and its name if a post must give it."""
    if not state.push_sources:
        return None
    name = min(state.push_sources)
    read = state.push_sources[name].read
    is_named = list(state.push_sources) != [DEFAULT_SOURCE]
    return {"file": f"rows.{extension_of(read)}", "source": name if is_named else None}


def _lineage(visit: Visit) -> dict[str, Any]:
    """Return the inputs and the users of the dataset as edges; hidden datasets have no alias."""
    graph = lineage.lineage_of(visit.views.lineage, visit.actor, visit.entry, up=STEPS, down=STEPS)
    names: dict[str, str | None] = {str(one): item.alias for one, item in graph.known.items()}
    names |= {str(one): None for one in graph.unknown}
    edges = [(str(one), str(other)) for one, other in graph.edges]
    return {
        "edges": [
            {"input": names.get(one), "output": names.get(other)} for one, other in edges[:EDGES]
        ],
        "more_edges": max(0, len(edges) - EDGES),
        "drawing": lineage_drawing(str(graph.center), names, edges) if edges else None,
    }
