"""Everything that reads a stranger's text in the service's own process takes time in proportion to
the length of the text, and so does every expression of the workers.

The test finds every regular expression of these rooms by itself: it parses their sources,
evaluates the expression that a call of `re` or `re2` compiles, and runs it by the methods that its
module uses. It also finds functions, and methods of classes, whose one needed parameter is a text,
so a new parser is measured without a word. Parsers of more parameters, and methods of objects,
stand in a table. All read hostile texts, first short ones, so that an
exponential or cubic one is caught before it takes hours.
"""

from __future__ import annotations

import ast
import gc
import importlib
import itertools
import math
import re
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

import pytest

from odf_node.proposal.texts import TimeForm, _quote_inside
from odf_node.service.definitions.authors import _named_in
from odf_node.service.flight.tables import _like
from odf_node.service.http.answers import media_type_of, parse_ranges
from odf_node.service.limits.texts import PATTERN
from odf_node.service.odata.feed import FeedAsked
from odf_node.service.odata.filters import filter_sql, order_sql
from odf_node.service.sharing.tables import hints_of
from odf_protocol.codec.manifests import load_documents
from odf_protocol.ddl import parse_ddl
from odf_protocol.errors import NodeError
from odf_protocol.metadata.events import SqlQueryStep
from odf_protocol.metadata.sources import ReadStepCsv
from odf_protocol.sources.file_marks import kind_of
from odf_storage.datasets.query.messages import with_own_names
from odf_workers.engines.port.query_size import QuerySize, check_size
from odf_workers.engines.spark.limit import has_literal_moment
from odf_workers.readers.formats.plain_text import _lines
from odf_workers.readers.values.features import refuse_page
from odf_workers.readers.values.forms import _number_pattern
from odf_workers.slices.schema import Limits

ROOT = Path(__file__).parents[2]
ROOMS = ("protocol", "storage", "app/odf_node/service", "app/odf_node/proposal")
WORKERS = "workers/odf_workers"
"""A room of which expressions are measured: they read queries and files of strangers."""
ENGINES = ("re", "re2")
FLAGS_AT = {
    "compile": 1,
    **dict.fromkeys(("search", "match", "fullmatch", "findall", "finditer"), 2),
    "split": 3,
    **dict.fromkeys(("sub", "subn"), 4),
}
"""For each function of the engines that takes a pattern, the position of its flags."""

SHORT = (8, 16, 24, 32, 64, 256, 1_024)
SHORT_S = 0.05
"""Seconds of processor time that a text of at most 1,024 characters may take."""
FLOOR_S = 0.0005
"""What takes less at `LONG` characters is linear: a square that matters takes longer."""
SLOW_S = 0.1
"""What takes longer is measured from a quarter of `LONG` on: a square would take minutes."""
SURE_S = 0.4
"""What takes longer than this, and too many times as long, does not by chance."""
LONG = 4_096
MOST_FOR_DOUBLE = 2.5
LONGER = ((4, 0), (16, 0), (16, 1), (16, 4))
"""How many times the length, after how many seconds' pause. Each is for what seems to take too long
in all before it: a busy machine makes a ratio half as large again by chance, but hardly that over
16 times the length, and again later, when neighbours on the machine may be done."""
ATTEMPTS = 9
"""The shortest of so many runs counts; one is enough unless it shows trouble."""

PREFIXES = ("", ",", "a", "1", '"', "a:", "/*", "${{", "=")
UNITS = (
    *"x1 (%\"'`)[]{}\\-_.:;,&*/\n\t=<$@#!+~é一",
    *(
        "/* ",
        "*/",
        "/**/",
        "<!---->",
        "${{",
        "}}",
        "a,",
        "a.",
        "a-",
        "a b",
        "a=",
        "a=1,",
        "aA",
        "a:\n",
        "x:",
        "1.",
        "0_",
    ),
    *(
        "![ ",
        "[a](",
        "--",
        "- ",
        "..",
        "+a",
        "(a",
        "'a",
        '""',
        "''",
        "\\x",
        "://",
        "&a ",
        "{a:",
    ),
)
END = "!"

MADE = {
    "app/odf_node/proposal/texts.py": "of two signs; reads the beginning of a file; measured",
    "app/odf_node/proposal/values.py": "of signs in a fixed table; a text is read once a form",
    "app/odf_node/service/flight/tables.py": "RE2, of at most 200 characters, or of one alias",
    "protocol/odf_protocol/sources/time_patterns.py": "of at most 100 characters; it reads 200",
    "workers/odf_workers/engines/port/port.py": "of a name in a message, or a fixed table",
    "workers/odf_workers/prepare/workbook_program.py": "of three signs",
    "workers/odf_workers/readers/values/csv_records.py": "of one sign",
    "workers/odf_workers/readers/values/forms.py": "of two signs; measured",
}
"""Modules that compile an expression out of values, with the reason why it is bounded."""


