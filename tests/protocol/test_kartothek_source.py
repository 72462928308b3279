"""Addresses of Kartothek sources: what they name, and what they cannot name."""

from __future__ import annotations

from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st
from refusals import perhaps_refusing, refusing

from odf_protocol.kartothek.source import SCHEMES, parse_address

FOLDERS = st.lists(st.text("abc-._~%20", min_size=1, max_size=5), max_size=3)


@given(
    st.sampled_from(SCHEMES),
    FOLDERS,
    st.from_regex(r"[A-Za-z0-9+_-]{1,20}", fullmatch=True),
    st.none() | st.from_regex(r"[A-Za-z0-9 ,+_-]{1,10}", fullmatch=True),
)
def test_an_address_names_what_it_was_made_of(scheme, folders, uuid, table):
    store = "/".join([f"{scheme}://host", *folders])
    query = "" if table is None else f"?table={quote(table)}"
    found = parse_address(f"{store}/{uuid}{query}")
    assert (f"kartothek+{found.store}", found.uuid, found.table) == (store, uuid, table)


@given(st.text(max_size=60), st.sampled_from(SCHEMES))
def test_any_text_is_an_address_or_is_refused_as_none(text, scheme):
    for url in (text, f"{scheme}://{text}", f"{scheme}://host/u?{text}"):
        with perhaps_refusing("MalformedAddress"):
            found = parse_address(url)
            assert "/" not in found.uuid
            assert found.table is None or "/" not in found.table


@pytest.mark.parametrize(
    "url",
    [
        "file:///a/u",
        "kartothek+ftp://h/u",
        "kartothek+file:///a/..",
        "kartothek+file:///a/u%2F..",
        "kartothek+file:///a/u?table=..",
        "kartothek+file:///a/u?table=",
        "kartothek+file:///a/u?table=a&table=b",
        "kartothek+file:///a/u#f",
        "kartothek+http://[::1/u",
    ],
)
def test_what_names_no_dataset_is_refused(url):
    with refusing("MalformedAddress"):
        parse_address(url)
