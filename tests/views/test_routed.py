"""The home store and others beside it, as one store: who is asked for what, and what is refused by name."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from contracts.view_flow import ViewFlow, weighted
from redis_server import shared_redis
from riverrun.errors import Conflict, Invalid, Transient
from riverrun.river import River
from riverrun.views import Condition, Epoch, Selection, View, ViewSpec
from riverrun.views.view import counted, described

SCHEMA = "sku string, title string, price double"
ROWS = [("a", "Rain boots", 30.0), ("b", "Sun hat", 12.0), ("c", "Boots, rubber", None), ("d", None, 5.0)]
STORES = ["redis", "search", "delta", "sqlite"]


@pytest.fixture
def river(tmp_path: Path) -> Iterator[River]:
    with River(tmp_path / "river") as opened:
        yield opened


def address(kind: str, tmp_path: Path) -> str:
    if kind == "redis":
        return f"{shared_redis().url}?prefix={tmp_path.name}:"
    return {"search": "search:", "delta": f"delta:{tmp_path}/lake", "sqlite": f"sqlite:{tmp_path}/other.db"}[kind]


def products(to: str | None, **more) -> ViewSpec:
    given = {"name": "products", "flow": "shop", "schema": SCHEMA, "key": ("sku",), "topics": ("orders",), **more}
    return ViewSpec(**given, to=to)


def filled(river: River, to: str | None) -> View:
    flow = ViewFlow(river.store, products(to))
    flow.commit({"products": weighted(SCHEMA, *((*row, 1) for row in ROWS))}, whole=frozenset({"products"}))
    return river.view("products")


@pytest.mark.parametrize("kind", STORES)
def test_a_view_is_read_wherever_it_is(river, tmp_path, kind):
    view = filled(river, address(kind, tmp_path))
    assert view.get("a") == {"sku": "a", "title": "Rain boots", "price": 30.0}
    assert view.get("z") is None
    assert [row["sku"] for row in view.rows()] == ["a", "b", "c", "d"]
    assert [row["sku"] for row in view.rows(where="price < 20", limit=1)] == ["b"]
    assert len(view) == 4
    assert view.arrow().schema.names == ["sku", "title", "price"]
    assert [row["sku"] for row in view.rows(at_least={"orders": {0: 10}})] == ["a", "b", "c", "d"]
    assert view.has_processed({"orders": {0: 10}})
    assert not view.has_processed({"orders": {0: 11}})
    wanted = Selection((Condition("price", "ge", "10"),), (("price", True),), 10)
    assert river.store.select("products", wanted).column("sku").to_pylist() == ["a", "b"]
    by_title = Selection((), (("title", False),))
    assert river.store.select("products", by_title).column("sku").to_pylist() == ["d", "c", "a", "b"]
    has = Selection((Condition("title", "has", "BOOTS"), Condition("price", "eq", None)))
    assert river.store.select("products", has).column("sku").to_pylist() == ["c"]
    page, more = river.store.page("products", Selection(limit=2), 1 << 20)
    assert (page.num_rows, more) == (2, True)
    document = described(view.spec, view.progress, counted(river.store, "products"))
    assert (document["rows"], document["to"], document["epoch"]) == (4, view.spec.to, 1)


def test_what_a_store_cannot_do_is_refused_by_name(river, tmp_path):
    view = filled(river, address("redis", tmp_path))
    with pytest.raises(Invalid, match="view 'products' is in Redis, which cannot tell its changes"):
        list(view.changes(timeout=0))
    with pytest.raises(Invalid, match="is in Redis, which cannot tell what it was before"):
        view.as_of({"orders": {0: 10}})
    with pytest.raises(Invalid, match="is in Redis, which cannot answer SQL"):
        view.sql("select 1")
    with pytest.raises(Invalid, match=r"is in Redis, which cannot search for words. Declare it with .*to=\"search:\""):
        view.search("boots")
    with pytest.raises(Invalid, match="nope"):
        view.rows(where="nope = 1")


def test_a_home_view_says_what_would_search(river):
    with pytest.raises(Invalid, match="is in the home store, which cannot search for words"):
        filled(river, None).search("boots")


def test_another_database_answers_everything(river, tmp_path):
    view = filled(river, address("sqlite", tmp_path))
    assert view.sql("select count(*) as n from products where price > ?", [10]) == [{"n": 2}]
    assert [change.op for change in view.changes(timeout=0)] == ["insert"] * 4
    assert list(view.changes(since=view.cursor, timeout=0)) == []


def test_a_delta_table_answers_sql(river, tmp_path):
    view = filled(river, address("delta", tmp_path))
    assert view.sql("select sum(price) as total from products where price > ?", [10]) == [{"total": 42.0}]
    assert view.sql("select sku from products where title = $t", {"t": "Sun hat"}) == [{"sku": "b"}]
    with pytest.raises(Invalid, match="nope"):
        view.sql("select nope from products")
    with pytest.raises(Invalid, match="read_csv|disabled|permission"):
        view.sql("select * from read_csv('/etc/passwd')")


def test_searches(river):
    view = filled(river, "search:")

    def found(query: str, **more) -> list[str]:
        return [row["sku"] for row in view.search(query, **more)]

    assert sorted(found("boots")) == ["a", "c"]
    assert found("boots NOT rubber") == ["a"]
    assert found("rai*") == ["a"]
    assert found('"rain boots"') == ["a"]
    assert found('"boots rain"') == []
    assert found('"boots rain"~2') == ["a"]
    assert sorted(found("NOT boots")) == ["b", "d"]
    assert sorted(found("price:<20")) == ["b", "d"]
    assert found("title:b??ts AND price:[20 TO *]") == ["a"]
    assert found("SUN") == ["b"]
    assert len(found("boots", limit=1)) == 1
    assert found("boots", where="price is null") == ["c"]
    (row,) = view.search("rain", highlight=True)
    assert row["_highlight"] == {"title": "<mark>Rain</mark> boots"}
    with pytest.raises(Invalid, match="names a column 'colour'"):
        view.search("colour:red")
    with pytest.raises(Invalid, match="has no words"):
        view.search("  ")
    with pytest.raises(Invalid, match="a search is a string"):
        view.search(7)  # type: ignore[arg-type]


def test_the_home_store_cannot_be_another_one(river):
    with pytest.raises(Conflict, match="is the home store itself"):
        river.store.declare(products(f"sqlite:{river.path}/views.db"))


@pytest.mark.parametrize("kind", STORES)
def test_a_flow_without_epochs_begins_with_nothing(river, tmp_path, kind):
    """The river was removed, the other store was not."""
    filled(river, address(kind, tmp_path))
    with River(tmp_path / "new") as new:
        if kind == "search":
            pytest.skip("it is in the river, and was removed with it")
        flow = ViewFlow(new.store, products(address(kind, tmp_path)))
        assert flow.fence > 1
        new.store.keep_only("shop", flow.fence, ["products"])
        assert new.view("products").rows() == []
        flow.commit({"products": weighted(SCHEMA, ("x", "New", 1.0, 1))})
        assert [row["sku"] for row in new.view("products").rows()] == ["x"]


def test_a_view_that_moves_leaves_nothing_behind(river, tmp_path):
    first, second = address("redis", tmp_path), address("sqlite", tmp_path)
    filled(river, first)
    store = river.store
    for to in (second, None, first):
        rebuild = store.begin_rebuild("shop", [products(to)])
        changes = {"products": weighted(SCHEMA, *((*row, 1) for row in ROWS))}
        store.commit(Epoch("shop", 1, 1, {"orders": {0: 10}}, changes, rebuild=rebuild))
        store.switch(rebuild, 1, base=0)
        assert len(river.view("products").rows()) == 4
        if to == second:
            with shared_redis().client() as client:
                assert client.keys(f"{tmp_path.name}:products:*") == []


@pytest.mark.parametrize("kind", ["search", "delta", "sqlite"])
def test_a_store_whose_files_are_elsewhere_is_not_an_empty_one(river, tmp_path, kind):
    view = filled(river, address(kind, tmp_path))
    files = {"search": tmp_path / "river" / "search", "delta": tmp_path / "lake", "sqlite": tmp_path / "other.db"}[kind]
    files.rename(tmp_path / "elsewhere")
    asked = [view.rows, lambda: view.get("a"), lambda: len(view)]
    asked += [lambda: view.search("boots")] if kind == "search" else [lambda: view.sql("select 1 from products")]
    for ask in asked:
        with pytest.raises(Transient, match="is not there"):
            ask()
    assert not files.exists()
    (tmp_path / "elsewhere").rename(files)
    assert len(view.rows()) == 4


def test_a_store_that_is_away_keeps_nobody_from_the_others(river):
    river.store.home.declare(products("redis://127.0.0.1:1/0"))
    assert counted(river.store, "products") is None
    with pytest.raises(Transient, match="Redis redis://127.0.0.1:1/0 does not answer"):
        river.view("products").rows()
    assert [spec.name for spec in river.store.views()] == ["products"]
