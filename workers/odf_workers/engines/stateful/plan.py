"""Plan a stateful query: from the text of a transform to its operators and state."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql import types as T  # noqa: N812

from odf_protocol.chain.state import Vocab
from odf_protocol.metadata.transforms import SqlQueryStep, Transform

from ..port.port import NO_QUERY, InvalidQuery, NotIncremental, steps_of
from ..port.positions import located, placed
from ..spark.catalyst import Catalyst, Node, Origin, expr_id, items
from ..spark.errors import reason
from ..spark.frames import spark_schema
from ..spark.implicit_times import without_today
from .clock import Clock, InputClock, Least
from .operators import Operator
from .pieces import Part
from .port import SESSION_SETTINGS, StatefulInput
from .recognise import query_over
from .text import as_of_joins, lateness_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """A query with state, bound to the session that analysed it. One run at a time may use it."""

    catalyst: Catalyst
    inputs: tuple[StatefulInput, ...]
    schemas: dict[str, T.StructType]
    vocab: Vocab
    operators: tuple[Operator, ...]
    part: Part
    columns: tuple[tuple[str, Node], ...]
    """Columns of the output besides its operation column, by name."""
    watermark: Clock
    lateness: int
    """Allowed lateness in microseconds."""
    fingerprint: str


def stateful_plan(
    session: SparkSession, transform: Transform, inputs: Sequence[StatefulInput], vocab: Vocab
) -> Plan | None:
    """Plan a transform. Return None if every row of the result depends on one input row only.

    Raises:
        NotIncremental: the result needs state that cannot be kept from run to run.
        InvalidQuery: the query is wrong in any other way.
    """
    try:
        return _planned(session.newSession(), transform, inputs, vocab)
    except (PySparkException, Py4JJavaError) as bad:
        raise InvalidQuery(reason(bad)) from None


def _planned(
    session: SparkSession, transform: Transform, inputs: Sequence[StatefulInput], vocab: Vocab
) -> Plan | None:
    for name, value in SESSION_SETTINGS.items():
        session.conf.set(name, value)
    catalyst = Catalyst(session)
    schemas = {given.alias: spark_schema(given.schema) for given in inputs}
    for alias, schema in schemas.items():
        catalyst.empty(schema).createTempView("`" + alias.replace("`", "``") + "`")
    event_times = {given.alias: given.vocab.event_time_column for given in inputs}
    texts, parsed, analysed = [], [], None
    steps = steps_of(transform)
    for step in steps:
        text = as_of_joins(step.query, event_times)
        texts.append([step.alias, text])
        parsed.append(catalyst.parsed(text))
        analysed = catalyst.analysed(text)
        if step.alias is not None:
            session.sql(text).createTempView("`" + step.alias.replace("`", "``") + "`")
    if analysed is None:
        raise InvalidQuery(NO_QUERY)
    analysed = without_today(catalyst, analysed, steps)
    temporal = {table.name: table.primary_key for table in transform.temporal_tables or ()}
    query = query_over(catalyst, inputs, temporal)
    output = items(analysed.output())
    try:
        part = query.read(analysed, {expr_id(each) for each in output}, {})
    except NotIncremental as bad:
        raise _placed(bad, steps, query.refused) from None
    if not query.operators:
        return None
    if query.misuse is not None:
        raise NotIncremental(query.misuse)
    bases = [part.base, *(InputClock(i.alias) for i in inputs if i.alias not in query.used)]
    shown = [each for each in output if expr_id(each) not in part.operation]
    return Plan(
        catalyst=catalyst,
        inputs=tuple(inputs),
        schemas=schemas,
        vocab=vocab,
        operators=tuple(query.operators),
        part=part,
        columns=tuple((str(each.name()), each) for each in _checked(shown, vocab)),
        watermark=bases[0] if len(bases) == 1 else Least(tuple(bases)),
        lateness=lateness_of(catalyst, parsed),
        fingerprint=_fingerprint(texts, query.operators),
    )


def _placed(
    bad: NotIncremental, steps: Sequence[SqlQueryStep], origin: Origin | None
) -> InvalidQuery:
    """Return the error with the position of the construct or name in its message, else of the part
    of the plan that was refused."""
    for number, step in enumerate(steps):
        if origin is not None and origin.text == step.query:
            return placed(bad, steps, number, located(step.query, bad.message) or origin.where)
    return bad


def _checked(output: Sequence[Node], vocab: Vocab) -> Sequence[Node]:
    names = [str(each.name()) for each in output]
    if vocab.operation_type_column in names:
        raise NotIncremental(
            f"column `{vocab.operation_type_column}` is the operation of the result, which follows "
            "from the changes: leave it out, or select it as it is in every branch"
        )
    for each, name in zip(output, names, strict=True):
        if names.count(name) > 1:
            raise InvalidQuery(f"the result has two columns `{name}`")
        if "map<" in str(each.dataType().simpleString()):
            raise NotIncremental(f"column `{name}`: maps cannot be compared, so not be corrected")
    return output


def _fingerprint(texts: Sequence[object], operators: Sequence[Operator]) -> str:
    """Return a hash of everything that decides the content of a checkpoint's sections."""
    kept = [[side.columns for side in operator.sides] for operator in operators]
    return hashlib.sha256(json.dumps([texts, kept]).encode()).hexdigest()
