"""Sources that no batch could be read by are refused when they are defined."""

from __future__ import annotations

from typing import Any

import pytest

from odf_protocol.chain.state import Vocab
from odf_protocol.codec.manifests import from_data
from odf_protocol.errors import BadInput
from odf_protocol.metadata.events import AddPushSource, SetPollingSource
from odf_protocol.sources.source_rules import check_definition

FIELDS = [{"name": "a", "type": "Int64"}, {"name": "b", "type": "String"}]
CSV = {"kind": "Csv", "schema": {"fields": FIELDS}}
APPEND = {"kind": "Append"}
LEDGER = {"kind": "Ledger", "primaryKey": ["a", "event_time"]}
UPSERT = {"kind": "UpsertStream", "primaryKey": ["a"]}
CHANGELOG = {"kind": "ChangelogStream", "primaryKey": ["a"]}


def declaring(name: str, kind: str) -> dict[str, Any]:
    return {**CSV, "schema": {"fields": [*FIELDS, {"name": name, "type": kind}]}}


def push(read: Any = CSV, merge: Any = APPEND, **more: Any) -> AddPushSource:
    found = {"kind": "AddPushSource", "sourceName": "s", "read": read, "merge": merge, **more}
    event: AddPushSource = from_data(found, AddPushSource)
    return event


def polling(fetch: Any) -> SetPollingSource:
    found = {"kind": "SetPollingSource", "fetch": fetch, "read": CSV, "merge": APPEND}
    event: SetPollingSource = from_data(found, SetPollingSource)
    return event


def url(text: str, **more: Any) -> SetPollingSource:
    return polling({"kind": "Url", "url": text, **more})


def from_path(pattern: str, wanted: str | None = None) -> dict[str, Any]:
    found = {"kind": "FromPath", "pattern": pattern}
    return found if wanted is None else {**found, "timestampFormat": wanted}


PARQUET = {"kind": "Parquet"}
SNAPSHOT = {"kind": "Snapshot", "primaryKey": ["k"]}


def table(text: str = "kartothek+file:///x/u", **more: Any) -> SetPollingSource:
    fetch = {"kind": "Url", "url": text, **more.pop("fetch", {})}
    found = {"kind": "SetPollingSource", "fetch": fetch, "read": PARQUET, "merge": SNAPSHOT, **more}
    event: SetPollingSource = from_data(found, SetPollingSource)
    return event


