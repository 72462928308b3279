"""The page of settings, docs/settings.md: made of the code, by topic, with those to decide on top.

Made anew by: python tests/app/test_settings_page.py > docs/settings.md
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from odf_node.service.settings import Settings
from odf_storage.runtime.environment import SharedSettings, variable_of, variables
from odf_workers.settings import WorkerSettings

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "settings.md"

DECIDE = {
    "ODF_STORE_DATA": "[backup](backup.md#what-to-keep)",
    "ODF_STORE_DATABASE_URL": "[operations](operations.md#deploying)",
    "ODF_STORE_OBJECTS_URL": "[operations](operations.md#deploying)",
    "ODF_STORE_SECRETS_KEYS": "[security](security.md)",
    "ODF_NODE_PUBLIC_URL": "[security](security.md)",
    "ODF_NODE_TENANCY": "[one tenant or many](tenancy.md)",
    "ODF_NODE_ALLOW_ANONYMOUS": "[security](security.md)",
    "ODF_NODE_MAX_BODY_BYTES": "[ingestion](ingestion.md#limits)",
    "ODF_WORKER_JOB_MEMORY_BYTES": "[sizing](sizing.md)",
    "ODF_WORKER_ENGINE_CONFINEMENT": "[engines](engines.md#what-a-query-can-reach)",
}
"""What everybody decides who runs a node for others, and the page that helps."""

TOPICS_OF_WORKER = {
    "spark_master": "Spark",
    "datafusion_process_bytes": "Queries and engines",
    "jobs": "Jobs",
    "max_row_bytes": "Rows, slices and merges",
    "poll_max_vanish_percent": "Polls, fetches and archives",
    "transform_max_rows": "Derivatives",
    "container_runtime": "Containers and metrics",
}
"""The class of a worker's settings lists them by topic; each topic begins with one of these."""

UNITS = (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10))
ANEW = "python tests/app/test_settings_page.py > docs/settings.md"
HEAD = """\
# Settings

This page is made of the code; `settings.example.env` has the same settings as a file to begin with.
A program takes them from the environment or from flags, and refuses names that it does not know
([commands](commands.md#settings)). Bytes and seconds are plain numbers: 1 GiB is `1073741824`.

## Ten to decide

Every other setting has a default that fits most nodes.
"""


def test_the_page_lists_every_setting_by_topic_with_its_default():
    page = _page()
    for name in {*variables(Settings), *variables(WorkerSettings)}:
        assert f"| `{name}` |" in page
    assert PAGE.read_text() == page, f"make it anew: {ANEW}"


def test_the_ten_to_decide_are_settings():
    assert len(DECIDE) == 10
    assert {*DECIDE} <= {*variables(Settings), *variables(WorkerSettings)}


def test_an_operator_reads_no_more_than_130_settings():
    assert len({*variables(Settings), *variables(WorkerSettings)}) <= 130


def _page() -> str:
    kinds = {**variables(Settings), **variables(WorkerSettings)}
    of = {name: WorkerSettings if "_WORKER_" in name else Settings for name in DECIDE}
    lines = [HEAD, "| setting | default | meaning | see |", "|---|---|---|---|"]
    lines += [f"{_row(of[name], kinds[name])} {see} |" for name, see in DECIDE.items()]
    for heading, topics in (
        ("Service and workers", [("", SharedSettings, SharedSettings.model_fields)]),
        ("Service", _topics_of_service()),
        ("Worker", _topics_of_worker()),
    ):
        lines += ["", f"## {heading}"]
        for topic, kind, names in topics:
            lines += ["", f"### {topic}"] if topic else []
            lines += ["", "| setting | default | meaning |", "|---|---|---|"]
            lines += [_row(kind, name) for name in names]
    return "\n".join(lines) + "\n"


def _topics_of_service() -> Iterator[tuple[str, type[SharedSettings], Iterable[str]]]:
    """Return a topic for each class that the settings of the service are made of."""
    for group in reversed(Settings.__bases__):
        own = [name for name in group.model_fields if name not in SharedSettings.model_fields]
        yield (group.__doc__ or "").strip().rstrip("."), Settings, own


def _topics_of_worker() -> Iterator[tuple[str, type[SharedSettings], Iterable[str]]]:
    names = [
        name for name in WorkerSettings.model_fields if name not in SharedSettings.model_fields
    ]
    begins = [names.index(first) for first in TOPICS_OF_WORKER]
    assert begins == [0, *sorted(begins[1:])], "topics follow the order of the class"
    for title, begin, end in zip(
        TOPICS_OF_WORKER.values(), begins, [*begins[1:], len(names)], strict=True
    ):
        yield title, WorkerSettings, names[begin:end]


def _row(kind: type[SharedSettings], name: str) -> str:
    field = kind.model_fields[name]
    meaning = (field.description or "").replace("|", "\\|")
    return f"| `{variable_of(kind, name)}` | {_default(name, field.default)} | {meaning} |"


def _default(name: str, value: object) -> str:
    if value is None or value == ():
        return "none"
    if isinstance(value, int) and "bytes" in name:
        for unit, size in UNITS:
            if value and value % size == 0:
                return f"{value // size:,} {unit}".replace(",", " ")
    return f"`{value}`"


if __name__ == "__main__":
    print(_page(), end="")
