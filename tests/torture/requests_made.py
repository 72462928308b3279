"""Hostile requests of a seed: over every route, in every shape, by every kind of caller.

Routes are those of the published contract and of the pages, and the rows of `DOORS`; a new route is
taken by itself. A shape is a function that spoils a value, and each of them has bodies of its own
by media type: see `SHAPES` and `BODIES`. Nothing here sends anything.
"""

from __future__ import annotations

import io
import json
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import yaml

from odf_node.service.applications.pages import ROUTES as PAGES

CONTRACT = Path(__file__).parents[2] / "openapi" / "openapi.yaml"
CALLERS = ("anonymous", "read", "dataset", "editor", "owner", "expired")
UNITS = (
    "x",
    " ",
    "(",
    "%",
    "/* ",
    "${{",
    "a,",
    "![ ",
    '"',
    "'",
    "9",
    "--",
    "\\",
    "\u00e9",
    "a.",
    "[a](",
)
TARGET_CHARS = 60_000
BODY_CHARS = 400_000
ENDS = {("DELETE", "/{dataset}"), ("PUT", "/{dataset}/name"), ("PUT", "/{dataset}/visibility")}
"""Routes after which a dataset is no longer where it was: they go to one of its own."""
ENDLESS = "select count(*) from generate_series(1, 1000000000000)"
QUERIES: tuple[Callable[[str], str], ...] = (
    lambda name: f'select count(*) from "{name}"',
    lambda _: ENDLESS,
    lambda _: "select repeat('x', 2000000000)",
    lambda name: f'select * from "{name}" a, "{name}" b, "{name}" c, "{name}" d order by 1',
    lambda _: "with recursive t as (select 1 n union all select n + 1 from t) select sum(n) from t",
    lambda _: "select 1," + " " * 60_000 + "!",
    lambda _: "select " + "+".join(["1"] * 20_000),
    lambda _: "select " + "(" * 5_000 + "1" + ")" * 5_000,
    lambda _: "select " + ", ".join(f"{n} as c{n}" for n in range(4_000)),
)


@dataclass(frozen=True)
class Asked:
    """A request as bytes are made of it, and how it is sent."""

    route: str
    shape: str
    caller: str
    method: str
    target: str
    headers: dict[str, str]
    body: bytes = b""
    upgrades: bool = False
    times: int = 1
    """How many of it are sent at once."""
    twist: str = "none"
    lines: tuple[tuple[str, str], ...] = ()
    """Header lines beside `headers`, which may have a name twice."""
    framing: str = "length"
    """A name of `FRAMINGS`."""
    in_a_row: int = 1
    """How many are sent on one connection."""
    frames: bytes = b""
    """What is sent once an upgrade is accepted."""

    def __str__(self) -> str:
        return (
            f"{self.shape}/{self.twist}/{self.framing} {self.caller} {self.method} {self.route} "
            f"{self.target[:120]}"
        )


@dataclass(frozen=True)
class Names:
    """What is there: datasets by name, and texts for other parts of addresses."""

    datasets: tuple[str, ...]
    ends: str
    others: dict[str, tuple[str, ...]]


@dataclass(frozen=True)
class Route:
    method: str
    path: str
    parameters: tuple[tuple[str, str], ...] = ()
    """Where each is, and its name."""
    media: tuple[str, ...] = ()
    fields: tuple[str, ...] = ()
    upgrades: bool = False


def routes() -> list[Route]:
    """Return all routes: of the contract, of pages, and of doors beside both."""
    told = yaml.safe_load(CONTRACT.read_text())
    found = [
        _of_contract(method.upper(), path, one, told)
        for path, methods in told["paths"].items()
        for method, one in methods.items()
        if method in ("get", "head", "post", "put", "patch", "delete")
    ]
    for page in PAGES:
        methods = sorted(page.methods or {"GET"})
        found += [Route(each, page.path, (), FORMS, FORM_FIELDS) for each in methods]
    return [*found, *DOORS]


