"""The page of a dataset has the visitor's own machine hash its blocks and files."""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path

import pytest
from browsers import NARROW, violations
from chain_maker import add_data, linked, seed, some_id
from page_sets import stations
from service import seeded, serving, ten_rows

from odf_protocol.codec.blocks import decode_block
from odf_protocol.metadata.events import AddData, DataSlice, ExecuteTransform, OffsetInterval, Seed
from odf_protocol.multihash import Multihash
from odf_storage.stores.ports.values import Visibility

VECTORS = Path(__file__).parents[1] / "vectors" / "blocks.json"
BLOCKS = [vector for vector in json.loads(VECTORS.read_text())["vectors"] if "bytes" in vector]
CHECK = re.compile("^Check it here")


@pytest.fixture(scope="module")
def node(tmp_path_factory):
    with serving(tmp_path_factory.mktemp("verified"), tenancy="multi") as service:
        service.keep(stations(), "anna/stations")
        several = ten_rows().add_rows(3, checkpoint=b"kept").add_rows(2)
        service.keep(several, "anna/several")
        service.keep(seeded(), "anna/empty")
        service.keep(stations(), "anna/hidden", Visibility.PRIVATE)
        yield service


@pytest.fixture(scope="module")
def path(node):
    return f"{node.url}/anna/stations"


def test_hashes_are_those_of_the_standard(path, window):
    page = window(path)
    script = """async sizes => {
        const { Sha3 } = await import("/v/sha3.js");
        const bytes = size => Uint8Array.from({ length: size }, (_, n) => (7 * n) % 256);
        const apart = new Sha3();
        for (let n = 0; n < 1000; n++) apart.update(bytes(n));
        return [...sizes.map(size => new Sha3().update(bytes(size)).hex()), apart.hex()];
    }"""

    def content(size):
        return bytes(7 * n % 256 for n in range(size))

    sizes = [0, 1, 7, 8, 135, 136, 137, 271, 272, 273, 4096, 100_001]
    together = b"".join(map(content, range(1000)))
    known = [hashlib.sha3_256(each).hexdigest() for each in [*map(content, sizes), together]]
    assert page.evaluate(script, sizes) == known
    # FIPS 202, the empty message
    assert known[0] == "a7ffc6f8bf1ed76651c14756a061d662f580ff4de43b49fa82d80a4b80f8434a"


def test_blocks_are_read_as_the_node_reads_them(path, window):
    script = """async texts => {
        const { readBlock } = await import("/v/blocks.js");
        const plain = (_, value) => typeof value === "bigint" ? `${value}` : value;
        return texts.map(text => JSON.parse(JSON.stringify(readBlock(
            Uint8Array.from(text.match(/../g), byte => parseInt(byte, 16))), plain)));
    }"""
    found = window(path).evaluate(script, [vector["bytes"] for vector in BLOCKS])
    assert len(BLOCKS) > 50
    assert found == [told(bytes.fromhex(vector["bytes"])) for vector in BLOCKS]


def told(raw):
    """A block as the script tells it."""
    block = decode_block(raw).block
    event = block.event
    return {
        "number": str(block.sequence_number),
        "prev": str(block.prev_block_hash) if block.prev_block_hash else None,
        "id": str(event.dataset_id).removeprefix("did:odf:f") if isinstance(event, Seed) else None,
        "data": data_of(event) if isinstance(event, AddData | ExecuteTransform) else None,
    }


def data_of(event):
    new, kept = event.new_data, event.new_checkpoint
    return {
        "prevOffset": None if event.prev_offset is None else str(event.prev_offset),
        "start": new and str(new.offset_interval.start),
        "end": new and str(new.offset_interval.end),
        "slice": new and {"hash": str(new.physical_hash), "size": str(new.size)},
        "checkpoint": kept and {"hash": str(kept.physical_hash), "size": str(kept.size)},
    }


def test_a_block_that_ends_too_early_is_unreadable_wherever_it_ends(path, window):
    script = """async text => {
        const { readBlock, Unreadable } = await import("/v/blocks.js");
        const bytes = Uint8Array.from(text.match(/../g), byte => parseInt(byte, 16));
        const outcomes = new Set();
        for (let size = 0; size < bytes.length; size++)
            try { readBlock(bytes.slice(0, size)); outcomes.add("read"); }
            catch (error) { outcomes.add(error instanceof Unreadable ? "unreadable" : `${error}`); }
        return [...outcomes];
    }"""
    raw = next(vector["bytes"] for vector in BLOCKS if vector["event"] == "AddData")
    assert window(path).evaluate(script, raw) == ["unreadable"]


