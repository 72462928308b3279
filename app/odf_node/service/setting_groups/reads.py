"""Reads of rows, look-ups, shared tables and the processes that read for them."""

from __future__ import annotations

from pydantic import Field

from odf_storage.runtime.shared_settings import SharedSettings

from .words import MIB


class ReadSettings(SharedSettings):
    """Reads of rows, look-ups, shared tables and the processes that read for them."""

    max_tail_records: int = Field(
        10_000,
        gt=0,
        description="Most records answered (skipped ones included) by one tail request, or by one "
        "look-up.",
    )
    max_tail_bytes: int = Field(
        32 * MIB,
        ge=1024,
        description="Most bytes of records answered by one tail request or look-up; more: 413.",
    )
    max_read_bytes: int = Field(
        64 * 1024 * MIB,
        ge=1024,
        description="Most bytes answered by one read of rows; at that point the answer breaks off.",
    )
    learned_bounds: int = Field(
        200_000,
        ge=0,
        description="Least and greatest values of columns in slices that the service remembers, "
        "some 300 bytes each, so that filters open fewer slices; 0: none.",
    )
    page_statistics_cells: int = Field(
        20_000_000,
        ge=0,
        description="Most values that are read of new rows for statistics of columns on a page, "
        "where footers do not say them; a column beyond that has those of a sample.",
    )
    gateway_rewrite_bytes: int = Field(
        1024 * MIB,
        ge=0,
        description="Most bytes of a slice that is written anew for readers: from before a column "
        "was added, at /platform/kartothek; with rows taken back, for changes of a shared table.",
    )
    dead_rows_bytes: int = Field(
        64 * MIB, ge=1024, description="Most bytes that tell rows taken back of one shared table."
    )
    dead_rows_index_rows: int = Field(
        5_000_000,
        ge=0,
        description="Most rows of a dataset for which an index is kept, some 16 bytes each, that "
        "finds what a new block takes back; above, the whole dataset is read for such a block.",
    )
    sharing_new_files: int = Field(
        1_000, ge=0, description="Most versions that take rows back in one feed of changes."
    )
    iceberg_snapshots: int = Field(
        1_000, gt=0, description="Newest snapshots that are told with a table of Iceberg."
    )
    iceberg_deleted_rows: int = Field(
        5_000_000,
        ge=0,
        description="Most rows taken back of one slice that are told to clients of Iceberg.",
    )
    iceberg_memory_bytes: int = Field(
        64 * MIB,
        ge=0,
        description="Bytes of files made for clients of Iceberg that the service remembers.",
    )
    readers: int = Field(
        8,
        gt=0,
        description="Processes that read rows at a time for reads, as many for tails, and as many "
        "for look-ups; they are there only while they do. More wait a moment, then 503.",
    )
    readers_caller: int = Field(
        4,
        gt=0,
        description="Of these, for one account, or one address without an account; more wait a "
        "moment, then 429.",
    )
    reader_wait_s: float = Field(
        5.0, ge=0, description="Seconds a request waits until a process can read for it."
    )
    reader_memory_bytes: int = Field(
        1024 * MIB,
        ge=64 * MIB,
        description="Memory of a process that reads rows, beyond what it starts with; more: 413.",
    )
    read_held_bytes: int = Field(
        MIB,
        ge=0,
        description="Bytes of rows held back until the answer's end is known: answers up to this "
        "have a `Content-Length`, longer ones are sent as they come.",
    )
    read_held_s: float = Field(
        2.0,
        ge=0,
        description="Seconds that rows are held back at most: what a reader has by then is sent.",
    )
    reader_silent_s: float = Field(
        300.0,
        gt=0,
        description="Seconds a process that reads rows may take until the next piece of its "
        "answer; more: 503, or the answer breaks off.",
    )
    reader_idle_s: float = Field(
        60.0,
        gt=0,
        description="Seconds a client may take nothing of the rows it reads before they break off.",
    )
