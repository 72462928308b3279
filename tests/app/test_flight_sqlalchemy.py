"""SQLAlchemy by ADBC over Flight SQL, as Superset and notebooks use it: what it sees and gets."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pytest
from service import Service, serving
from table_made import ITEMS, TableMade, item

from odf_storage.stores.ports.values import Visibility

sa = pytest.importorskip("sqlalchemy")
pytest.importorskip("sqlalchemy_adbc", reason="needs sqlalchemy-adbc")
pytestmark = pytest.mark.filterwarnings("ignore:Cannot disable autocommit")
ROWS = 2_500
ODD = {7: "it's 50%_x", 8: "it's 50 x", 10: "50/%_"}
"""Names of some rows."""
TYPES = {
    "offset": "BIGINT", "op": "INTEGER", "system_time": "DATETIME", "event_time": "DATETIME",
    "id": "BIGINT", "price": "NUMERIC", "day": "DATE", "seen": "DATETIME", "tags": "NULL",
    "place": "NULL", "name": "VARCHAR", "weight": "FLOAT", "open": "BOOLEAN",
}  # fmt: skip


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with serving(tmp_path_factory.mktemp("node"), flight_port=0) as service:
        stores = service.node.stores
        items = TableMade(stores, "kamu/items", ITEMS, visibility=Visibility.PUBLIC)
        items.add([item(at, **({"name": ODD[at]} if at in ODD else {})) for at in range(ROWS)])
        TableMade(stores, "kamu/hidden", ITEMS).add([item(1)])
        yield service


def engine_of(service: Service, token: str) -> Any:
    port = service.node.flight.port
    return sa.create_engine(f"adbc+flightsql://any:{token}@127.0.0.1:{port}?tls=false")


@pytest.fixture(scope="module")
def engine(service: Service) -> Iterator[Any]:
    engine = engine_of(service, service.token())
    yield engine
    engine.dispose()


@pytest.fixture(scope="module")
def items(engine: Any) -> Any:
    return sa.Table("items", sa.MetaData(), autoload_with=engine)


def rows(engine: Any, query: Any) -> list[tuple[Any, ...]]:
    """With values as parameters, and written in the text, as Superset does it: both alike."""
    text = query.compile(engine, compile_kwargs={"literal_binds": True})
    with engine.connect() as connection:
        written = [tuple(row) for row in connection.exec_driver_sql(str(text))]
        assert [tuple(row) for row in connection.execute(query)] == written
    return written


def test_columns_are_reflected_with_their_types(engine, items):
    assert {each.name: str(each.type) for each in items.columns} == TYPES
    inspector = sa.inspect(engine)
    assert inspector.get_schema_names() == ["kamu"]
    assert inspector.has_table("items", schema="kamu")
    assert not inspector.has_table("nothing")


def test_values_come_in_types_of_python(engine, items):
    columns = [items.c.id, items.c.price, items.c.name, items.c.tags, items.c.open]
    query = sa.select(*columns).where(items.c.id.in_([1, 3])).order_by(items.c.id)
    assert rows(engine, query) == [
        (1, Decimal("1.25"), "näme 1", ["a", None, "1"], True),
        (3, None, None, None, False),
    ]


def test_pages_hold_all_rows_once(engine, items):
    query = sa.select(items.c.id).order_by(items.c.offset)
    pages = [rows(engine, query.limit(1_000).offset(at)) for at in range(0, ROWS + 1, 1_000)]
    assert [len(page) for page in pages] == [1_000, 1_000, 500]
    assert [each for page in pages for [each] in page] == list(range(ROWS))
    with engine.connect() as connection:
        parts = [len(part) for part in connection.execute(query).partitions(1_000)]
    assert parts == [1_000, 1_000, 500]


@pytest.mark.parametrize(
    ("condition", "found"),
    [
        (lambda c: c.name == "it's 50%_x", [7]),
        (lambda c: c.name.contains("50%_", escape="\\", autoescape=True), [7]),
        (lambda c: c.name.contains("50/%", escape="\\", autoescape=True), [10]),
        (lambda c: c.name.like("it''s%"), []),
        (lambda c: c.name.is_(None) & (c.id < 5), [0, 3]),
        (lambda c: c.id == 2**53 + 1, []),
        (lambda c: c.price == Decimal("2.25"), [2]),
    ],
)  # fmt: skip
def test_a_filter_finds_what_it_says(engine, items, condition, found):
    query = sa.select(items.c.id).where(condition(items.c)).order_by(items.c.id)
    assert rows(engine, query) == [(each,) for each in found]


def test_groups_are_those_of_all_rows(engine, items):
    query = sa.select(items.c.open, sa.func.count()).group_by(items.c.open).order_by(items.c.open)
    some = len([at for at in range(ROWS) if at % 3])
    assert rows(engine, query) == [(False, ROWS - some), (True, some)]


@pytest.mark.parametrize(
    ("ask", "why"),
    [
        (lambda t: sa.select(t.c.id).where(t.c.id == sa.literal("x")), "'x'|\"x\"|\bx\b"),
        (lambda t: sa.text("select id from items where name like '5/%' escape '/'"), "backslash"),
        (lambda t: sa.text("select nope from items"), "No field named nope"),
        (lambda t: sa.text('select * from "hidden2"'), "hidden2"),
        (lambda t: sa.text("delete from items"), "SELECT"),
    ],
)
def test_what_is_refused_says_why_and_the_engine_goes_on(engine, items, ask, why):
    with engine.connect() as connection:
        with pytest.raises(sa.exc.DBAPIError, match=why):
            connection.execute(ask(items))
        assert connection.execute(sa.text("select count(*) from items")).scalar() == ROWS


def test_a_dataset_that_the_caller_may_not_read_is_not_there(service, engine):
    assert sa.inspect(engine).has_table("hidden")
    stranger = engine_of(service, service.token("carol"))
    assert sa.inspect(stranger).has_table("items")
    assert not sa.inspect(stranger).has_table("hidden")
    stranger.dispose()