@pytest.mark.parametrize(
    ("name", "blocks", "files"), [("stations", 7, 2), ("several", 6, 5), ("empty", 1, 0)]
)
def test_what_is_whole_is_said_to_be(node, window, name, blocks, files):
    page = window(f"{node.url}/anna/{name}", width=NARROW, scheme="dark")
    page.get_by_role("button", name=CHECK).click()
    outcome = page.locator("#verify .outcome p")
    outcome.filter(has_text="the chain is whole").wait_for()
    assert f"{blocks} blocks, {files} files" in outcome.inner_text()
    with node.http() as client:
        assert client.get(f"/anna/{name}/refs/head").text in outcome.inner_text()
    assert violations(page) == []


@pytest.mark.parametrize("folder", ["blocks", "data", "checkpoints"])
def test_a_flipped_bit_is_found(path, window, folder):
    page = window(path)

    def flip(route):
        answer = route.fetch()
        body = bytearray(answer.body())
        body[len(body) // 2] ^= 1
        route.fulfill(response=answer, body=bytes(body))

    page.context.route(f"**/{folder}/*", flip)
    page.get_by_role("button", name=CHECK).click()
    page.locator("#verify .problem").wait_for()
    problems = page.locator("#verify li").all_inner_texts()
    assert len(problems) == 1
    assert re.search("has the bytes of f1620", problems[0])


GAPS = {
    "offsets of block": [(None, 0, 4), (4, 6, 9)],
    "do not go on where it ends": [(None, 0, 4), (5, 6, 9)],
    "that there were others before": [(7, 8, 9)],
}


@pytest.mark.parametrize("said", GAPS)
def test_a_chain_whose_hashes_fit_and_whose_rows_do_not_is_refused(node, path, window, said):
    dataset = some_id()
    blocks = [linked(None, seed(dataset))]
    for prev, start, end in GAPS[said]:
        part = DataSlice(
            logical_hash=Multihash.of(b""),
            physical_hash=Multihash.of(b""),
            offset_interval=OffsetInterval(start=start, end=end),
            size=0,
        )
        blocks.append(linked(blocks[-1], add_data(part, prev=prev)))
    page = window("about:blank")
    show_instead(page, path, f'data-head="{blocks[-1].hash}"', f'data-id="{dataset}"')
    answer_instead(page, "blocks", {str(block.hash): block.raw for block in blocks})
    answer_instead(page, "data", {str(Multihash.of(b"")): b""})
    page.goto(path)
    page.get_by_role("button", name=CHECK).click()
    page.locator("#verify li", has_text=said).wait_for()
    assert page.locator("#verify li").count() == 1


def answer_instead(page, folder, contents):
    """Has the files of a folder have other contents, by name."""

    def answered(route):
        route.fulfill(body=contents[route.request.url.rpartition("/")[2]])

    page.context.route(f"**/{folder}/*", answered)


def show_instead(page, path, *attributes):
    """Has the page of a dataset arrive with other attributes, and hear no news of the true ones."""

    def changed(route):
        answer = route.fetch()
        body = answer.text()
        for attribute in attributes:
            body = re.sub(attribute.partition("=")[0] + '="[^"]*"', attribute, body)
        route.fulfill(response=answer, body=body)

    page.context.route(path, changed)
    silence = {"content_type": "text/event-stream", "body": "retry: 1000000\n\n"}
    page.context.route("**/events?*", lambda route: route.fulfill(**silence))


def test_a_file_that_never_ends_is_given_up_at_its_size(path, window):
    page = window(path)
    page.context.route("**/data/*", lambda route: route.fulfill(status=200, body=b"x" * 1_000_000))
    page.get_by_role("button", name=CHECK).click()
    page.locator("#verify li", has_text=re.compile("has more than [0-9]+ bytes")).wait_for()


def test_a_check_can_be_cancelled_and_begun_again(path, window):
    page = window(path)
    held = []
    page.context.route("**/data/*", lambda route: held.append(route))
    page.get_by_role("button", name=CHECK).click()
    page.get_by_role("button", name="Cancel").click()
    page.context.unroute("**/data/*")
    page.get_by_role("button", name=CHECK).click()
    page.locator("#verify p", has_text="the chain is whole").wait_for()


def test_before_much_is_fetched_the_visitor_is_asked(path, window):
    page = window("about:blank")

    show_instead(page, path, f'data-bytes="{300 << 20}"')
    page.goto(path)
    page.get_by_role("button", name=CHECK).click()
    page.get_by_text("This fetches 300.0 MiB").wait_for()
    page.get_by_role("button", name="Only the blocks").click()
    outcome = page.locator("#verify .outcome p")
    outcome.filter(has_text="Every block has the hash").wait_for()
    assert "files" not in outcome.inner_text()


def test_a_private_dataset_names_the_command_instead(node, window):
    page = window(f"{node.url}/v/sign-in")
    page.locator("[name=token]").fill(node.token("anna"))
    page.locator("main form button").last.click()
    page.goto(f"{node.url}/anna/hidden")
    assert page.get_by_role("button", name=CHECK).count() == 0
    page.get_by_text(f"odf-node verify {node.url}/anna/hidden").wait_for()
