"""Queries that no engine can run: then rows that are said to be their result are invented.

An engine that refuses a query proves this only by what holds for every engine of its dialect, in
any version: the text is no query, or it names a column or table that nobody has. A function may
exist elsewhere, and so may a construct. A name may be defined by the query in a way that only
other versions understand. So a name counts only if no input, step or alias has it in any case.

An answer of an engine holds only a message, so messages decide; those of other engines than ours
prove nothing.

Executions of another engine: what a repetition by this engine proves, and what it does not.

Rows, intervals and watermark decide. A checkpoint decides nothing: each engine chooses what to
store, if anything. If this engine follows a rule of its own, a different result is no proof either:

- it keeps state where another computes from new rows alone;
- it splits a correction if the query selects only one half of it;
- it uses the last watermark of an input without a new one;
- it refuses the query, or casts a column. `never_runs.py` has the refusals that are proof.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from msgspec.structs import replace

from odf_protocol.errors import BadInput, Damaged, NodeError, NotFound
from odf_protocol.metadata.events import ExecuteTransform
from odf_protocol.metadata.schema import DataField, DataTypeList, DataTypeOption, DataTypeStruct
from odf_storage.datasets.dataset.dataset import Dataset
from odf_storage.stores.ports.values import ObjectKind

from ...engines.iteration.inputs import holds_state, is_ours
from ...engines.port.port import NO_QUERY, InvalidQuery, steps_of, without_place
from ...engines.port.refusals import NO_COLUMN, NO_SQL, NO_TABLE, PARTS
from ...plan.transform import InputPlan, TransformPlan
from ...runtime.command import Command, output_of
from ...slices.schema import IncompatibleSchema
from . import sql_grammar
from .iteration import checkpoint_file
from .result import InputFiles, MadeResult, work_folder

GRAMMAR_S = 20.0
"""Seconds after which it stays unknown whether a text is a query."""
_PART = re.compile(PARTS)
_TOKEN = re.compile(
    r"(?P<text>'(?:''|\\.|[^'\\])*+'?)|(?P<skip>--[^\n]*+|/\*.*?(?:\*/|\Z)|\s++)"
    r"|(?P<name>`(?:``|[^`])*+`?|\"(?:\"\"|[^\"])*+\"?|[^\W\d]\w*+)|(?P<sign>->|\w++|.)",
    re.DOTALL,
)
_BEFORE_A_VALUE = re.compile(
    "select|distinct|all|where|and|or|not|on|by|having|when|then|else|case|between|in|i?like|rlike|"
    "regexp|is|from|join|inner|left|right|full|outer|cross|semi|anti|using|over|partition|order|"
    "sort|cluster|distribute|group|union|except|intersect|limit|qualify|lateral|values|with|"
    "recursive|interval|escape|filter|within|exists|any|some",
    re.IGNORECASE,
)
"""Words behind which a name stands for a value or table; behind another name it is an alias."""
_WITHOUT_BRACKETS = re.compile(
    r"current_\w+|local\w*|session_\w+|system_\w+|sys\w+|user|now|today|row\w+"
)
"""Functions of some dialects that are called without brackets."""


def runs_nowhere(
    refused: InvalidQuery, plan: TransformPlan, inputs: Sequence[Dataset], scratch: Path
) -> bool:
    """Whether an engine's refusal proves that no engine of the dialect can run the query."""
    said = without_place(refused.engine_words or refused.message)
    if said.startswith(NO_QUERY):
        return True
    queries = [step.query for step in steps_of(plan.transform)]
    if NO_SQL.match(said):
        return any(not _may_be_query(query, scratch) for query in queries)
    named = next(
        (found[1] for each in (*NO_COLUMN, *NO_TABLE) if (found := each.match(said))), None
    )
    if named is None:
        return False
    try:
        known = {name for dataset in inputs for name in _columns(dataset)}
    except BadInput:  # an old form of schema that cannot be read here
        return False
    for item, dataset in zip(plan.inputs, inputs, strict=True):
        known |= {item.alias.casefold(), str(dataset.id).casefold()}
        known |= {part.casefold() for part in re.split(r"[/.]", item.alias)}
    known |= {step.alias.casefold() for step in steps_of(plan.transform) if step.alias}
    for query in queries:
        known |= set(_defined(query))
    return _is_unknown(named, known)


def _is_unknown(named: str, known: set[str]) -> bool:
    """Whether a name, perhaps with its table before it, has a part that nobody defines. What is
    behind a known part may be a member of its value."""
    if named.casefold() in known:
        return False
    for at, found in enumerate(_PART.finditer(named)):
        part = _plain(found[0])
        if part not in known:
            return at > 0 or _WITHOUT_BRACKETS.fullmatch(part) is None
    return False


def _columns(dataset: Dataset) -> Iterator[str]:
    """Yield the names of all columns that the dataset has now, and of their members."""
    schema = dataset.state(dataset.head()).data_schema
    yield from _names(() if schema is None else schema.fields)