SQL = {"kind": "Sql", "engine": "datafusion", "queries": [{"query": "select 1"}]}
GOOD = [
    push(),
    push(merge=LEDGER),
    push({"kind": "Csv"}, LEDGER),
    push(merge={"kind": "Ledger", "primaryKey": ["made"]}, preprocess=SQL),
    push(declaring("op", "Int64"), UPSERT),
    push(declaring("op", "Int32"), CHANGELOG),
    push(declaring("event_time", "Date")),
    push(declaring("offset", "String"), preprocess=SQL),
    push({"kind": "Csv", "ddlSchema": ["op INT", "offset INT", "event_time STRING"]}),
    push({**CSV, "dateFormat": "MMM d yyyy", "timestampFormat": "rfc3339", "encoding": "UTF-8"}),
    push(
        {"kind": "Csv", "ddlSchema": ["a INT", "b STRING"]}, {"kind": "Ledger", "primaryKey": ["a"]}
    ),
    url("https://x.test/y", eventTime=from_path(r"(\d+)", "%Y")),
    url("${{ env.WHERE }}"),
    polling({"kind": "FilesGlob", "path": "/x/*", "eventTime": from_path(r"(.*)", "yyyy-MM-dd")}),
    *(
        table(f"kartothek+{text}")
        for text in (
            "file:///u",
            "s3://bucket/u?table=core",
            "s3+http://h:1/bucket/p/u",
            "https://user:word@h/p/u_-+A9",
            "https://${{ env.HOST }}/u.u",
        )
    ),
    table(merge={"kind": "Ledger", "primaryKey": ["k"]}),
    table(merge={"kind": "UpsertStream", "primaryKey": ["k"]}, preprocess=SQL),
    table(fetch={"eventTime": {"kind": "FromMetadata"}}),
]
WRONG = [
    (push({**CSV, "separator": ";;"}), "separator"),
    (push({**CSV, "quote": ""}), "quote"),
    (push({**CSV, "encoding": "rot13"}), "encoding"),
    (push({**CSV, "dateFormat": "DD/MM/YYYY"}), "pattern"),
    (push({"kind": "NdJson", "timestampFormat": "%Y-%m-%d"}), "pattern"),
    (
        push({"kind": "Csv", "schema": {"fields": FIELDS, "extra": {"odf-node/csvHeader": "x"}}}),
        "one of",
    ),
    (push(merge={"kind": "Ledger", "primaryKey": ["c"]}), "`c`"),
    (push(merge=CHANGELOG), "declare `op` as an Int32"),
    (push(declaring("op", "String"), UPSERT), "`op` has to be a whole number"),
    (push(declaring("op", "Int32")), "`op` is written by the node"),
    (push(declaring("system_time", "Timestamp"), UPSERT), "`system_time` is written by the node"),
    (push(declaring("event_time", "Int64")), "`event_time` has to be a Date or a Timestamp"),
    (push(merge={"kind": "Snapshot", "primaryKey": ["a"], "compareColumns": ["c"]}), "`c`"),
    (push({"kind": "Csv", "ddlSchema": ["a TINYINT"]}), "a"),
    (url("s3://bucket/x"), "s3"),
    (url("https://x.test/${{ env.X"), "has no end"),
    (url("https://x.test/${{ secrets.KEY }}"), "secrets.KEY"),
    (url("https://x.test/", headers=[{"name": "X", "value": "${{ KEY }}"}]), "KEY"),
    (url("https://x.test/", headers=[{"name": "a b", "value": "1"}]), "no word"),
    (url("https://x.test/", headers=[{"name": "Host", "value": "1"}]), "connection"),
    (url("https://x.test/", headers=[{"name": n, "value": "1"} for n in ("X", "x")]), "twice"),
    (polling({"kind": "Container", "image": "x", "args": ["${{ env. }}"]}), "env"),
    (url("https://x.test/y", eventTime=from_path("(")), "regular expression"),
    (url("https://x.test/y", eventTime=from_path("(.*)", "YYYY")), "pattern"),
    (
        polling({"kind": "FilesGlob", "path": "/x/*", "eventTime": {"kind": "FromMetadata"}}),
        "metadata",
    ),
    *(
        (table(f"kartothek+{text}"), "is at")
        for text in (
            "file:///x/",
            "file:///x/u.u",
            "file:///x/u?t=1",
            "file:///x/u?table=",
            "file:///x/u?table=..",
            "file:///x/u?table=a%2Fb",
            "file:///x/u?table=a&table=b",
            "file:///x/u#f",
            "file://[x/u",
        )
    ),
    (table("kartothek+ftp://h/u"), "scheme"),
    (table("KARTOTHEK+https://${{ env.H }}/u", merge=APPEND), "Ledger or Snapshot"),
    (table(merge={"kind": "ChangelogStream", "primaryKey": ["k"]}), "Ledger or Snapshot"),
    (table(read={"kind": "NdJson"}), "Parquet"),
    (table(prepare=[{"kind": "Decompress", "format": "Gzip"}]), "prepare"),
    (table(fetch={"eventTime": from_path("(.*)")}), "event time"),
]


@pytest.mark.parametrize("event", GOOD)
def test_what_can_be_read_is_taken(event: Any) -> None:
    check_definition(event, Vocab())


@pytest.mark.parametrize(("event", "told"), WRONG)
def test_what_can_never_be_read_is_refused(event: Any, told: str) -> None:
    with pytest.raises(BadInput, match=told):
        check_definition(event, Vocab())


@pytest.mark.parametrize(
    "kind",
    [
        {"kind": "Duration", "unit": "Millisecond"},
        {"kind": "Map", "keyType": {"kind": "String"}, "valueType": {"kind": "Int64"}},
        {"kind": "List", "itemType": {"kind": "Duration", "unit": "Second"}},
    ],
)
def test_a_column_whose_values_have_no_hash_is_refused_where_it_is_declared(kind):
    read = {**CSV, "schema": {"fields": [*FIELDS, {"name": "odd", "type": kind}]}}
    with pytest.raises(BadInput, match=r"'odd' has the type .* no logical hash .* as String"):
        check_definition(push(read), Vocab())
    check_definition(push(read, preprocess=SQL), Vocab())


@pytest.mark.parametrize("unit", ["Microsecond", "Nanosecond"])
def test_a_unit_of_times_that_is_not_kept_is_refused_where_it_is_declared(unit):
    fine = {"name": "at", "type": {"kind": "Timestamp", "unit": unit}}
    read = {**CSV, "schema": {"fields": [*FIELDS, fine]}}
    with pytest.raises(BadInput, match=r"`at` is declared in .* unit Millisecond"):
        check_definition(push(read), Vocab())
    check_definition(push(read, preprocess=SQL), Vocab())
