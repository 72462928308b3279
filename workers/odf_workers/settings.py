"""All settings of a worker: names, defaults, meanings. Only this module reads its environment.

Variables are `ODF_WORKER_` and the name in capitals; settings shared with the service are in
`odf_storage/runtime/environment.py`. Unknown variables are refused.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, ClassVar, Literal

from pydantic import Field, IPvAnyNetwork

from odf_storage.runtime import environment as old_settings
from odf_storage.runtime.environment import SharedSettings, read_settings

from .confine import Mode
from .engines.remote.runtimes import ContainerRules

CONTAINER_ENVIRONMENT = (
    "PATH",
    "HOME",
    "XDG_RUNTIME_DIR",
    "DBUS_SESSION_BUS_ADDRESS",
    "DOCKER_HOST",
    "DOCKER_CONFIG",
    "DOCKER_CONTEXT",
    "DOCKER_CERT_PATH",
    "DOCKER_TLS_VERIFY",
    "CONTAINER_HOST",
    "CONTAINERS_CONF",
    "CONTAINERS_STORAGE_CONF",
    "REGISTRY_AUTH_FILE",
)
"""Variables that a container runtime needs: paths and addresses. It receives no others, since these
may contain secrets."""


def environment(names: Iterable[str]) -> dict[str, str]:
    """Return the given variables that are set."""
    return {name: os.environ[name] for name in names if name in os.environ}


Jobs = Literal["all", "queries", "others"]
"""Which jobs a worker takes: every one, queries of readers on Spark alone, or all but these."""


class WorkerSettings(SharedSettings):
    """Settings of a worker, immutable after they are read."""

    PREFIX: ClassVar[str] = "ODF_WORKER_"

    spark_master: str = Field("local[2]", description="Spark master URL.")
    spark_driver_memory: str = Field("1g", description="Heap of the Spark driver.")
    spark_executor_memory: str | None = Field(
        None,
        pattern=r"^[0-9]+[kmgtKMGT]$",
        description="Heap of an executor on a cluster, as Spark writes it; default: as Spark is "
        "configured, else 1g.",
    )
    spark_cores: int | None = Field(
        None,
        gt=0,
        description="Most cores of a standalone cluster that this worker takes; default: as Spark "
        "is configured, else all, and the next worker waits for them.",
    )
    spark_executor_wait_s: float = Field(
        600.0,
        ge=0,
        description="Seconds that a job waits on a cluster without any executor, until the worker "
        "starts another Spark, which registers with the cluster anew; 0: for ever.",
    )
    spark_page_port: int = Field(
        0,
        ge=0,
        le=65535,
        description="Port of Spark's own page about jobs, tasks and executors, on the machine of "
        "the driver; everybody who reaches it sees plans of queries. A local Spark answers there "
        "to its own machine only. 0: none.",
    )
    datafusion_process_bytes: int = Field(
        2 << 30,
        gt=0,
        description="All the memory of the process of a query on DataFusion; more ends the query. "
        "Rows spill to disk beyond a quarter of it.",
    )
    query_s: float = Field(
        3600.0,
        gt=0,
        description="How long one query may take, and how much processor time on DataFusion.",
    )
    query_result_bytes: int = Field(
        1 << 30, gt=0, description="Longest result of a query that runs as a job; more: it fails."
    )
    max_query_bytes: int = Field(
        256 << 10, gt=0, description="Longest text of the queries of a transform or a preprocess."
    )
    engines: dict[str, str] = Field(
        {},
        description="More query engines by name, as JSON: an address (`host:port`) that sees the "
        "same files, or `image:` and the name of an image that `container_runtime` runs. One of "
        "another version (`spark@3.5`) only repeats what that version computed.",
    )
    engine_confinement: Mode = Field(
        "auto",
        description="Whether the processes that run queries are kept by the kernel from files, "
        "addresses and processes other than their own: `auto`, as far as it can; `require`, or "
        "the worker does not start; `off`.",
    )
    jobs: Jobs = Field(
        "all",
        description="Which jobs the worker takes: `queries` of readers on Spark, all `others`, or "
        "`all`; then a query may hold back posts as long as `query_s`.",
    )
    idle_s: float = Field(
        0.0, ge=0, description="Seconds without a job after which the worker ends; 0: never."
    )
    warm_up: bool = Field(
        True,
        description="Whether Spark starts and does small jobs of its own beside the first jobs of "
        "a worker, so that the first ones that need Spark are quick; it takes ten seconds of "
        "processor time. Without, a local Spark starts with the first job that needs it.",
    )
    scratch: Path | None = Field(
        None, description="Where jobs keep temporary files; default: the system's temporary folder."
    )
    lease_s: float = Field(30.0, gt=0, description="How long a claimed job is ours without a sign.")
    job_attempts: int = Field(
        5,
        gt=0,
        description="How often a job is begun that meets a database or an object store that is "
        "away each time; then it is given up, and a derivative paused.",
    )
    job_deaths: int = Field(
        3,
        gt=0,
        description="How many workers or Sparks a job may end; then it is given up. It is begun "
        "again after the jobs of others.",
    )
    job_s: float = Field(
        3600.0, gt=0, description="How long one job may take its worker; a longer one is ended."
    )
    job_memory_bytes: int = Field(
        4 << 30,
        gt=0,
        description="Memory the worker itself may take for a job, engines aside; a job that takes "
        "more is ended. Never more than 80 % of what the control group of the worker may take.",
    )
    max_row_bytes: int = Field(
        32 << 20, gt=0, description="Longest single record; a single value may have half of it."
    )
    watermark_ahead_s: float = Field(
        86_400.0,
        ge=0,
        description="Seconds ahead of the clock up to which event times move the watermark of a "
        "root; rows with later ones are stored, and the receipt warns. A source may name others "
        "(`odf-node/watermarkAheadSeconds`).",
    )
    micro_batch_bytes: int = Field(
        8 << 20,
        ge=0,
        description="A file or body of fewer bytes, once it is unpacked, is read, merged and "
        "written in the worker's process; a larger one by Spark's executors. Objects of a dataset "
        "that is verified count the same way. 0: all by Spark, except rows that a `preprocess` "
        "query reads, and datasets of a bucket that are verified beside a local Spark.",
    )
    verify_task_bytes: int = Field(
        4 << 30,
        ge=0,
        description="Memory that a task of Spark may take to verify slices; one that cannot be "
        "read within it is reported as unreadable. 0: no bound.",
    )
    slice_rows: int = Field(
        1 << 20, gt=0, description="Most rows of a data slice; a larger batch becomes several."
    )
    slice_bytes: int = Field(
        256 << 20, gt=0, description="Most bytes of values of a data slice, before compression."
    )
    merge_state_bytes: int = Field(
        16 << 30,
        ge=0,
        description="Disk for what merges keep of histories; 0: each reads all slices.",
    )
    poll_max_vanish_percent: int = Field(
        50, ge=0, le=100, description="Rows of a polled snapshot that may vanish at once; 100: all."
    )
    fetch_networks: tuple[IPvAnyNetwork, ...] = Field(
        (), description="Ranges sources may be fetched from, beside the public network."
    )
    fetch_roots: tuple[Path, ...] = Field(
        (), description="Folders whose files sources may read; none: no local files."
    )
    fetch_buckets: tuple[str, ...] = Field(
        (),
        description="Buckets whose files sources may read, or prefixes in them, as "
        "s3://bucket/prefix or s3+https://host/bucket/prefix; none: no buckets. The worker's own "
        "credentials are used.",
    )
    fetch_s: float = Field(3600.0, gt=0, description="How long one fetch may take.")
    max_fetched_bytes: int = Field(
        16 << 30, gt=0, description="Most bytes of one fetch, and of what is unpacked from it."
    )
    max_unpack_ratio: int = Field(
        1_000, gt=0, description="How often larger an archive may become when it is unpacked."
    )
    pipe_commands: tuple[str, ...] = Field(
        (), description="Commands sources may pipe their data through; none: no commands."
    )
    template_variables: tuple[str, ...] = Field(
        (), description="Variables of the environment that templates of sources may read."
    )
    transform_max_rows: int = Field(
        50_000_000, gt=0, description="Most rows of input one iteration of a derivative reads."
    )
    transform_max_bytes: int = Field(
        4 << 30, gt=0, description="Most bytes of input one iteration of a derivative reads."
    )
    transform_cache_bytes: int = Field(
        8 << 30, ge=0, description="Bytes of remote slices kept on disk for the next iterations."
    )
    reset_derivatives_on_diverged_input: bool = Field(
        False, description="Compute a derivative anew when the history of an input was rewritten."
    )
    container_runtime: str | None = Field(
        None,
        description="Runs images of sources and engines: podman, docker or a path; none: no "
        "images.",
    )
    container_options: tuple[str, ...] = Field(
        (),
        description="More options of the runtime's `run` for every container, as JSON, such as "
        '`["--memory=2g"]` instead of 1g; they prevail over the node\'s own.',
    )
    engine_network: str | None = Field(
        None,
        description="Network of the runtime that images of engines run in, for example one that "
        "leads nowhere; default: the runtime's own.",
    )
    metrics_port: int = Field(
        0, ge=0, le=65535, description="Port a worker answers Prometheus on; 0: none."
    )


def container_rules(settings: WorkerSettings) -> ContainerRules:
    return ContainerRules(
        runtime=settings.container_runtime,
        environment=environment(CONTAINER_ENVIRONMENT),
        options=settings.container_options,
    )


def load_settings(given: Mapping[str, Any]) -> WorkerSettings:
    """Read settings from the environment; given values other than None take precedence. Raises the
    same errors as `read_settings`."""
    return read_settings(WorkerSettings, os.environ, given)


def warn_of_old_names() -> None:
    """Log one warning about old names; call this after the log is set up."""
    old_settings.warn_of_old_names(os.environ)