def _names(fields: Iterable[DataField]) -> Iterator[str]:
    for field in fields:
        yield field.name.casefold()
        kind = field.type
        while isinstance(kind, DataTypeOption | DataTypeList):
            kind = kind.inner if isinstance(kind, DataTypeOption) else kind.item_type
        if isinstance(kind, DataTypeStruct):
            yield from _names(kind.fields)


def _defined(query: str) -> Iterator[str]:
    """Yield the names that the query may define: aliases, and parameters of functions in it."""
    tokens = [found for found in _TOKEN.finditer(query) if found.lastgroup != "skip"]
    for at, token in enumerate(tokens):
        if token[0] == "->":
            yield from _parameters(tokens, at)
        elif token.lastgroup == "name" and at > 0 and _is_alias(tokens, at):
            yield _plain(token[0])


def _is_alias(tokens: Sequence[re.Match[str]], at: int) -> bool:
    """Whether a name stands behind the value or table that it names, or before a part of WITH."""
    before = tokens[at - 1]
    if [each[0].lower() for each in tokens[at + 1 : at + 3]] == ["as", "("]:
        return True
    if before.lastgroup == "name":
        return _BEFORE_A_VALUE.fullmatch(before[0]) is None
    return before.lastgroup == "text" or before[0] in (")", "]", "}") or before[0][0].isdigit()


def _parameters(tokens: Sequence[re.Match[str]], arrow: int) -> Iterator[str]:
    """Yield the names before an arrow: one, or several in brackets."""
    at = arrow - 1
    if at >= 0 and tokens[at][0] == ")":
        while at >= 0 and tokens[at][0] != "(":
            at -= 1
    yield from (_plain(each[0]) for each in tokens[max(at, 0) : arrow])


def _plain(name: str) -> str:
    """Return a name without quotes, in the form in which names are compared."""
    if name[0] in '`"':
        return name[1:].removesuffix(name[0]).replace(name[0] * 2, name[0]).casefold()
    return name.casefold()


class _Unknown(BadInput):
    """It is not known whether a text is a query, or it is known to be none (`exit_code`)."""


def _may_be_query(query: str, scratch: Path) -> bool:
    with work_folder(scratch, "grammar-") as folder:
        text = Path(folder) / "query"
        text.write_text(query, encoding="utf-8", errors="replace")
        asked = Command(
            arguments=(sys.executable, "-P", "-m", sql_grammar.__name__),
            folder=Path(folder),
            environment={},
            seconds=GRAMMAR_S,
            failure=_Unknown,
            stdin=text,
        )
        try:
            list(output_of(asked))
        except _Unknown as told:
            return told.facts.get("exit_code") != sql_grammar.NO_QUERY
    return True


STATE = "this engine keeps state for the query, another need not"
CHANGES = "the inputs hold changes, which engines pass on in different ways"
WATERMARKS = "an input brought no new watermark, which engines count in different ways"


def proves(reason: NodeError) -> bool:
    """Whether an error proves that no engine can have produced the recorded result."""
    return isinstance(reason, IncompatibleSchema) and "missing" in reason.facts


def readable_checkpoint(dataset: Dataset, plan: TransformPlan, files: InputFiles) -> Path | None:
    """Return the checkpoint from which an execution began, if it exists here and this engine can
    read it."""
    try:
        path = checkpoint_file(dataset, plan, files)
    except (NotFound, Damaged):
        return None
    return path if path is not None and is_ours(path) else None


def with_checkpoint_of(made: ExecuteTransform, recorded: ExecuteTransform) -> ExecuteTransform:
    return replace(made, new_checkpoint=recorded.new_checkpoint)


def undecided(
    differences: tuple[str, ...],
    plan: TransformPlan,
    inputs: list[Dataset],
    files: InputFiles,
    made: MadeResult,
) -> str | None:
    """Return why these differences prove nothing; None if they do, or if there are none."""
    if not differences:
        return None
    if holds_state(made.checkpoint_path):
        return STATE
    if differences == ("new_watermark",):
        return WATERMARKS if any(not item.watermarks for item in plan.inputs) else None
    holds_changes = any(
        _has_changes(dataset, item, files)
        for dataset, item in zip(inputs, plan.inputs, strict=True)
    )
    return CHANGES if holds_changes else None


def _has_changes(dataset: Dataset, item: InputPlan, files: InputFiles) -> bool:
    column = dataset.state(item.as_of).vocab.operation_type_column
    paths = [files.get(dataset, ObjectKind.DATA, part.physical_hash) for part in item.slices]
    return any(_changes_in(path, column) for path in paths)


def _changes_in(path: Path, column: str) -> bool:
    with pq.ParquetFile(path) as file:
        if column not in file.schema_arrow.names:
            return False
        for batch in file.iter_batches(columns=[column]):
            if pc.any(pc.not_equal(batch.column(0), pa.scalar(0, batch.column(0).type))).as_py():
                return True
    return False
