"""The aspects of a dataset's metadata that clients can request by name.

Each is the last event of its kind; an aspect that was never set is absent.
Source: reference node, `GET …/metadata`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from enum import StrEnum
from typing import Any

from odf_protocol.chain.state import ChainState
from odf_protocol.codec.manifests import to_data
from odf_protocol.errors import BadInput

from .schema_formats import SchemaFormat, written


class UnknownAspect(BadInput):
    """There is no aspect with this name."""


class Aspect(StrEnum):
    ATTACHMENTS = "attachments"
    INFO = "info"
    LICENSE = "license"
    REFS = "refs"
    SCHEMA = "schema"
    SEED = "seed"
    VOCAB = "vocab"


def parse_aspects(text: str) -> tuple[Aspect, ...]:
    """Parse names separated by commas, in any case. Raises `UnknownAspect`."""
    names = [name.strip().lower() for name in text.split(",") if name.strip()]
    unknown = [name for name in names if name not in list(Aspect)]
    if unknown:
        known = ", ".join(Aspect)
        raise UnknownAspect(f"unknown aspect {unknown[0][:50]!r}; known are {known}")
    return tuple(dict.fromkeys(Aspect(name) for name in names))


def describe(state: ChainState, aspects: Iterable[Aspect], form: SchemaFormat) -> dict[str, Any]:
    """Return the aspects as JSON, by name."""
    output: dict[str, Any] = {}
    for aspect in sorted(aspects):
        output.update(_ASPECTS[aspect](state, form))
    return output


def _event(name: str) -> Callable[[ChainState, SchemaFormat], dict[str, Any]]:
    def part(state: ChainState, _: SchemaFormat) -> dict[str, Any]:
        event = getattr(state, name)
        if event is None:
            return {}
        return {name: {key: value for key, value in to_data(event).items() if key != "kind"}}

    return part


def _refs(state: ChainState, _: SchemaFormat) -> dict[str, Any]:
    return {"refs": [{"name": "head", "blockHash": str(state.head)}]}


def _schema(state: ChainState, form: SchemaFormat) -> dict[str, Any]:
    schema = state.data_schema
    if schema is None:
        return {}
    return {"schema": written(schema, form), "schemaFormat": form.value}


def _seed(state: ChainState, _: SchemaFormat) -> dict[str, Any]:
    return {"seed": {"datasetId": str(state.dataset_id), "datasetKind": str(state.kind)}}


def _vocab(state: ChainState, _: SchemaFormat) -> dict[str, Any]:
    names = ("offsetColumn", "operationTypeColumn", "systemTimeColumn", "eventTimeColumn")
    return {"vocab": dict(zip(names, state.vocab.columns, strict=True))}


_ASPECTS: dict[Aspect, Callable[[ChainState, SchemaFormat], dict[str, Any]]] = {
    Aspect.ATTACHMENTS: _event("attachments"),
    Aspect.INFO: _event("info"),
    Aspect.LICENSE: _event("license"),
    Aspect.REFS: _refs,
    Aspect.SCHEMA: _schema,
    Aspect.SEED: _seed,
    Aspect.VOCAB: _vocab,
}
