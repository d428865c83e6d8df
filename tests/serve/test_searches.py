"""Views in other stores over HTTP and on the pages: searched, shown, and refused by name."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from contracts.view_flow import ViewFlow, weighted
from riverrun.doctor import check_stores
from riverrun.river import River
from riverrun.views import ViewSpec

SCHEMA = "sku string, title string, price double"


@pytest.fixture
def products(river: River) -> ViewFlow:
    specs = [
        ViewSpec("products", "goods", SCHEMA, ("sku",), ("orders",), to="search:"),
        ViewSpec("cached", "away", SCHEMA, ("sku",), ("orders",), to="redis://127.0.0.1:1/0"),
    ]
    flow = ViewFlow(river.store, specs[0], name="goods")
    rows = weighted(SCHEMA, ("a", "Rain <boots>", 30.0, 1), ("b", "Sun hat", 12.0, 1), ("c", "Rubber boots", 9.0, 1))
    flow.commit({"products": rows})
    river.store.home.declare(specs[1])  # type: ignore[attr-defined]
    return flow


def test_searches_over_http(products: ViewFlow, http: httpx.Client) -> None:
    found = http.get("/views/products", params={"q": "boots AND price:<20"})
    assert found.json() == [{"sku": "c", "title": "Rubber boots", "price": 9.0}]
    assert found.headers["riverrun-position"] == "orders@0:10"
    assert len(http.get("/views/products", params={"q": "boots", "limit": 1}).json()) == 1
    marked = http.get("/views/products", params={"q": "rain", "highlight": "true"}).json()
    assert marked[0]["_highlight"] == {"title": "<mark>Rain</mark> &lt;boots&gt;"}
    assert [row["sku"] for row in http.get("/views/products").json()] == ["a", "b", "c"]
    assert [row["sku"] for row in http.get("/views/products", params={"price.lt": 20, "order": "price"}).json()] == [
        "c",
        "b",
    ]
    assert http.get("/views/products/b").json()["title"] == "Sun hat"
    wrong = http.get("/views/products", params={"q": '"boots'})
    assert (wrong.status_code, "cannot be read" in wrong.text or "does not fit" in wrong.text) == (400, True)
    mixed = http.get("/views/products", params={"q": "boots", "price": 9})
    assert (mixed.status_code, "with q, rows are not chosen by price" in mixed.text) == (400, True)


def test_what_cannot_be_searched_says_so(products: ViewFlow, totals: Any, http: httpx.Client) -> None:
    refused = http.get("/views/totals", params={"q": "boots"})
    assert (refused.status_code, "which cannot search for words" in refused.text) == (400, True)
    changes = http.get("/views/products/changes")
    assert (changes.status_code, "is in a search index, which cannot tell its changes" in changes.text) == (400, True)


def test_a_store_that_is_away(products: ViewFlow, http: httpx.Client, river: River) -> None:
    listed = {view["name"]: view["rows"] for view in http.get("/views").json()}
    assert listed == {"cached": None, "products": 3}
    assert http.get("/views/cached").status_code == 503
    assert http.get("/ui/views").status_code == 200
    page = http.get("/ui/views/cached")
    assert page.status_code == 200
    assert "does not answer" in page.text
    assert "riverrun_view_rows" in http.get("/metrics").text
    checks = {check.status: check.found for check in check_stores(river)}
    assert "does not answer" in checks["failed"]
    assert "search index search: answers" in checks["ok"]


def test_the_page_of_a_searched_view(products: ViewFlow, http: httpx.Client) -> None:
    page = http.get("/ui/views/products").text
    assert "Search for" in page
    assert "Rain &lt;boots&gt;" in page
    assert "cannot tell its changes" in page
    found = http.get("/ui/views/products", params={"q": "rub*"}).text
    assert "Rubber boots" in found
    assert "Sun hat" not in found
    assert "names a column" in http.get("/ui/views/products", params={"q": "nope:x"}).text
