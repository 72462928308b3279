"""The package for npm reads and verifies datasets, in Node and in a browser of another origin."""

from __future__ import annotations

import json
import random
import threading
from collections.abc import Iterator
from decimal import Decimal
from typing import Any
from urllib.parse import urlsplit

import httpx
import pyarrow as pa
import pytest
from door_tables import MANY, SLICES, TAKEN, make_door_tables
from javascripts import Javascript
from servers import free_port
from service import Service, seeded, serving, ten_rows
from static_files import answering, send
from table_made import ITEMS, TableMade, item

from odf_protocol.instant import NANOS, Instant
from odf_storage.runtime.clock import system_clock
from odf_storage.stores.ports.values import Visibility

WIDE = 2**53 + 1
ODD = pa.schema(
    [
        ("n", pa.int64()),
        ("u", pa.uint64()),
        ("f", pa.float64()),
        ("d", pa.decimal128(30, 10)),
        ("exact", pa.timestamp("ns", "UTC")),
        ("day", pa.date32()),
        ("raw", pa.binary()),
        ("inner", pa.struct([("ns", pa.list_(pa.int64())), ("x", pa.float64())])),
        ("s", pa.string()),
    ]
)
ODD_ROWS: list[dict[str, Any]] = [
    {
        "n": WIDE,
        "u": 2**64 - 1,
        "f": 1e17,
        "d": Decimal("1234567890123456789.0123456789"),
        "exact": 1_767_312_245_123_456_789,
        "day": 20_000,
        "raw": b"\xff\x00",
        "inner": {"ns": [1, None, -WIDE], "x": 0.1},
        "s": f"\x01n{WIDE}",
    },
    {"n": 2**53 - 1, "f": float("nan"), "inner": {"ns": [], "x": None}, "s": f'"{WIDE}\\'},
    {},
]
ODD_TOLD = [
    {
        "n": {"bigint": str(WIDE)},
        "u": {"bigint": str(2**64 - 1)},
        "f": 1e17,
        "d": "1234567890123456789.0123456789",
        "exact": "2026-01-02T00:04:05.123456789Z",
        "day": "2024-10-04",
        "raw": "ff00",
        "inner": {"ns": [1, None, {"bigint": str(-WIDE)}], "x": 0.1},
        "s": f"\x01n{WIDE}",
    },
    {"n": 2**53 - 1, "inner": {"ns": [], "x": None}, "s": f'"{WIDE}\\'},
    {},
]
ANY = {"Access-Control-Allow-Origin": "*", "Access-Control-Allow-Headers": "*"}


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with serving(tmp_path_factory.mktemp("node"), tenancy="multi") as service:
        stores, public = service.node.stores, Visibility.PUBLIC
        TableMade(stores, "alice/odd", ODD, visibility=public).add(ODD_ROWS)
        items = TableMade(stores, "alice/items", ITEMS, key=["id"], visibility=public)
        items.add([item(at) for at in range(6)])
        items.add([item(3), item(3, name="other")], [2, 3])
        TableMade(stores, "carol/hidden", ITEMS).add([item(7)])
        service.keep(ten_rows().add_rows(3, checkpoint=b"kept").add_rows(2), "alice/several")
        service.keep(seeded(), "alice/empty")
        yield service


