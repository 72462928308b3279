"""Lists of datasets keep their promises in both databases; overviews say what chains say."""

from __future__ import annotations

from dataclasses import replace

import pytest
from chain_maker import entry
from service import SCHEMA, described, seeded, ten_rows
from tests.conformance.overview_store import OverviewStoreContract, dataset

from odf_protocol.chain.rules import fold_received
from odf_protocol.metadata.events import SetDataSchema, SetInfo, SetLicense
from odf_storage.datasets.node.overviews import (
    MAX_DESCRIPTION_CHARS,
    MAX_KEYWORDS,
    bring_up,
    overview_of,
)
from odf_storage.datasets.node.stores import Stores
from odf_storage.stores.ports.overviews import Readable, WantedOverviews
from odf_storage.stores.registers.datasets.overviews import MAX_WORDS, indexed_words, stem


class TestOverviewStores(OverviewStoreContract):
    pass


def test_an_overview_says_what_the_chain_says() -> None:
    chain = ten_rows()
    chain.add(SetInfo(description="said", keywords=("a", "b")))
    chain.add(SetLicense(short_name="CC-BY", name="By", website_url="https://example.org"))
    state = fold_received(chain.blocks)
    said = overview_of(state, chain.head)
    assert (said.head, said.records, said.data_size) == (chain.head, 10, state.data_size)
    assert (said.blocks, said.updated_at) == (len(chain.blocks), state.system_time)
    assert (said.description, said.keywords, said.license) == ("said", ("a", "b"), "CC-BY")
    assert said.columns == ("city", "population")


def test_texts_of_strangers_are_cut_to_what_a_database_takes() -> None:
    chain = ten_rows()
    chain.add(SetInfo(description="\0a" * 10_000, keywords=("k" * 1000,) * 1000))
    said = overview_of(fold_received(chain.blocks), chain.head)
    assert said.description is not None
    assert len(said.description) <= MAX_DESCRIPTION_CHARS
    assert "\0" not in said.description
    assert len(said.keywords) == MAX_KEYWORDS
    many = " ".join(f"word{number}" for number in range(10_000))
    assert len(indexed_words(many)) == MAX_WORDS


@pytest.mark.parametrize(
    "words",
    [
        ("measure", "measures", "measured", "measuring"),
        ("city", "cities"),
        ("box", "boxes"),
        ("glass", "glasses"),
        ("hour", "hours", "hourly"),
        ("run", "runs", "running"),
        ("speed", "speeds"),
    ],
)
def test_forms_of_a_word_have_one_stem(words: tuple[str, ...]) -> None:
    assert len({stem(word) for word in words}) == 1


def test_short_and_foreign_words_keep_their_ends() -> None:
    kept = ("bus", "gas", "status", "string", "red", "京都", "ab", "s", "")
    assert [stem(word) for word in kept] == [*kept]


def test_the_rows_of_the_newest_blocks_are_kept(stores: Stores) -> None:
    chain = seeded().add(described(), SetDataSchema(schema=SCHEMA))
    for rows in (1, 2, 3, 4):
        chain.add_rows(rows)
    made = replace(entry("kamu/four"), id=chain.id)
    stores.registry.create(made, blocks=chain.blocks)
    while bring_up(stores):
        pass
    [listed] = stores.overviews.page(WantedOverviews(readable=Readable(everything=True)))
    assert listed.overview is not None
    assert listed.overview.added == (1, 2, 3, 4)


def test_overviews_are_brought_up_to_their_heads(stores: Stores) -> None:
    for name in ("kamu/one", "kamu/two"):
        dataset(stores, name)
    assert bring_up(stores, limit=1) == 1
    assert bring_up(stores) == 1
    assert bring_up(stores) == 0
    shown = stores.overviews.page(WantedOverviews(readable=Readable(everything=True)))
    assert [listed.overview and listed.overview.head for listed in shown] == [
        listed.head for listed in shown
    ]
