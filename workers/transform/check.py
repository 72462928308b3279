"""A transform looked at before anything is committed: does it run, and what columns does it give.

It is executed on inputs without rows, so that what is said here is what a run would say.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from protocol.arrow_schema import from_arrow
from protocol.chain.schema_evolution import incompatibility
from protocol.chain.state import Vocab
from protocol.codec.manifests import from_data, to_data
from protocol.identity import DatasetAlias, DatasetId
from protocol.instant import Instant
from protocol.metadata.engine import TransformRequest
from protocol.metadata.events import SetTransform, SetVocab
from protocol.metadata.schema import DataSchema
from storage.contracts.transform_job import CheckPayload, CheckReceipt
from storage.stores import Stores

from ..engine.port import engine_for
from ..ingest.bench import Bench
from ..plan.transform import NO_SCHEMA
from ..slice_schema import IncompatibleSchema
from .chains import input_datasets
from .iteration import ask, empty_input, vocabulary
from .result import checked
from .run import engines_of

NOBODY = DatasetAlias.parse("check/check")


def run_check(stores: Stores, payload: CheckPayload, bench: Bench, *, now: Instant) -> CheckReceipt:
    """Look at a transform.

    Raises:
        InvalidQuery: facts `line` and `column` where the engine told them.
        UnsupportedEngine, InputsNotHere, EngineFailed.
        IncompatibleSchema: the dataset has data, and the result does not fit it.
    """
    definition = from_data(payload.definition, SetTransform)
    event = from_data(payload.vocab, SetVocab) if payload.vocab is not None else SetVocab()
    current = from_data(payload.current, DataSchema) if payload.current is not None else None
    inputs = input_datasets(stores, definition)
    engine = engine_for(definition.transform, engines_of(bench))
    for dataset, alias in inputs:
        if dataset.state().schema is None:
            return CheckReceipt(outcome="unknown", reason=f"{NO_SCHEMA}: {alias}")
    with tempfile.TemporaryDirectory(prefix="check-", dir=bench.scratch) as name:
        folder = Path(name)
        data, checkpoint = folder / "data.parquet", folder / "checkpoint"
        vocab = Vocab.of(event)
        request = TransformRequest(
            dataset_id=DatasetId(bytes(32)),
            dataset_alias=NOBODY,
            system_time=now,
            vocab=vocabulary(vocab),
            transform=definition.transform,
            query_inputs=tuple(empty_input(*item, folder) for item in inputs),
            next_offset=0,
            new_checkpoint_path=str(checkpoint),
            new_data_path=str(data),
        )
        response, heard = ask(engine, request, bench.meter)
        made = checked(response, data, checkpoint, vocab=vocab, schema=None, next_offset=0)
    schema = from_arrow(made.arrow)
    if current is not None and (problem := incompatibility(current, schema)) is not None:
        raise IncompatibleSchema(f"the result does not fit the data of the dataset: {problem}")
    return CheckReceipt(
        outcome="valid",
        schema=to_data(schema),
        warnings=tuple(heard.warnings),
        engine=engine.name,
        engine_version=engine.version,
    )
