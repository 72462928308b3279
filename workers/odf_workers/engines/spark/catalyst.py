"""Read and build Spark's plans and expressions from Python.

All access to the JVM's planner is here. New plans are built only from parts of analysed ones, so
Spark itself has resolved all names and types. This code fits the pinned version of Spark.

Cache the JVM classes and methods that PySpark would otherwise look up at every call.

Whenever PySpark makes a column, it looks up the class of its functions, and the method, in the JVM;
the JVM then searches all of its jars for each candidate package. An iteration with state made six
hundred look-ups, which took a sixth of its planning time.

Quote names of columns for Spark, so that it does not read a dot as a path.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

from py4j.java_gateway import GatewayClient, JavaClass, JavaMember, JVMView
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql import types as T  # noqa: N812

_SESSION = "org.apache.spark.sql.classic.SparkSession"
_ASKED_OFTEN: Mapping[str, str] = {
    "functions": "org.apache.spark.sql.functions",
    "org.apache.spark.sql.functions": "org.apache.spark.sql.functions",
    _SESSION: _SESSION,
    "PythonUtils": "org.apache.spark.api.python.PythonUtils",
    "org.apache.spark.sql.expressions.Window": "org.apache.spark.sql.expressions.Window",
}
"""Full class name by the name that PySpark looks up."""


class KnownClass(JavaClass):  # type: ignore[misc]
    """A class of the JVM that looks up each of its methods only once."""

    def __getattr__(self, name: str) -> Any:
        found = super().__getattr__(name)
        if isinstance(found, JavaMember):
            setattr(self, name, found)
        return found


@cache
def known_class(client: GatewayClient, name: str) -> KnownClass:
    """Return a class by its full name. A path of attributes would cost a call for each step."""
    return KnownClass(name, client)


def remember_classes(jvm: JVMView) -> None:
    """Give PySpark the classes that it often looks up, so that it does not call the JVM."""
    for asked, name in _ASKED_OFTEN.items():
        setattr(jvm, asked, known_class(jvm._gateway_client, name))


CATALYST = "org.apache.spark.sql.catalyst"
LOGICAL, EXPRESSIONS = f"{CATALYST}.plans.logical", f"{CATALYST}.expressions"
OPTIMIZER = f"{CATALYST}.optimizer"

Node = Any
"""A plan or an expression, as an object of the JVM."""


def kind(node: Node) -> str:
    return str(node.getClass().getSimpleName())


def items(seq: Any) -> list[Node]:
    return [seq.apply(at) for at in range(seq.size())]


def children(node: Node) -> list[Node]:
    return items(node.children())


def expr_id(attribute: Node) -> int:
    return int(attribute.exprId().id())


def references(node: Node) -> set[int]:
    """Return the ids of the attributes that an expression reads."""
    return {expr_id(attribute) for attribute in items(node.references().toSeq())}


def walk(node: Node) -> Iterator[Node]:
    yield node
    for child in children(node):
        yield from walk(child)


@dataclass(frozen=True, slots=True)
class ColumnOrigin:
    """The query text of a part of a plan, and its position there; line and column count from 1."""

    text: str
    where: tuple[int, int]


def origin_of(node: Node) -> ColumnOrigin | None:
    """Return the origin of a part of a plan; None for a part that Spark added."""
    origin = node.origin()
    text, line, column = (
        option(each) for each in (origin.sqlText(), origin.line(), origin.startPosition())
    )
    if text is None or line is None or column is None:
        return None
    return ColumnOrigin(str(text), (int(line), int(column) + 1))


_REPLACED = (
    *("Between", "DatetimeSub", "ParseToDate", "ParseToTimestamp"),
    *("CountIf", "BoolAnd", "BoolOr"),
)


def plain(expression: Node) -> Node:
    """Return the expression without wrappers that change nothing, such as a cast to the same type.
    A replaceable expression becomes its replacement."""
    while True:
        name = kind(expression)
        if name in _REPLACED:
            expression = expression.replacement()
        elif name in ("KnownNullable", "KnownNotNull") or (
            name == "Cast" and _same_type(expression, children(expression)[0])
        ):
            expression = children(expression)[0]
        else:
            return expression


def option(value: Any) -> Node | None:
    return value.get() if value.isDefined() else None


def literal(expression: Node) -> Any:
    """Return the value of a constant expression; None for any other."""
    return expression.eval(None) if expression.foldable() else None


def type_of(node: Node) -> T.DataType:
    return T._parse_datatype_json_value(json.loads(node.dataType().json()))


def _same_type(one: Node, other: Node) -> bool:
    return bool(one.dataType().equals(other.dataType()))


@contextmanager
def active(session: SparkSession) -> Iterator[None]:
    """Make a session the active one of the thread until the block ends: Spark parses texts by the
    settings of the active session, whichever session it is asked through, and without one by its
    defaults."""
    known: Any = known_class(session._jvm._gateway_client, _SESSION)
    before = known.getActiveSession()
    known.setActiveSession(session._jsparkSession)
    try:
        yield
    finally:
        if before.isDefined():
            known.setActiveSession(before.get())
        else:
            known.clearActiveSession()


class Catalyst:
    """Reads and builds plans in one session."""

    def __init__(self, session: SparkSession) -> None:
        self.session = session
        self._client = session._jvm._gateway_client

    def class_of(self, package: str, name: str) -> Any:
        """Return a class of the JVM."""
        return known_class(self._client, f"{package}.{name}")

    def parsed(self, text: str) -> Node:
        """Parse a text that is to be a query."""
        with active(self.session):
            return self._parser.parseQuery(text)

    def parsed_command(self, text: str) -> Node:
        """Parse a text that may be any command."""
        with active(self.session):
            return self._parser.parsePlan(text)

    def analysed(self, text: str) -> Node:
        """Return the analysed plan of a query, with common table expressions inlined."""
        return self.inlined(self.plan(self.session.sql(text)))

    def inlined(self, plan: Node) -> Node:
        """Return the plan with common table expressions inlined."""
        return self.class_of(OPTIMIZER, "InlineCTE")(True, False, False).apply(plan)

    def empty(self, schema: T.StructType) -> DataFrame:
        session = self.session._jsparkSession
        rows = self.class_of("java.util", "ArrayList")()
        return DataFrame(
            session.createDataFrame(rows, session.parseDataType(schema.json())), self.session
        )

    def frame(self, plan: Node) -> DataFrame:
        dataset = self.class_of("org.apache.spark.sql.classic", "Dataset")
        return DataFrame(dataset.ofRows(self.session._jsparkSession, plan), self.session)

    def plan(self, frame: DataFrame) -> Node:
        return frame._jdf.queryExecution().analyzed()

    def seq(self, nodes: Iterable[Node]) -> Node:
        listed = self.class_of("java.util", "ArrayList")()
        for node in nodes:
            listed.add(node)
        return self._to_seq(listed)

    def project(self, columns: Iterable[Node], child: Node) -> Node:
        return self.class_of(LOGICAL, "Project")(self.seq(columns), child)

    def filter(self, condition: Node, child: Node) -> Node:
        return self.class_of(LOGICAL, "Filter")(condition, child)

    def union(self, plans: list[Node]) -> Node:
        return self.class_of(LOGICAL, "Union")(self.seq(plans), False, False)

    def all_of(self, parts: list[Node]) -> Node:
        condition = parts[0]
        for part in parts[1:]:
            condition = self.class_of(EXPRESSIONS, "And")(condition, part)
        return condition

    def expand(self, node: Node, hidden: list[Node], child: Node) -> Node:
        """Return the node over another child, with the child's hidden columns passed along."""
        rows = [self.seq([*items(row), *hidden]) for row in items(node.projections())]
        output = self.seq([*items(node.output()), *hidden])
        return self.class_of(LOGICAL, "Expand")(self.seq(rows), output, child)

    def alias(self, expression: Node, name: str, like: Node | None = None) -> Node:
        """Return the expression under a name. It gets the id of the attribute `like`, if given."""
        ident = self._fresh_id() if like is None else like.exprId()
        alias = self.class_of(EXPRESSIONS, "Alias")
        return alias(expression, name, ident, self._nothing, self._none, self._nothing)

    def attribute(self, name: str, of: Node) -> Node:
        """Return a new attribute with the type of the expression `of`."""
        metadata = self.class_of("org.apache.spark.sql.types", "Metadata").empty()
        return self.class_of(EXPRESSIONS, "AttributeReference")(
            name, of.dataType(), True, metadata, self._fresh_id(), self._nothing
        )

    def rewritten(self, expression: Node, change: Callable[[Node], Node | None]) -> Node:
        """Return the expression with each part replaced for which `change` returns another one."""
        changed = change(expression)
        if changed is not None:
            return changed
        old = children(expression)
        new = [self.rewritten(child, change) for child in old]
        if all(a is b for a, b in zip(old, new, strict=True)):
            return expression
        return expression.withNewChildren(self.seq(new))

    def conjuncts(self, condition: Node | None) -> list[Node]:
        """Return the parts of a condition that are joined by AND."""
        if condition is None:
            return []
        condition = self._inlined(plain(condition))
        if kind(condition) == "And":
            return [part for child in children(condition) for part in self.conjuncts(child)]
        return [condition]

    def _inlined(self, expression: Node) -> Node:
        """Return the expression with common parts inlined, as Spark makes them to evaluate x once
        in `x BETWEEN a AND b`."""
        if kind(expression) != "With":
            return expression
        defined = items(expression.defs())

        def exchange(part: Node) -> Node | None:
            if kind(part) != "CommonExpressionRef":
                return None
            return next((each.child() for each in defined if each.id().equals(part.id())), None)

        return self.rewritten(expression.child(), exchange)

    def sql(self, text: str) -> Node:
        with active(self.session):
            return self._parser.parseExpression(text)

    @property
    def _parser(self) -> Any:
        return self.session._jsparkSession.sessionState().sqlParser()

    @cached_property
    def _nothing(self) -> Node:
        return self.seq([])

    @cached_property
    def _none(self) -> Node:
        return self.class_of("scala", "Option").apply(None)

    @cached_property
    def _to_seq(self) -> Any:
        return self.class_of("org.apache.spark.api.python", "PythonUtils").toSeq

    def _fresh_id(self) -> Node:
        return self.class_of(EXPRESSIONS, "NamedExpression").newExprId()


def quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def col(name: str) -> Column:
    return F.col(quoted(name))


def listed(columns: Sequence[str]) -> str:
    return ", ".join(quoted(name) for name in columns)