@pytest.fixture(scope="module")
def doors(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with serving(tmp_path_factory.mktemp("doors")) as service:
        make_door_tables(service)
        yield service


@pytest.fixture
def run(javascript: Javascript, service: Service) -> Javascript:
    def on_node(script: str, **given: Any) -> Any:
        return javascript(script, **{"url": service.url, **given})

    return on_node


def test_datasets_are_listed_page_by_page_searched_and_described(run, service):
    script = """
        const node = new odf.Node(given.url), names = [];
        for await (const each of node.datasets({ limit: 2 })) names.push(each.alias);
        const found = await node.page({ search: "odd", details: true });
        const { head, records, kind } = await node.dataset("alice/odd").describe();
        const same = head === await odf.open(given.url + "/alice/odd/").head();
        return [names, found.datasets[0].records, found.total, records, kind, same];
    """
    names = [f"alice/{name}" for name in ("empty", "items", "odd", "several")]
    assert run(script) == [names, 3, 1, 3, "Root", True]
    seen = run(script.replace("(given.url)", "(given.url, given)"), token=service.token("carol"))
    assert seen[0] == [*names, "carol/hidden"]


def test_values_arrive_with_all_digits(run):
    script = """
        const data = new odf.Node(given.url, given).dataset("alice/odd");
        const rows = data.rows({ columns: given.columns });
        return [await rows.all(), rows.block === await data.head(), await data.tail().all()];
    """
    rows, is_head, last = run(script, columns=ODD.names)
    absent = dict.fromkeys(ODD.names)
    assert rows == [{**absent, **row} for row in ODD_TOLD]
    assert is_head
    assert [{name: row[name] for name in ODD.names} for row in last] == rows
    told, _, _ = run(script, columns=["n", "u"], integers="text")
    assert told[0] == {"n": str(WIDE), "u": str(2**64 - 1)}


def test_rows_are_chosen_as_the_contract_says_and_more_of_them_are_not_fetched(run):
    script = """
        const data = new odf.Node(given.url).dataset("alice/items");
        const ids = async (options) => (await data.rows(options).all()).map((row) => row.id);
        const some = { filter: ["id:ge:2", "name:notnull"], columns: ["id"], limit: 2 };
        const all = data.rows({ projection: "changelog" });
        for await (const row of all) break;
        const first = all.block;
        return [
          await ids(), await ids(some), (await ids({ projection: "changelog" })).length,
          await ids({ skip: 4 }), (await data.tail({ limit: 1 }).all())[0].name, first,
          await ids({ asAt: new Date(0) }), await ids({ asAt: first }),
        ];
    """
    ids, some, count, skipped, last, block, before, then = run(script)
    assert (sorted(ids), some, count, len(skipped)) == ([0, 1, 2, 3, 4, 5], [2, 4], 8, 2)
    assert (last, before, then) == ("other", [], ids)
    assert block.startswith("f1620")


@pytest.mark.parametrize(("name", "count", "files"), [(MANY, SLICES, SLICES), (TAKEN, 6, 3)])
def test_many_slices_and_rows_taken_back_are_read_and_verified(
    javascript, doors, name, count, files
):
    script = """
        const data = odf.open(given.url), rows = await data.rows().all();
        return [rows, (await data.tail().all()).length, await data.verify()];
    """
    rows, last, found = javascript(script, url=f"{doors.url}/{name}")
    with doors.http() as http:
        lines = http.get(f"/{name}/read?format=ndjson").text.splitlines()
    assert rows == [json.loads(line) for line in lines]
    assert len(rows) == count
    assert last == min(100, 10 if name == TAKEN else SLICES)
    assert (found["ok"], found["files"]) == (True, files)


def test_a_query_names_its_blocks_and_proves_itself(run):
    script = """
        const node = new odf.Node(given.url);
        const sql = 'select n, u, d, f from "alice/odd" order by n';
        const plain = await node.query(sql, { limit: 1 });
        const again = await node.query(sql, { datasets: plain.datasets, proof: true });
        const forged = structuredClone(again.proof);
        forged.commitment.outputHash = forged.commitment.inputHash;
        return [plain, again.rows, await node.check(again.proof), await node.check(forged)];
    """
    plain, rows, held, refuted = run(script)
    assert plain["rows"][0]["n"] == 2**53 - 1
    assert [field["name"] for field in plain["schema"]["fields"]] == ["n", "u", "d", "f"]
    assert plain["datasets"][0]["alias"] == "alice/odd"
    assert plain["proof"] is None
    assert rows[1] == {name: ODD_TOLD[0][name] for name in ("n", "u", "d", "f")}
    assert (held["ok"], refuted["ok"]) == (True, False)
    assert refuted["error"]["message"]


def test_a_file_has_what_json_has_no_word_for(run):
    script = """
        const file = await odf.open(given.url + "/alice/odd").file({ format: "arrow" });
        return Array.from(file);
    """
    table = pa.ipc.open_stream(bytes(run(script))).read_all()
    assert str(table["f"].to_pylist()) == "[1e+17, nan, None]"


REFUSALS = {
    'await node.query("select nothing from \\"alice/odd\\"")': ("InvalidQuery", 400),
    "await data.rows({ filter: 'n' }).all()": ("MalformedFilter", 400),
    "await node.dataset('alice/none').describe()": ("DatasetHidden", 404),
    "await node.dataset('carol/hidden').rows().all()": ("DatasetHidden", 404),
    "await data.publish([{ n: 1 }])": ("ActionForbidden", 403),
    "await node.page({ limit: 0 })": ("InvalidRequest", 400),
    "await new odf.Node(given.url, { token: 'ka_wrong' }).page()": ("Unauthenticated", 401),
    "await data.rows({ asAt: 'f1620' + '0'.repeat(64) }).all()": ("NotInHistory", 404),
}


def test_what_a_node_refuses_is_an_error_with_a_code(run):
    tried = ",\n".join(f"await refused(async () => {call})" for call in REFUSALS)
    script = f"""
        const node = new odf.Node(given.url), data = node.dataset("alice/odd");
        return [{tried}];
    """
    found = run(script)
    told = [(each["code"], each["status"]) for each in found]
    assert told == [*REFUSALS.values()]
    assert {each["name"] for each in found} == {"OdfError"}
    assert found[0]["problem"]["line"] == 1
    assert "No field named nothing" in found[0]["message"]


@pytest.mark.parametrize("how", ["revoked", "expired"])
def test_a_token_that_ends_between_two_calls_ends_the_second(javascript, tmp_path, how):
    ahead = [0]

    def clock() -> Instant:
        return Instant(system_clock().ns + ahead[0] * NANOS)

    with serving(tmp_path / "node", clock=clock) as service:
        TableMade(service.node.stores, "kamu/hidden", ITEMS).add([item(7)])
        until = Instant(clock().ns + 3600 * NANOS)
        token = service.token(expires_at=until)

        def end(handler: Any) -> None:
            if how == "expired":
                ahead[0] = 7200
            else:
                accounts = service.node.stores.accounts
                (known,) = accounts.tokens(accounts.find_account("kamu").id)
                accounts.revoke_token(known.id)
            send(handler, 200, b"", **ANY)

        script = """
            const node = new odf.Node(given.url, { token: async () => given.token });
            const rows = await node.dataset("hidden").rows().all();
            const { ok } = await node.dataset("hidden").verify();
            await fetch(given.end);
            return [rows.length, ok, await refused(() => node.dataset("hidden").rows().all())];
        """
        with answering(end) as ending:
            rows, ok, refusal = javascript(script, url=service.url, token=token, end=ending.url)
    assert (rows, ok) == (1, True)
    assert refusal["code"] == "Unauthenticated"
    assert refusal["message"].startswith("the node does not take this token")


def test_a_call_ends_when_its_signal_says_so(run):
    script = """
        const data = odf.open(given.url + "/alice/items");
        const gone = AbortSignal.abort(), late = new AbortController();
        const rows = data.rows({ signal: late.signal })[Symbol.asyncIterator]();
        await rows.next();
        late.abort(new Error("enough"));
        const held = new AbortController();
        const slow = odf.open(given.url + "/alice/items", { fetch: async (url, init) => {
          if (url.includes("/data/")) held.abort();
          return await fetch(url, init);
        } });
        const waits = new AbortController();
        const busy = odf.open(given.url + "/alice/items", { fetch: async () => {
          setTimeout(() => waits.abort());
          return new Response("", { status: 503, headers: { "retry-after": "30" } });
        } });
        const calls = [
          () => data.describe({ signal: gone }), () => data.rows({ signal: gone }).all(),
          () => data.publish([], { signal: gone }), () => data.verify({ signal: gone }),
          () => slow.verify({ signal: held.signal }), () => busy.head({ signal: waits.signal }),
        ];
        const found = [];
        for (const call of calls) found.push((await refused(call)).name);
        const ended = await refused(async () => { for (;;) if ((await rows.next()).done) break; });
        return [found, ended];
    """
    found, ended = run(script)
    assert found == ["AbortError"] * 6
    # a short answer may have arrived as a whole before
    assert ended is None or ended["message"] == "enough"


def test_a_call_ends_while_its_answer_stands_still(javascript):
    over = threading.Event()

    def still(handler: Any) -> None:
        handler.send_response(200)
        for name, value in {**ANY, "Content-Length": "1000"}.items():
            handler.send_header(name, value)
        handler.end_headers()
        handler.wfile.write(b'{"n":1}\n')
        over.wait(60)
        handler.close_connection = True

    script = """
        const data = odf.open(given.url + "x"), found = [];
        const calls = [
          (call) => data.head(call), (call) => data.rows(call).all(), (call) => data.describe(call),
          (call) => data.file({ format: "csv", ...call }),
          (call) => data.verify({ id: "did:odf:f", head: "f1620", ...call }),
        ];
        for (const call of calls)
          found.push((await refused(() => call({ signal: AbortSignal.timeout(200) }))).name);
        return found;
    """
    with answering(still) as server:
        found = javascript(script, url=server.url)
        over.set()
    assert found == ["TimeoutError"] * 5


def test_a_node_that_is_away_or_breaks_off_is_no_end_of_rows(javascript):
    def cut(handler: Any) -> None:
        handler.send_response(200)
        handler.send_header("Content-Type", "application/x-ndjson")
        handler.send_header("Access-Control-Allow-Origin", "*")
        if "limit=1" in handler.path:  # an honest length, and a row that has no end
            handler.send_header("Content-Length", "14")
            handler.end_headers()
            handler.wfile.write(b'{"n":1}\n{"n":2')
            return
        handler.send_header("Content-Length", "100")
        handler.end_headers()
        handler.wfile.write(b'{"n":1}\n')
        handler.close_connection = True

    script = """
        const away = new odf.Node(given.away, { tries: 1 }).dataset("x");
        const cut = odf.open(given.cut + "x"), seen = [];
        const read = async (rows) => { for await (const row of rows) seen.push(row.n); };
        return [
          await refused(() => away.describe()), await refused(() => away.rows().all()),
          await refused(() => away.publish([{ n: 1 }])), await refused(() => away.verify()),
          await refused(() => read(cut.rows())), await refused(() => read(cut.rows({ limit: 1 }))),
          seen,
        ];
    """
    with answering(cut) as breaking:
        away = f"http://127.0.0.1:{free_port()}"
        *refusals, seen = javascript(script, away=away, cut=breaking.url)
    assert [each["code"] for each in refusals] == ["Unreachable"] * 6
    assert away in refusals[0]["message"]
    assert seen[:1] == [1]


def test_an_answer_that_does_not_begin_is_given_up(javascript):
    over = threading.Event()
    script = """
        const data = odf.open(given.url + "x", { timeout: 300, tries: 1 });
        return await refused(() => data.head());
    """
    with answering(lambda _: over.wait(60)) as silent:
        refusal = javascript(script, url=silent.url)
        over.set()
    assert refusal["code"] == "Unreachable"
    assert "within 300 ms" in refusal["message"]


def test_a_busy_node_is_asked_again_and_not_for_ever(javascript):
    answers = iter([(503, "0"), (429, "0"), (200, ""), *[(503, "0")] * 3])

    def busy(handler: Any) -> None:
        status, after = next(answers)
        send(handler, status, b"f1620", **ANY, **({"Retry-After": after} if after else {}))

    script = """
        const data = odf.open(given.url + "x", { tries: 3 });
        return [await data.head(), await refused(() => data.head())];
    """
    with answering(busy) as server:
        head, refusal = javascript(script, url=server.url)
        assert len(server.requests) == 6
    assert head == "f1620"
    assert (refusal["code"], refusal["status"]) == ("Status503", 503)


WRONG = {
    "new odf.Node('ftp://x')": "neither http: nor https:",
    "new odf.Node('https://ka_x@node.example')": "no part of a URL",
    "new odf.Node(given.url, { tries: 0 })": "whole number from 1",
    "new odf.Node(given.url, { timeout: NaN })": "above 0",
    "new odf.Node(given.url, { integers: 'number' })": "bigint or text",
    "await data.publish([{ a: { b: [1, NaN] } }])": "row 1.a.b[1]: JSON has no NaN",
    "await data.publish([{}, { a: -Infinity }])": "row 2.a: JSON has no -Infinity",
    "await data.publish([{ a: new Date(NaN) }])": "invalid date",
    "await data.publish([{ a: new Map() }])": "a Map has no form",
    "await data.publish([{ a: () => 1 }])": "a function is no value",
    "await data.publish([[1]])": "row 1 is no object",
    "await data.publish('rows')": "row 1 is no object",
}


def test_what_no_node_could_take_is_refused_before_it_is_sent(run):
    tried = ",\n".join(f"await refused(async () => {call})" for call in WRONG)
    sent = "given.url, { fetch: () => { throw new Error('sent'); }, tries: 1 }"
    script = f"const data = new odf.Node({sent}).dataset('x');\nreturn [{tried}];"
    found = run(script)
    for refusal, said in zip(found, WRONG.values(), strict=True):
        assert refusal["name"] in {"TypeError", "RangeError"}
        assert said in refusal["message"]


def test_what_is_whole_is_verified_and_told_as_it_goes(run, service):
    script = """
        const node = new odf.Node(given.url), told = [], found = [];
        const onProgress = (sofar) => told.push(sofar);
        for (const name of ["several", "empty"])
          found.push(await node.dataset("alice/" + name).verify({ onProgress }));
        found.push(await node.dataset("alice/several").verify({ files: false }));
        found.push(await node.dataset("alice/several").verify({ id: found[1].id }));
        return [found, told.length];
    """
    (several, empty, blocks, another), told = run(script)
    with service.http() as http:
        assert several["head"] == http.get("/alice/several/refs/head").text
    assert (several["ok"], several["blocks"], several["files"]) == (True, 6, 5)
    assert (several["total"], several["problems"]) == (6, [])
    assert (empty["ok"], empty["blocks"], empty["files"]) == (True, 1, 0)
    assert (blocks["ok"], blocks["blocks"], blocks["files"]) == (True, 6, 0)
    assert another["ok"] is False
    assert another["problems"][0]["message"] == "the chain begins with another dataset"
    assert told >= 1


@pytest.mark.parametrize("folder", ["blocks", "data", "checkpoints"])
def test_a_flipped_bit_is_named_by_its_file(javascript, service, folder):
    flipped: list[str] = []

    def relay(handler: Any) -> None:
        answer = httpx.get(service.url + handler.path)
        body = bytearray(answer.content)
        path = urlsplit(handler.path).path.removeprefix("/alice/several/")
        if path.startswith(f"{folder}/") and flipped in ([], [path]):
            flipped[:] = [path]
            body[len(body) // 2] ^= 1
        kind = answer.headers["content-type"]
        send(handler, answer.status_code, bytes(body), Content_Type=kind, **ANY)

    script = "return await odf.open(given.url + 'alice/several').verify();"
    with answering(relay) as server:
        found = javascript(script, url=server.url)
    assert found["ok"] is False
    assert [each["file"] for each in found["problems"]] == flipped
    assert "has the bytes of f1620" in found["problems"][0]["message"]
    if folder != "blocks":  # all other files were looked at
        assert (found["blocks"], found["files"]) == (6, 4)


def test_a_node_that_goes_away_is_not_said_to_be_whole(run):
    script = """
        const other = (url, init) => fetch(url.includes("/data/") ? given.away : url, init);
        return await odf.open(given.url + "/alice/several", { fetch: other }).verify();
    """
    found = run(script, away=f"http://127.0.0.1:{free_port()}")
    assert found["ok"] is False
    assert len(found["problems"]) == 3
    assert all(each["file"].startswith("data/") for each in found["problems"])


def test_numbers_are_parsed_as_python_parses_them(javascript):
    made = random.Random(5)

    def value(depth: int) -> Any:
        texts = ["", "\x01", f"\x01n{WIDE}", '\\"12345678901234567890', f": {WIDE}", "🦋\u2028"]
        choice = made.randrange(9 if depth else 6)
        match choice:
            case 0:
                return made.choice([0, 1, -1, WIDE, -WIDE, 2**53 - 1, 2**53, 10**30, -(10**16)])
            case 1:
                return made.choice([0.5, 1e17, -2.5e-300, 1.7976931348623157e308, 1e16])
            case 2:
                return made.choice(texts)
            case 3 | 4:
                return made.choice([None, True, False])
            case 5:
                return made.randrange(-(2**70), 2**70)
            case 6 | 7:
                return [value(depth - 1) for _ in range(made.randrange(4))]
        return {made.choice(texts) + str(at): value(depth - 1) for at in range(made.randrange(4))}

    values = [value(4) for _ in range(500)]
    script = """
        const { parse, stringify } = await import(given.package + "/numbers.js");
        const tried = (text) => [parse(text), stringify(parse(text)), parse(text, "text")];
        return given.texts.map(tried);
    """
    texts = [json.dumps(each, indent=at % 3 or None) for at, each in enumerate(values)]
    for (found, written, plain), known in zip(javascript(script, texts=texts), values, strict=True):
        assert found == told(known, lambda digits: {"bigint": digits})
        assert json.loads(written) == known
        assert plain == told(known, str)


def told(value: Any, wide: Any) -> Any:
    """A value as JavaScript has it; numbers of texts that are written alike are the same."""
    if isinstance(value, bool) or value is None:
        return value
    if isinstance(value, int):
        return value if abs(value) < 2**53 else wide(str(value))
    if isinstance(value, list):
        return [told(each, wide) for each in value]
    if isinstance(value, dict):
        return {name: told(each, wide) for name, each in value.items()}
    return value