FORMS = ("application/x-www-form-urlencoded", "multipart/form-data")
FORM_FIELDS = (
    *("name", "password", "account", "token", "label", "file", "key", "job"),
    *("do", "description", "readme", "seen", "look", "offset", "sure", "cron", "role"),
)
OF_HARVESTS = ("verb", "metadataPrefix", "identifier", "from", "until", "resumptionToken")
OF_FEEDS = ("$filter", "$orderby", "$select", "$top", "$skip", "$count", "$skiptoken")
HTML = ("query", "rows", "changelog", "columns", "block", "blocks", "format", "history", "files")
DOORS = (
    Route("GET", "/{dataset}", tuple(("query", name) for name in HTML)),
    Route(
        "GET",
        "/bob",
        (("query", "list-type"), ("query", "prefix"), ("query", "continuation-token")),
    ),
    Route("GET", "/oai", tuple(("query", name) for name in OF_HARVESTS)),
    Route("GET", "/odata/{prefix}/{table}", tuple(("query", name) for name in OF_FEEDS)),
    Route("POST", "/mcp", (), ("application/json",), ("jsonrpc", "id", "method", "params")),
    Route("GET", "/"),
    Route("GET", "/{dataset}/no/such/place"),
    Route("OPTIONS", "/{dataset}/read"),
    Route("TRACE", "/{dataset}"),
)


def _of_contract(method: str, path: str, one: dict[str, Any], told: dict[str, Any]) -> Route:
    given = [_named(each, told) for each in one.get("parameters", [])]
    body = _named(one.get("requestBody", {}), told)
    content = body.get("content", {})
    fields: list[str] = []
    for each in content.values():
        fields += _named(each.get("schema", {}), told).get("properties", {})
    return Route(
        method,
        path,
        tuple((each["in"], each["name"]) for each in given if each["in"] != "path"),
        tuple(content),
        tuple(dict.fromkeys(fields)),
        upgrades="101" in one["responses"],
    )


def _named(one: dict[str, Any], told: dict[str, Any]) -> dict[str, Any]:
    while "$ref" in one:
        found: Any = told
        for word in one["$ref"].removeprefix("#/").split("/"):
            found = found[word]
        one = found
    return one


