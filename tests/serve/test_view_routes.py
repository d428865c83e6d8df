"""Views over HTTP: rows by condition and by key, as fresh as a position."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import httpx
import pytest

from riverrun.river import River
from riverrun.serve import view_routes
from riverrun.serve.server import Background
from riverrun.serve.url_query import parse_key
from riverrun.views import ViewSpec
from serve.conftest import CommittedFlow
from serve.telling_run import TellingRun


@pytest.fixture
def three(totals: CommittedFlow) -> CommittedFlow:
    totals.commit(("ada", 1, 9.5, 1), ("bob", 2, 1.0, 1), ("eve", 3, 4.0, 1))
    return totals


def names(answer: httpx.Response) -> list[str]:
    assert answer.status_code == 200, answer.text
    return [row["user"] for row in answer.json()]


def test_before_there_are_views(http: httpx.Client, river: River) -> None:
    import os

    assert http.get("/views").json() == []
    assert http.get("/views/totals").status_code == 404
    assert not os.path.exists(river.views_address)


def test_the_list_of_views(http: httpx.Client, three: CommittedFlow) -> None:
    [one] = http.get("/views").json()
    assert one["name"] == "totals"
    assert one["rows"] == 3
    assert one["position"] == "orders@0:10"
    assert one["key"] == ["user"]
    assert one["flow"] == "shop"
    three.commit(("ada", 1, 9.5, -1))
    assert http.get("/views").json()[0]["rows"] == 2


def test_rows_with_how_fresh_they_are(http: httpx.Client, three: CommittedFlow) -> None:
    answer = http.get("/views/totals")
    assert answer.json()[0] == {"user": "ada", "n": 1, "total": 9.5}
    assert answer.headers["riverrun-position"] == "orders@0:10"
    assert answer.headers["riverrun-cursor"] == http.get("/views").json()[0]["cursor"]
    assert "link" not in answer.headers


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("", "ada bob eve"),
        ("user=bob", "bob"),
        ("n.ge=2&total.gt=1", "eve"),
        ("n.ne=2&n.lt=3", "ada"),
        ("user.has=B", "bob"),
        ("user.null=true", ""),
        ("user.null=false", "ada bob eve"),
        ("order=-total", "ada eve bob"),
        ("order=total,user&limit=2", "bob eve"),
        ("order=n&order=-user&offset=1", "bob eve"),
        ("limit=0", ""),
        ("user=%27%20or%201%3D1%20--", ""),
        ("user=ada&user=bob", ""),
    ],
)
def test_conditions_order_and_pages(http: httpx.Client, three: CommittedFlow, query: str, expected: str) -> None:
    assert names(http.get(f"/views/totals?{query}")) == expected.split()


@pytest.mark.parametrize(
    ("query", "status", "said"),
    [
        ("usr=ada", 404, "has no column 'usr'"),
        ("user.like=a", 400, "not an operator"),
        ("n=many", 400, "'many' is not a value of column 'n'"),
        ("n.has=1", 400, "only strings"),
        ("user.null=perhaps", 400, "true or false"),
        ("order=nope", 404, "has no column 'nope'"),
        ("limit=-1", 400, "limit"),
        ("limit=x", 400, "limit"),
        ("limit=100000000", 400, "limit"),
        ("at_least=soon", 400, "not a position"),
        ("at_least=users@0:1", 400, "does not read topic 'users'"),
        ("at_least=orders@0:1&timeout=never", 400, "not a duration"),
        ("at_least=orders@0:" + "9" * 5000, 400, "not a position"),
        ("n=" + "9" * 5000, 400, "is not a value"),
    ],
)
def test_what_cannot_be_asked(http: httpx.Client, three: CommittedFlow, query: str, status: int, said: str) -> None:
    answer = http.get(f"/views/totals?{query}")
    assert (answer.status_code, said in answer.json()["error"]) == (status, True), answer.text


def test_pages_link_to_the_next(http: httpx.Client, three: CommittedFlow) -> None:
    answer = http.get("/views/totals?limit=2&user.ne=x%26y")
    found = names(answer)
    while "next" in answer.links:
        answer = http.get(answer.links["next"]["url"])
        found += names(answer)
    assert found == ["ada", "bob", "eve"]
    assert "next" not in http.get("/views/totals?limit=0").links


def test_columns_named_like_parameters(http: httpx.Client, river: River) -> None:
    CommittedFlow(river, ViewSpec("odd", "odd", "limit bigint, order string", ("limit",))).commit(
        (1, "a", 1), (2, "b", 1)
    )
    assert http.get("/views/odd?limit.eq=2").json() == [{"limit": 2, "order": "b"}]
    assert http.get("/views/odd?order=-order&limit=1").json() == [{"limit": 2, "order": "b"}]


def test_a_read_waits_for_a_position(http: httpx.Client, totals: CommittedFlow) -> None:
    def later() -> None:
        time.sleep(0.3)
        totals.commit(("ada", 1, 1.0, 1), offset=7)

    thread = threading.Thread(target=later)
    thread.start()
    assert names(http.get("/views/totals?at_least=orders@0:7")) == ["ada"]
    thread.join()
    assert http.get("/views/totals/ada?at_least=orders@0:7").status_code == 200


def test_what_does_not_come_in_time_is_told(http: httpx.Client, three: CommittedFlow) -> None:
    for path in ("/views/totals", "/views/totals/ada"):
        answer = http.get(f"{path}?at_least=orders@0:99&timeout={'50ms' if path == '/views/totals' else '0.05'}")
        assert answer.status_code == 504
        assert "has processed orders@0:10 and not yet orders@0:99" in answer.json()["error"]
        assert answer.headers["retry-after"]


def test_a_row_by_its_key(http: httpx.Client, three: CommittedFlow) -> None:
    assert http.get("/views/totals/ada").json() == {"user": "ada", "n": 1, "total": 9.5}
    assert http.get('/views/totals/["ada"]').json()["n"] == 1
    missing = http.get("/views/totals/zoe")
    assert (missing.status_code, missing.json()["hint"]) == (404, "Its key is user")
    assert http.get("/views/totals/ada/1").status_code == 400
    assert http.get("/views/total/ada").json()["hint"] == "Did you mean 'totals'?"


def test_keys_of_several_parts_and_types(http: httpx.Client, river: River) -> None:
    schema = "shop string, day date, n bigint, price decimal(8,2), at timestamp, tags array<string>, data binary"
    flow = CommittedFlow(river, ViewSpec("days", "days", schema, ("shop", "day", "n")))
    at = datetime(2026, 1, 31, 12, tzinfo=UTC)
    row = ("a/b", date(2026, 1, 31), 7, Decimal("9.50"), at, ["x"], b"\0\xff", 1)
    flow.commit(row, (None, None, 1, None, None, None, None, 1), ("changes", date(2026, 1, 1), 1, *[None] * 4, 1))
    expected: dict[str, Any] = {
        "shop": "a/b",
        "day": "2026-01-31",
        "n": 7,
        "price": "9.50",
        "at": "2026-01-31T12:00:00Z",
        "tags": ["x"],
        "data": "AP8=",
    }
    assert http.get("/views/days/a%2Fb/2026-01-31/7").json() == expected
    assert http.get("/views/days/%5B%22a%2Fb%22%2C%20%222026-01-31%22%2C7%5D").json() == expected
    assert http.get("/views/days/[null,null,1]").json()["n"] == 1
    assert http.get('/views/days/["changes","2026-01-01",1]').json()["shop"] == "changes"
    assert http.get("/views/days/a/b/2026-01-31/7").status_code == 400
    assert http.get("/views/days/x/soon/7").status_code == 400
    assert http.get("/views/days/[nonsense").status_code == 400


def test_parts_of_keys() -> None:
    assert parse_key("a/b") == ["a", "b"]
    assert parse_key("a%2Fb/c%20d") == ["a/b", "c d"]
    assert parse_key('["a", null, 1]') == ["a", None, 1]
    assert parse_key("") == [""]


def test_a_view_without_a_key_has_rows_only(http: httpx.Client, river: River) -> None:
    flow = CommittedFlow(river, ViewSpec("log", "log", "id string, n bigint", ("id",), hidden=("id",)))
    flow.commit(("x", 1, 1))
    assert http.get("/views/log").json() == [{"n": 1}]
    [one] = http.get("/views").json()
    assert (one["key"], one["schema"]) == ([], "n bigint")
    assert "no key to look up" in http.get("/views/log/x").json()["error"]
    assert http.get("/views/log?id=x").status_code == 404


def test_a_view_that_its_flow_left_does_not_pretend_to_be_fresh(http: httpx.Client, totals: CommittedFlow) -> None:
    totals.commit(("ada", 1, 9.5, 1))
    totals.river.store.keep_only("shop", totals.fence, [])
    assert http.get("/views/totals", params={"at_least": "orders@0:10"}).status_code == 200
    answer = http.get("/views/totals", params={"at_least": "orders@0:11"})
    assert answer.status_code == 410
    assert "no longer keeps up view 'totals'" in answer.json()["error"]


def test_large_rows_come_in_several_answers(http: httpx.Client, river: River, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(view_routes, "LARGEST_PAGE", 20_000)
    spec = ViewSpec("texts", "notes", "user string, said string", ("user",), topics=("orders",))
    CommittedFlow(river, spec).commit(*((f"u{i:03}", "x" * 1000, 1) for i in range(100)))
    url, found = "/views/texts?limit=1000", []
    for _ in range(20):
        answer = http.get(url)
        assert 0 < len(answer.json()) < 50
        found += [row["user"] for row in answer.json()]
        if "next" not in answer.links:
            break
        url = answer.links["next"]["url"]
    assert found == [f"u{i:03}" for i in range(100)]


def test_rows_that_take_too_long_to_find_are_given_up(
    http: httpx.Client, totals: CommittedFlow, monkeypatch: pytest.MonkeyPatch
) -> None:
    totals.commit(*((f"u{n}", n, 1.0, 1) for n in range(20_000)))
    monkeypatch.setattr(view_routes, "_PATIENCE", 0.0001)
    answer = http.get("/views/totals", params={"order": "-total"})
    assert answer.status_code == 504
    assert "stopped a query that took too long" in answer.json()["error"]


def test_numbers_of_any_length_are_no_defect(http: httpx.Client, totals: CommittedFlow) -> None:
    totals.commit(("ada", 1, 9.5, 1))
    assert "no such page" in http.get("/ui/views/totals", params={"page": "9" * 5000}).text
    waiting = {"at_least": "orders@0:1", "timeout": f"{'9' * 400} weeks"}
    assert http.get("/views/totals", params=waiting).status_code == 400
    assert http.post("/ui/views", data={"sql": "select cast(x'ff' as text)"}).status_code == 200


@pytest.mark.parametrize("path", ["/views/totals%2f", "/views/totals%2fada", "/views/none%2F"])
def test_a_slash_that_was_encoded_leads_nowhere(http: httpx.Client, totals: CommittedFlow, path: str) -> None:
    totals.commit(("ada", 1, 1.0, 1))
    assert http.get("/views/totals/ada").status_code == 200
    assert http.get(path).status_code == 404


def test_a_view_of_a_flow_that_is_starting(serve: Callable[..., Background]) -> None:
    run = TellingRun(state="starting", epoch=0)
    with httpx.Client(base_url=serve(run).url, timeout=20) as http:
        for path in ("/views/totals?at_least=orders@0:1", "/views/totals/ada"):
            answer = http.get(path)
            assert (answer.status_code, answer.headers["retry-after"]) == (503, "2")
            assert answer.json()["error"] == "flow shop is starting; its views are there when it runs"
        assert http.get("/views/total").status_code == 404
        run.say(state="running")
        assert http.get("/views/totals").status_code == 404
