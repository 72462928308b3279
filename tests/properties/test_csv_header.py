"""Headers of CSV files against the declared names: a plain second implementation says the same."""

from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st

from odf_protocol.sources.csv_header import HeaderMismatch, Matched, distinct_names, match
from odf_protocol.sources.source_options import HeaderRule

NAMES = ["a", "b", "c", "d", "e"]
OTHERS = [*NAMES, "x", "y", "A", " b ", "C", "ß", "ss", "", "é"]
DECLARED = st.lists(st.sampled_from([*NAMES, "A", "B", "x"]), min_size=1, max_size=5, unique=True)


@st.composite
def headers(draw: st.DrawFn) -> tuple[list[str], list[str]]:
    """Declared names, and a header of as many: permuted, renamed in places, in other case."""
    declared = draw(DECLARED)
    header = list(draw(st.permutations(declared)))
    for at in draw(st.sets(st.integers(0, len(header) - 1))):
        header[at] = draw(st.sampled_from([*OTHERS, header[at].upper(), f" {header[at]}"]))
    return header, declared


def plainly(header: list[str], declared: list[str]) -> list[int] | str:
    """For each declared column its field, `refused`, or `warned` before columns by position."""

    def loose(name: str) -> str:
        return name.strip().casefold()

    given = header
    repeated = [n for n in header if [loose(other) for other in header].count(loose(n)) > 1]
    if (repeated or "" in map(str.strip, header)) and (
        len(set(header)) < len(header) or set(header) != set(declared)
    ):
        header = list(distinct_names(header))
    folded = len({loose(n) for n in header}) == len(header)
    folded = folded and len({loose(n) for n in declared}) == len(declared)

    def equal(one: str, other: str) -> bool:
        return loose(one) == loose(other) if folded else one == other

    places = [[at for at, n in enumerate(header) if equal(n, wanted)] for wanted in declared]
    if all(len(found) == 1 for found in places):
        order = [found[0] for found in places]
        spelled = [header[at].strip() for at in order] == [n.strip() for n in declared]
        cased = len({n.strip() for n in repeated}) > len({loose(n) for n in repeated})
        return order if header is given or not cased or spelled else "refused"
    for column, found in enumerate(places):
        if any(at != column for at in found):
            return "refused"
    others = [n for at, n in enumerate(given) if not equal(header[at], declared[at])]
    taken = [loose(n) for n in declared]
    if header is not given and any(loose(n) in taken for n in others):
        return "refused"
    return "warned"


def ours(header: list[str], declared: list[str]) -> list[int] | str:
    try:
        matched = match(header, declared)
    except HeaderMismatch:
        return "refused"
    if matched.warnings():
        assert matched.in_order
        return "warned"
    return list(matched.order)


@given(headers())
@example((["name", "carrier"], ["carrier", "name"]))
@example((["id", "name", "kind"], ["id", "carrier", "name"]))
@example((["a", "a"], ["a", "b"]))
def test_headers_mean_what_the_plain_rule_says(case: tuple[list[str], list[str]]) -> None:
    assert ours(*case) == plainly(*case)


@given(headers())
def test_a_strict_source_takes_only_its_own_header(case: tuple[list[str], list[str]]) -> None:
    header, declared = case
    try:
        assert match(header, declared, HeaderRule.STRICT).in_order
        taken = True
    except HeaderMismatch:
        taken = False
    assert taken == (header == declared)


@given(headers())
def test_a_source_by_position_looks_at_no_names(case: tuple[list[str], list[str]]) -> None:
    header, declared = case
    assert match(header, declared, HeaderRule.POSITION) == Matched(tuple(range(len(declared))))