@dataclass
class Maker:
    """Makes requests out of one source of randomness."""

    names: Names
    rng: random.Random
    routes: list[Route] = field(default_factory=routes)

    def requests(self, count: int) -> Iterator[Asked]:
        """Yield so many requests: all routes in turn, with shapes and callers at random, so that
        every route has each of them sooner or later."""
        turn: list[Route] = []
        for _ in range(count):
            if not turn:
                turn = self.rng.sample(self.routes, len(self.routes))
            yield self.one(turn.pop(), self.rng.choice(list(SHAPES)), self.rng.choice(CALLERS))

    def one(self, route: Route, shape: str, caller: str) -> Asked:
        rng = self.rng
        target = self._path(route, shape)
        pairs: list[tuple[str, str]] = []
        headers = {"Prefer": "respond-async"} if rng.random() < 0.8 else {}
        for where, name in route.parameters:
            if rng.random() < 0.5:
                value = self._value(name, shape)
                pairs += [(name, value)] * (300 if shape == "repeated" else 1)
                if where == "header":
                    headers[name] = value.replace("\u00e9", "e").replace("\n", " ")
        if shape == "wide":
            pairs += [(f"a{n}", "1") for n in range(rng.choice((5, 2_000)))]
        if pairs:
            target += "?" + urlencode(pairs, errors="replace")
        if not route.media and rng.random() < 0.3:
            headers["Accept"] = "text/html"
        if route.path == "/mcp" and rng.random() < 0.8:
            headers["Accept"] = "application/json, text/event-stream"
        body, kind = self._body(route, shape)
        if kind:
            headers["Content-Type"] = kind
        times = 5 if shape == "repeated" else 1
        return Asked(
            route.path,
            shape,
            caller,
            route.method,
            target[: 2 * TARGET_CHARS],
            headers,
            body,
            route.upgrades and rng.random() < 0.8,
            times,
        )

    def _path(self, route: Route, shape: str) -> str:
        """The address: mostly of something that is there, else with a spoilt name."""
        path = route.path
        if (route.method, path) in ENDS:
            path = path.replace("{dataset}", self.names.ends)
        while "{" in path:
            before, _, rest = path.partition("{")
            name, _, after = rest.partition("}")
            name = name.partition(":")[0]
            known = self.names.datasets if name == "dataset" else self.names.others.get(name, ())
            if known and self.rng.random() < 0.85:
                value = self.rng.choice(known)
            else:
                value = quote(SHAPES[shape](self.rng, 2_000), safe="")
            path = before + value + after
        return path

    def _value(self, name: str, shape: str) -> str:
        if name in ("query", "rows") and self.rng.random() < 0.5:
            return self.rng.choice(QUERIES)(self.rng.choice(self.names.datasets))
        if (known := self.names.others.get(name)) and self.rng.random() < 0.5:
            return self.rng.choice(known)
        if self.rng.random() < 0.3:
            return self.rng.choice(("0", "-1", "true", str(2**63), "1e999", "NaN", "1970-01-01"))
        return SHAPES[shape](self.rng, self.rng.choice((20, 500, 4_000, TARGET_CHARS // 3)))

    def _body(self, route: Route, shape: str) -> tuple[bytes, str]:
        if not route.media and route.method in ("GET", "HEAD", "DELETE", "OPTIONS", "TRACE"):
            return b"", ""
        kind = self.rng.choice(route.media or ("application/json",))
        make = OF_ROUTES.get(route.path) or BODIES.get(kind, _plain)
        return make(self, route, shape), f"{kind}; boundary=x" if "multipart" in kind else kind


def _long(rng: random.Random, length: int) -> str:
    unit = rng.choice(UNITS)
    return unit * (length // len(unit)) + "!"


def _deep(rng: random.Random, length: int) -> str:
    opening, closing = rng.choice(
        (("(", ")"), ("[", "]"), ('{"a":', "}"), ("a/", ""), ("not ", ""))
    )
    return opening * (length // 2 // len(opening)) + "1" + closing * (length // 2)


def _wide(rng: random.Random, length: int) -> str:
    mark = rng.choice((",", ";", "&", " ", "|", "\n"))
    return mark.join(f"c{n}" for n in range(length // 5))


def _repeated(rng: random.Random, length: int) -> str:
    return rng.choice(("a,", "n:eq:1,", "f1620", "..", "1-", "bytes=0-1,")) * (length // 4)


def _short(rng: random.Random, length: int) -> str:
    return rng.choice(("a", "1", "head", "%", "%00", "..", "\u00e9"))


SHAPES: dict[str, Callable[[random.Random, int], str]] = {
    "long": _long,
    "deep": _deep,
    "wide": _wide,
    "repeated": _repeated,
    "slow": _short,
}


def _json(maker: Maker, route: Route, shape: str) -> bytes:
    """An object of the fields that the route takes, or something that is none."""
    rng, names = maker.rng, route.fields or ("a", "url", "query", "value")
    if shape == "deep" and rng.random() < 0.6:
        depth = rng.choice((100, 5_000, 150_000))
        opening, closing = rng.choice(((b"[", b"]"), (b'{"a":', b"}")))
        return opening * depth + b"1" + closing * depth
    if shape == "wide":
        return json.dumps({f"k{n}": n for n in range(rng.choice((100, 30_000)))}).encode()
    if shape == "repeated":
        name = json.dumps(rng.choice(names))
        return ("{" + ",".join([f"{name}: 1"] * rng.choice((10, 40_000))) + "}").encode()
    told: dict[str, Any] = {}
    for name in names:
        if rng.random() < 0.7:
            value: Any = maker._value(name, shape)
            if rng.random() < 0.3:
                value = rng.choice((None, [value] * 50, {"a": value}, 2**70, -1, True, []))
            told[name] = value
    return json.dumps(told).encode()[: 4 * BODY_CHARS]


def _called(maker: Maker, route: Route, shape: str) -> bytes:
    """A call of a tool for language models, or another message to its door."""
    rng = maker.rng
    tools = ("query", "search_datasets", "describe_dataset", "sample_rows", "none")
    names = ("sql", "search", "dataset", "limit", "after", "account", "datasets", "proof")
    given = {name: maker._value(name, shape) for name in names if rng.random() < 0.3}
    given["sql"] = rng.choice(QUERIES)(rng.choice(maker.names.datasets))
    params: dict[str, Any] = {"name": rng.choice(tools), "arguments": given}
    if rng.random() < 0.3:
        params = {maker._value("a", shape)[:9_000]: given, "protocolVersion": "9" * 5_000}
    methods = ("tools/call", "tools/call", "tools/list", "initialize", "a/" * 5_000)
    message = {"jsonrpc": "2.0", "id": 1, "method": rng.choice(methods), "params": params}
    return json.dumps([message] * 500 if shape == "repeated" else message).encode()


def _graph(maker: Maker, route: Route, shape: str) -> bytes:
    """A query of GraphQL: deep, of many aliases, of fragments that name each other."""
    rng, text = maker.rng, SHAPES[shape](maker.rng, 20_000)
    query = rng.choice(
        (
            "{datasets" * 5_000,
            "{" + " ".join(f"a{n}: __typename" for n in range(5_000)) + "}",
            "query { ...a } " + "".join(f"fragment a{n} on Q {{...a{n + 1}}} " for n in range(99)),
            "query q(" + ", ".join(f"$a{n}: Int" for n in range(5_000)) + ") {a}",
            "{__schema{types{fields{type{fields{type{name}}}}}}}",
            text,
        )
    )
    return json.dumps({"query": query, "variables": {"a": text}}).encode()


def _manifest(maker: Maker, route: Route, shape: str) -> bytes:
    """A snapshot with a spoilt part, as YAML."""
    rng, spoilt = maker.rng, SHAPES[shape](maker.rng, 60_000)
    if shape == "repeated" and rng.random() < 0.5:
        levels = "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 12))
        return ("a0: &a0 [x]\n" + levels).encode()
    if shape == "deep" and rng.random() < 0.5:
        return ("[" * 50_000).encode()
    columns = [f"c{n} STRING" for n in range(20_000 if shape == "wide" else 2)]
    columns = columns if rng.random() < 0.5 else ["a STRING " + spoilt]
    read = {"kind": rng.choice(("NdJson", "Csv", "Parquet")), "schema": columns}
    source = {
        "kind": "AddPushSource",
        "sourceName": "default",
        "read": read,
        "preprocess": {
            "kind": "Sql",
            "engine": "datafusion",
            "query": rng.choice(QUERIES)("input"),
        },
        "merge": {"kind": "Append"},
    }
    polling = {
        "kind": "SetPollingSource",
        "fetch": {"kind": "Url", "url": "http://127.0.0.1:1/" + spoilt},
        "read": read,
        "merge": {"kind": "Append"},
    }
    readme = {"kind": "Embedded", "items": [{"path": "README.md", "content": spoilt}]}
    events = [
        source,
        polling,
        {"kind": "SetInfo", "description": spoilt, "keywords": [spoilt] * 3},
        {"kind": "SetAttachments", "attachments": readme},
    ]
    chosen = rng.sample(events, rng.choice((1, 2))) * (500 if shape == "repeated" else 1)
    name = f"made-{rng.getrandbits(40)}"
    content = {"name": name, "kind": rng.choice(("Root", "Derivative")), "metadata": chosen}
    told = {"kind": "DatasetSnapshot", "version": 1, "content": content}
    return json.dumps(told).encode()  # JSON is YAML


def _form(maker: Maker, route: Route, shape: str) -> bytes:
    rng = maker.rng
    pairs = [(name, maker._value(name, shape)) for name in route.fields or FORM_FIELDS]
    if shape in ("wide", "repeated"):
        one = "a" if shape == "repeated" else None
        pairs += [(one or f"a{n}", "1") for n in range(rng.choice((10, 20_000)))]
    return urlencode(pairs, errors="replace").encode()[:BODY_CHARS]


def _multipart(maker: Maker, route: Route, shape: str) -> bytes:
    rng = maker.rng
    name = SHAPES[shape](rng, 3_000).replace("\n", "")
    parts = rng.choice((1, 3_000)) if shape in ("wide", "repeated") else 1
    content = _rows(maker, route, shape)[: BODY_CHARS // parts]
    head = (
        f'--x\r\nContent-Disposition: form-data; name="file"; filename="{name[:2000]}.csv"\r\n\r\n'
    )
    return (head.encode() + content + b"\r\n") * parts + (b"" if shape == "deep" else b"--x--\r\n")


def _rows(maker: Maker, route: Route, shape: str) -> bytes:
    """Rows as text: objects a line."""
    rng = maker.rng
    match shape:
        case "deep":
            return b'{"city":' + b"[" * 60_000 + b"1" + b"]" * 60_000 + b"}\n"
        case "wide":
            return json.dumps({f"c{n}": n for n in range(5_000)}).encode() + b"\n"
        case "repeated":
            return b'{"city": "A", "n": 1}\n' * rng.choice((10, 20_000))
        case _:
            return json.dumps({"city": SHAPES[shape](rng, BODY_CHARS), "n": "9" * 5_000}).encode()


def _csv(maker: Maker, route: Route, shape: str) -> bytes:
    quoted = b'"' if maker.rng.random() < 0.5 else b""
    return quoted + SHAPES[shape](maker.rng, BODY_CHARS).encode() + b"\n1,2\n"


def _parquet(maker: Maker, route: Route, shape: str) -> bytes:
    """Few bytes of many rows, of many columns, or of long cells; or half a file."""
    rng, sink = maker.rng, io.BytesIO()
    if shape == "wide":
        table = pa.table({f"c{n}": pa.array([n]) for n in range(3_000)})
    else:
        rows = rng.choice((2, 2_000_000))
        cell = "x" * (20_000_000 if rows == 2 else 1)
        cities = pa.array([cell]).take(pa.array(np.zeros(rows, np.int32)))
        table = pa.table({"city": cities, "n": np.zeros(rows, np.int64)})
    pq.write_table(table, sink, compression="zstd")
    content = sink.getvalue()
    return content if rng.random() < 0.7 else content[: len(content) // 2] + b"PAR1"


def _plain(maker: Maker, route: Route, shape: str) -> bytes:
    return maker.rng.choice(
        (SHAPES[shape](maker.rng, BODY_CHARS).encode(), maker.rng.randbytes(5_000))
    )


BODIES: dict[str, Callable[[Maker, Route, str], bytes]] = {
    "application/json": _json,
    "application/yaml": _manifest,
    "application/x-www-form-urlencoded": _form,
    "multipart/form-data": _multipart,
    "text/csv": _csv,
    "application/x-ndjson": _rows,
    "application/geo+json": _json,
    "application/x-ndgeojson": _rows,
    "application/vnd.apache.parquet": _parquet,
}
OF_ROUTES: dict[str, Callable[[Maker, Route, str], bytes]] = {"/mcp": _called, "/graphql": _graph}
"""Bodies of routes whose JSON is a language of its own."""