NAMED = ReadStepCsv(header=True)
COMMAS = TimeForm(separator=",", quote='"', escape=None)
PARSERS: dict[str, Callable[[str], object]] = {
    "names of the reference in a query": lambda text: with_own_names(
        text.replace("$", "").replace("/*", "").replace("e'", "")
    ),
    "size of a query": lambda text: check_size(
        [SqlQueryStep(query=text)], QuerySize(terms=10**9, depth=10**9)
    ),
    "patterns of Flight SQL": lambda text: _like(text[: PATTERN.most]).fullmatch(text),
    "variables of sources": lambda text: list(_named_in(text)),
    "columns in DDL": lambda text: parse_ddl(["a STRING " + text]),
    "manifests": load_documents,
    "predicates of shared tables": lambda text: hints_of(None, [text]),
    "filters of OData": lambda text: filter_sql(text, {}),
    "orders of OData": lambda text: order_sql(text, {}),
    "options of OData": lambda text: FeedAsked.parse([("$skiptoken", text)]),
    "moments in queries for Spark": lambda text: has_literal_moment("date" + text),
    "beginnings of files": lambda text: refuse_page(text.encode(), NAMED),
    "marks of files": lambda text: kind_of(text.encode()),
    "numbers with signs of a place": lambda text: _number_pattern(",", ".").fullmatch(text),
    "lines of a file": lambda text: list(_lines([text], Limits())),
    "Range": lambda text: parse_ranges(text, 1000),
    "Content-Type": lambda text: media_type_of(text, text),
    "quotes of a table": lambda text: [
        _quote_inside(text.encode(), COMMAS, before) for before in (b"", rb"\\")
    ],
}
"""What reads a text of strangers in the process of the service, and is no function of one text. The
parsers of SQL and Markdown, which are not linear, run in reader processes
(`tests/app/test_strange_texts.py`)."""


OF_CLASSES = frozenset({"classmethod", "staticmethod"})
TEXTS = {"str": str, "str | None": str, "bytes": bytes, "bytes | None": bytes, "memoryview": bytes}
ELSEWHERE = {
    "markdown.markdown": "its parser runs in a reader, with a limit of time",
    "engine.open_engine": "opens a database that the administrator names",
    "extras._install": "imports a module that the program names",
    "folder.open_keyed_store": "opens a store that the administrator names",
    "logs.set_up": "changes the log of the process",
    "object_answer.FileSource.open": "opens a file that the node names",
}
"""Functions that are not measured, by module and name, with the reason."""


@dataclass(frozen=True)
class Found:
    """An expression with the place of the call that compiles it, and the methods that are used."""

    place: str
    pattern: Any
    methods: tuple[str, ...]


def hostile(of: type, prefixes: Iterable[str]) -> Iterator[Callable[[int], Any]]:
    """Yield functions from a length to a text, or bytes, of about that length."""
    for prefix, unit in itertools.product(prefixes, UNITS):
        yield partial(_text, of, prefix, unit)


def _text(of: type, prefix: str, unit: str, length: int) -> Any:
    text = prefix + unit * (length // len(unit)) + END
    return text if of is str else text.encode()


def expressions() -> list[Found]:
    """Return every expression that a module of the rooms compiles."""
    return [
        found
        for room in (*ROOMS, WORKERS)
        for path in sorted((ROOT / room).rglob("*.py"))
        for found in _in_module(path)
    ]


def _in_module(path: Path) -> Iterator[Found]:
    tree = ast.parse(path.read_text())
    own = path.relative_to(ROOT)
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module in ENGINES:
            pytest.fail(f"{own}: import the module {node.module}, so that this test finds its use")
        if isinstance(node, ast.Import) and any(
            each.name in ENGINES and each.asname for each in node.names
        ):
            pytest.fail(f"{own}: import re by its name, so that this test finds its use")
    for call in _calls(tree):
        engine, name = call.func.value.id, call.func.attr  # type: ignore[attr-defined]
        if name not in FLAGS_AT:
            continue
        pattern = _compiled(own, call, engine)
        if pattern is not None:
            used = _methods(tree, call) if name == "compile" else (name,)
            yield Found(f"{own}:{call.lineno}", pattern, used)


def _calls(tree: ast.AST) -> Iterator[ast.Call]:
    """Yield the calls `re.…(…)` and `re2.…(…)`."""
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Attribute(value=ast.Name(id=name))) if name in ENGINES:
                yield node


