"""Claims and limits as JSON for the checking process. Each schema is written only once."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from odf_protocol.chain.state import Vocab
from odf_protocol.codec.manifests import from_data, to_data
from odf_protocol.instant import Instant
from odf_protocol.metadata.events import DataSlice
from odf_protocol.metadata.schema import DataSchema
from odf_protocol.multihash import Multihash

from ..contents.claims import ClaimedColumns, SliceClaim
from ..contents.slice_limits import CheckLimits


def dump(claims: Sequence[SliceClaim], limits: CheckLimits) -> bytes:
    numbers: dict[int, int] = {}
    known: list[ClaimedColumns] = []
    for claim in claims:
        if id(claim.columns) not in numbers:
            numbers[id(claim.columns)] = len(known)
            known.append(claim.columns)
    said = {
        "ratio": limits.ratio,
        "rows": limits.rows,
        "values": limits.values,
        "columns": [_columns(one) for one in known],
        "claims": [
            [
                str(claim.block),
                claim.sequence_number,
                claim.system_time.ns,
                to_data(claim.declared),
                numbers[id(claim.columns)],
            ]
            for claim in claims
        ],
    }
    return json.dumps(said).encode()


def load(text: bytes) -> tuple[list[SliceClaim], CheckLimits]:
    said = json.loads(text)
    columns = [_loaded(one) for one in said["columns"]]
    claims = [
        SliceClaim(
            block=Multihash.parse(block),
            sequence_number=number,
            system_time=Instant(ns),
            declared=from_data(declared, DataSlice),
            columns=columns[index],
        )
        for block, number, ns, declared, index in said["claims"]
    ]
    return claims, CheckLimits(ratio=said["ratio"], rows=said["rows"], values=said["values"])


def _columns(columns: ClaimedColumns) -> dict[str, Any]:
    return {
        "schema": None if columns.schema is None else to_data(columns.schema),
        "names": columns.vocab.columns,
        "may_judge_nulls": columns.may_judge_nulls,
    }


def _loaded(said: dict[str, Any]) -> ClaimedColumns:
    offset, operation, system_time, event_time = said["names"]
    return ClaimedColumns(
        schema=None if said["schema"] is None else from_data(said["schema"], DataSchema),
        vocab=Vocab(
            offset_column=offset,
            operation_type_column=operation,
            system_time_column=system_time,
            event_time_column=event_time,
        ),
        may_judge_nulls=said["may_judge_nulls"],
    )
