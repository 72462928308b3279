"""Queries, Flight SQL, signatures of answers."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import Field

from odf_storage.runtime.shared_settings import SharedSettings

from .words import MIB


class QuerySettings(SharedSettings):
    """Queries, Flight SQL, signatures of answers."""

    query_processes: int = Field(
        3, gt=0, description="Queries that run at a time, each in a process of its own."
    )
    query_time_s: float = Field(
        60.0,
        gt=0,
        description="Seconds a query may take, waiting for its client aside; more: 413, or the "
        "answer breaks off.",
    )
    query_threads: int = Field(
        1,
        gt=0,
        le=64,
        description="Partitions a query is computed in. With more than one the order of rows "
        "without ORDER BY, and the last digits of sums, may differ from run to run; answers with "
        "a proof are computed in one.",
    )
    query_process_bytes: int = Field(
        1024 * MIB,
        ge=128 * MIB,
        description="Memory of the process of a query, beyond what it starts with; more: 413.",
    )
    query_spill_bytes: int = Field(
        4096 * MIB, ge=MIB, description="Longest file to which a query may spill rows."
    )
    query_links: Path | None = Field(
        None,
        description="Folder of the links by which a query finds its slices; none: memory "
        "(/dev/shm) where the system has it, else the data folder.",
    )
    query_max_bytes: int = Field(
        32 * MIB, ge=1024, description="Longest answer of a query; longer ones: 413, or break off."
    )
    query_max_rows: int = Field(
        1_000_000, gt=0, description="Most rows that one query may ask for."
    )
    query_text_bytes: int = Field(64 * 1024, gt=0, description="Longest text of a query, in bytes.")
    query_copies_bytes: int = Field(
        8192 * MIB,
        ge=0,
        description="Bytes of slices out of a bucket kept in the data folder for later queries.",
    )
    query_result_keep_s: int = Field(
        86_400, gt=0, description="Seconds for which rows of a query job can be read."
    )
    query_confinement: Literal["auto", "require", "off"] = Field(
        "auto",
        description="Confinement of processes of queries by the kernel: as far as it can (`auto`), "
        "wholly or not at all (`require`), or by limits only (`off`).",
    )
    flight_port: int | None = Field(
        None,
        ge=0,
        le=65535,
        description="Port of Flight SQL (gRPC) beside that of HTTP; 0 picks one, none: not served.",
    )
    flight_tls_key: Path | None = Field(None, description="Key (PEM) of TLS for Flight SQL.")
    flight_tls_certificates: Path | None = Field(None, description="Its certificates (PEM).")
    flight_calls: int = Field(
        32, gt=0, description="Calls of Flight SQL at a time; more are answered UNAVAILABLE."
    )
    signing_key: str | None = Field(
        None,
        repr=False,
        description="Ed25519 key that signs answers with a proof, 32 bytes in base64 or hex; "
        "none: proofs are answered 501.",
    )
    signing_key_file: Path | None = Field(
        None, description="A file with that key, instead of the key itself."
    )
    signing_keys_retired: tuple[str, ...] = Field(
        (),
        description="Public keys, as JSON of `did:key` texts, that signed earlier answers; they "
        "are published beside the key.",
    )