def _compiled(own: Path, call: ast.Call, engine: str) -> Any:
    """Evaluate the pattern in its module. None if the module is in `MADE`."""
    module = importlib.import_module(".".join(own.with_suffix("").parts[1:]))
    at = FLAGS_AT[call.func.attr]  # type: ignore[attr-defined]
    flags = call.args[at : at + 1]
    flags += [each.value for each in call.keywords if each.arg == "flags"]
    try:
        values = [_evaluated(each, module) for each in (call.args[0], *flags)]
    except NameError:
        if str(own) in MADE:
            return None
        pytest.fail(f"{own}:{call.lineno}: the pattern is made of values; see MADE")
    return importlib.import_module(engine).compile(*values)


def _evaluated(node: ast.expr, module: Any) -> Any:
    return eval(compile(ast.Expression(node), "", "eval"), vars(module))


def _methods(tree: ast.AST, call: ast.Call) -> tuple[str, ...]:
    """Return the methods by which a module uses the name that is given to an expression; all of
    them if it has no name, or is passed on."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and node.value is call:
            [target] = node.targets
            if isinstance(target, ast.Name):
                used = {
                    each.attr
                    for each in ast.walk(tree)
                    if isinstance(each, ast.Attribute)
                    and isinstance(each.value, ast.Name)
                    and each.value.id == target.id
                }
                return tuple(sorted(used & FLAGS_AT.keys())) or ("search", "fullmatch")
    return ("search", "fullmatch")


def _use(pattern: Any, method: str, text: Any) -> None:
    match method:
        case "sub" | "subn":
            pattern.sub(text[:0], text)
        case "finditer":
            for _ in pattern.finditer(text):
                pass
        case _:
            getattr(pattern, method)(text)


def _spent(read: Callable[[Any], object], text: Any) -> float:
    """Return the processor time of this thread, in seconds, that reading takes, without the
    collection of what other tests have left."""
    gc.disable()
    try:
        began = time.thread_time()
        read(text)
        return time.thread_time() - began
    finally:
        gc.enable()


def trouble_of(
    read: Callable[[Any], object],
    of: type = str,
    *,
    prefixes: Iterable[str] = PREFIXES,
    long: int = LONG,
) -> str | None:
    """Return what makes the reader slower than its text is long, or None."""
    for make in hostile(of, prefixes):
        for length in SHORT:
            if _spent(read, make(length)) < SHORT_S:
                continue
            spent = min(_spent(read, make(length)) for _ in range(3))
            if spent > SHORT_S:
                return f"{spent:.3f} s for {make(length)[:40]!r}… of {length}"
        spent = _spent(read, make(long))
        if spent < FLOOR_S:
            continue
        trouble = _growth(read, make, long if spent < SLOW_S else long // 4)
        if trouble is not None:
            return trouble
    return None


def _growth(read: Callable[[Any], object], make: Callable[[int], Any], long: int) -> str | None:
    """Return that the reader takes too many times as long for texts that are longer, or None."""
    for times, pause in LONGER:
        time.sleep(pause)
        best = {long: float("inf"), times * long: float("inf")}
        for _ in range(ATTEMPTS):
            for length in best:
                best[length] = min(best[length], _spent(read, make(length)))
            ratio = best[times * long] / best[long]
            trouble = f"{ratio:.1f} times as long for {times} times {make(long)[:40]!r}…"
            if ratio < MOST_FOR_DOUBLE ** math.log2(times):
                return None
            if best[times * long] > SURE_S:
                return trouble
    return trouble


def functions() -> Iterator[tuple[str, str, str, type]]:
    """Yield room, module, name and kind of text of each function of one text."""
    for room in ROOMS:
        for path in sorted((ROOT / room).rglob("*.py")):
            own = path.relative_to(ROOT / room.partition("/")[0])
            module = ".".join(own.with_suffix("").parts)
            for name, function in _named(ast.parse(path.read_text())):
                kind = _kind(function)
                if kind is not None:
                    yield room, module, name, kind


def _named(tree: ast.Module) -> Iterator[tuple[str, ast.FunctionDef]]:
    for node in tree.body:
        if isinstance(node, ast.FunctionDef):
            yield node.name, node
        elif isinstance(node, ast.ClassDef):
            for inner in node.body:
                if isinstance(inner, ast.FunctionDef) and _decorators(inner) & OF_CLASSES:
                    yield f"{node.name}.{inner.name}", inner


def _decorators(function: ast.FunctionDef) -> set[str]:
    return {ast.unparse(each) for each in function.decorator_list}


def _kind(function: ast.FunctionDef) -> type | None:
    """Return the kind of the one needed parameter; None if there are others, or it is no text."""
    given = function.args
    places = [*given.posonlyargs, *given.args][int("classmethod" in _decorators(function)) :]
    needed = places[: len(places) - len(given.defaults)]
    if len(needed) != 1 or None in given.kw_defaults:
        return None
    stated = needed[0].annotation
    return None if stated is None else TEXTS.get(ast.unparse(stated))


def _reader(module: str, name: str) -> Callable[[Any], object]:
    found: Any = importlib.import_module(module)
    for part in name.split("."):
        found = getattr(found, part)

    def read(text: Any) -> None:
        with suppress(Exception):  # a refusal; what counts is the time until then
            made = found(text)
            if isinstance(made, Iterator):
                for _ in made:
                    pass

    return read


@cache
def found() -> list[Found]:
    return expressions()


FUNCTIONS = list(functions())


def test_the_search_finds_expressions_in_all_rooms():
    places = {each.place.partition(":")[0] for each in found()}
    for room in (*ROOMS, WORKERS):
        assert any(place.startswith(room) for place in places), room
    for place in MADE:
        assert (ROOT / place).is_file()


@pytest.mark.parametrize("room", [*ROOMS, WORKERS])
def test_every_expression_takes_time_in_proportion_to_the_text(room):
    troubles = {}
    for each in found():
        if each.place.startswith(room + "/"):
            of = bytes if isinstance(each.pattern.pattern, bytes) else str
            for method in each.methods:
                trouble = trouble_of(partial(_use, each.pattern, method), of)
                if trouble is not None:
                    troubles[f"{each.place} {method} {each.pattern.pattern!r}"] = trouble
    assert not troubles


@pytest.mark.parametrize("name", PARSERS)
def test_every_parser_takes_time_in_proportion_to_the_text(name):
    def read(text: str) -> None:
        with suppress(NodeError, ValueError):
            PARSERS[name](text)

    assert trouble_of(read, prefixes=("",), long=LONG) is None


@pytest.mark.parametrize(
    ("pattern", "flags", "method"),
    [
        (r"(?i)(?:\b(?:from|join)\b|,)\s*\(*\s*([a-z_][a-z0-9_]*)", 0, "findall"),
        (r"\$\{\{(.*?)\}\}", re.DOTALL, "findall"),
        (r"/\*.*?\*/|[a-z ]+|.", re.DOTALL, "finditer"),
        (".*" * 4 + "!!", re.DOTALL, "fullmatch"),
        (r" *-?(\d+\.?\d*|\.\d+)", 0, "fullmatch"),
        (r"(x|xx)+!!", 0, "fullmatch"),
    ],
)
def test_expressions_that_take_more_are_noticed(pattern, flags, method):
    assert trouble_of(partial(_use, re.compile(pattern, flags), method)) is not None


def short(module: str, name: str) -> str:
    return f"{module.rpartition('.')[2]}.{name}"


def test_the_search_finds_functions_in_all_rooms() -> None:
    names = {short(module, name) for _, module, name, _ in FUNCTIONS}
    assert {room for room, *_ in FUNCTIONS} == set(ROOMS)
    assert {"filters.parsed_filter", "identity.DatasetAlias.parse", "job_watch.asked_wait"} <= names
    assert ELSEWHERE.keys() <= names


@pytest.mark.parametrize(
    ("module", "name", "kind"),
    [
        pytest.param(module, name, kind, id=short(module, name))
        for _, module, name, kind in FUNCTIONS
        if short(module, name) not in ELSEWHERE
    ],
)
def test_a_function_of_a_text_takes_time_in_proportion_to_it(
    module: str, name: str, kind: type
) -> None:
    assert trouble_of(_reader(module, name), kind, prefixes=("",), long=LONG) is None


def test_a_function_that_takes_more_is_found_and_noticed() -> None:
    source = "def parsed(text: str) -> int:\n    return sum(1 for x in text for y in 4 * text)\n"
    [(name, function)] = _named(ast.parse(source))
    assert (name, _kind(function)) == ("parsed", str)
    scope: dict[str, Any] = {}
    exec(source, scope)
    assert trouble_of(scope["parsed"], prefixes=("",), long=LONG) is not None
