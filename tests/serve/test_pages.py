"""The pages as a browser without scripts gets them: they say everything, and what is in events stays text."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest

import riverrun as rr
from riverrun.errors import Transient, Unavailable
from riverrun.log.partitioner import partition_of
from riverrun.river import River
from riverrun.runtime.status import AlertStatus, ComputedBy, Lag, SlowProducer, SourceStatus, StateSize
from riverrun.serve.pages.arrival_sample import ArrivalSample
from riverrun.serve.pages.chart import choose_span
from riverrun.serve.pages.day import DayPart
from riverrun.serve.pages.day_file import DayDocument, day_path
from riverrun.serve.pages.graph_layout import HEIGHT, lay_out
from riverrun.serve.pages.routes import dashboard
from riverrun.serve.pages.table_cells import cell
from riverrun.serve.pages.view_page import RecentChanges
from riverrun.serve.server import Background
from riverrun.settings import Settings
from riverrun.views import ViewSpec
from riverrun.views.sql.sqlstore import SqlStore
from serve.conftest import CommittedFlow, EventReader, order
from serve.telling_run import LEDGER, TellingRun

EVIL = '<script>alert("1")</script><img src=x onerror=alert(2)>'
PAGES = (
    "/",
    "/ui/time",
    "/ui/topics",
    "/ui/views",
    "/ui/groups",
    "/ui/ledger",
    "/ui/epochs",
    "/ui/history",
    "/ui/alerts",
)
STORED = msgspec.to_builtins(list(LEDGER))


class Page(HTMLParser):
    """The text and the elements of a page; refuses tags that do not match."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.words: list[str] = []
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self._open: list[str] = []
        self.feed(html)
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in ("meta", "link", "input", "br", "img"):
            self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).split())

    def of(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.elements if name == tag]


def look(http: httpx.Client, path: str, status: int = 200) -> Page:
    answer = http.get(path)
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    return Page(answer.text)


def until(look: Callable[[], Page], said: str) -> Page:
    """The page once it says so: samples are a second old."""
    deadline = time.monotonic() + 10
    while said not in (page := look()).text:
        assert time.monotonic() < deadline, page.text
        time.sleep(0.1)
    return page


@pytest.fixture
def served(serve: Callable[..., Background]) -> Iterator[Callable[..., httpx.Client]]:
    """served(run) is a client of a server with that run."""
    with ExitStack() as opened:

        def start(run: Any = None) -> httpx.Client:
            return opened.enter_context(httpx.Client(base_url=serve(run).url, timeout=20))

        yield start


@pytest.mark.parametrize("path", PAGES)
def test_an_empty_river_says_what_to_do(http: httpx.Client, river: River, path: str) -> None:
    river.drop_topic("orders")
    page = look(http, path)
    assert "riverrun " in page.text
    assert "No flow has run in this river yet" in page.text
    assert page.of("h1")
    assert page.of("html")[0]["lang"] == "en"


@pytest.mark.parametrize("path", PAGES)
def test_nothing_is_inline_and_nothing_comes_from_elsewhere(
    http: httpx.Client, totals: CommittedFlow, path: str
) -> None:
    totals.commit(("ada", 1, 9.5, 1), ledger=STORED)
    page = look(http, path)
    scripts = page.of("script")
    assert [one["src"] for one in scripts] == ["/ui/static/live.js"]
    for tag, attributes in page.elements:
        assert tag != "style" and "style" not in attributes, tag
        assert not [name for name in attributes if name.startswith("on")]
        for name in ("src", "href", "action"):
            assert (attributes.get(name) or "/").startswith(("/", "#")), attributes
    assert "'unsafe-inline'" not in http.get(path).headers["content-security-policy"]
    assert [one["aria-current"] for one in page.of("a") if "aria-current" in one].count("page") == 1


def test_what_is_in_events_stays_text(http: httpx.Client, river: River) -> None:
    river.topic("orders").append([order(EVIL), order("\x1b[31mred\x00")])
    page = look(http, "/ui/topics/orders")
    assert EVIL in page.text
    assert len(page.of("script")) == 1
    assert not page.of("img")
    assert "␛[31mred␀" in page.text
    found = look(http, f"/ui/topics/orders?key={EVIL}")
    assert found.text.count(EVIL) >= 2
    assert len(found.of("script")) == 1


def test_what_is_in_views_stays_text(http: httpx.Client, totals: CommittedFlow) -> None:
    totals.commit((EVIL, 1, 9.5, 1))
    pages = [look(http, path) for path in ("/ui/views/totals", f"/ui/views/totals?q={EVIL}&in=user")]
    pages.append(Page(http.post("/ui/views", data={"sql": "select * from totals"}).text))
    for page in pages:
        assert EVIL in page.text
        assert len(page.of("script")) == 1
        assert not page.of("img")


def test_names_in_addresses_stay_text(http: httpx.Client, totals: CommittedFlow) -> None:
    page = look(http, f"/ui/views/{EVIL}", 404)
    assert "no view" in page.text
    assert len(page.of("script")) == 1
    assert look(http, "/ui/topics/nothing", 404).of("h1")
    assert len(look(http, f"/?flow={EVIL}&node={EVIL}").of("script")) == 1


def test_live_parts_are_escaped_too(river: River, stream: Callable[..., EventReader], totals: CommittedFlow) -> None:
    totals.commit((EVIL, 1, 9.5, 1))
    first = follow(stream, "/ui/views/totals").next()["data"]["parts"]
    assert "<script" not in first["grid"]
    assert EVIL in Page(first["grid"]).text


def follow(stream: Callable[..., EventReader], path: str) -> EventReader:
    """A page as it changes: the same address, asked for as events."""
    return stream(path, accept="text/event-stream")


def test_a_view_is_sent_again_when_it_changed(stream: Callable[..., EventReader], totals: CommittedFlow) -> None:
    totals.commit(("ada", 1, 9.5, 1))
    events = follow(stream, "/ui/views/totals")
    first = events.next()["data"]
    assert first["order"] == list(first["parts"]) == ["summary", "figures", "search", "grid", "changes", "usage"]
    totals.commit(("bob", 2, 1.25, 1))
    changed = next(found for found in iter(lambda: events.next()["data"]["parts"], None) if "grid" in found)
    assert "bob" in changed["grid"]
    assert "+ insert" in changed["changes"]
    assert "search" not in changed


def test_streams_end_with_the_server(serve: Callable[..., Background], stream: Callable[..., EventReader]) -> None:
    served = serve()
    events = stream("/ui/topics", base=served.url, accept="text/event-stream")
    events.next()
    begun = time.monotonic()
    served.close()
    assert time.monotonic() - begun < 2
    with pytest.raises((StopIteration, httpx.HTTPError)):
        while True:
            events.next()


def test_a_view_searched_sorted_and_paged(http: httpx.Client, totals: CommittedFlow) -> None:
    totals.commit(*((f"user-{number:03}", number, number / 2, 1) for number in range(120)))
    page = look(http, "/ui/views/totals")
    assert "Rows 1 to 50" in page.text and "user-049" in page.text and "user-050" not in page.text
    assert "Processed up to orders@0:10" in page.text
    second = look(http, "/ui/views/totals?order=-n&page=1")
    assert "Rows 51 to 100" in second.text and "user-069" in second.text
    assert {"aria-sort": "descending"}.items() <= next(one for one in second.of("th") if "aria-sort" in one).items()
    assert "user-042" in look(http, "/ui/views/totals?q=42&in=user").text
    assert "Rows 1 to 1 " in look(http, "/ui/views/totals?q=42&in=n").text
    assert "No row fits" in look(http, "/ui/views/totals?q=nobody&in=user").text
    for wrong in ("q=x&in=n", "q=x&in=nothing", "order=nothing", "order=-"):
        assert "Not shown" in look(http, f"/ui/views/totals?{wrong}").text
    assert "Rows 1 to 50" in look(http, "/ui/views/totals?page=-1").text


def test_a_view_whose_name_is_odd(http: httpx.Client, river: River) -> None:
    CommittedFlow(river, ViewSpec("a.b-C_1", "odd", "n bigint", ("n",))).commit((1, 1))
    [link] = [one["href"] for one in look(http, "/ui/views").of("a") if "ui/views/" in str(one["href"])]
    page = look(http, str(link))
    assert "Rows 1 to 1" in page.text
    assert all("views/a.b-C_1?" in str(one["href"]) for one in page.of("a") if "order=" in str(one["href"]))


def test_of_a_full_join_the_page_shows_the_key_without_the_side(http: httpx.Client, river: River) -> None:
    spec = ViewSpec("both", "both", "k int, a int, _side tinyint", key=("k", "_side"), hidden=("_side",))
    CommittedFlow(river, spec).commit((1, 5, 0, 1), (None, 6, 1, 1), (None, 7, 2, 1))
    page = http.get("/ui/views/both").text
    assert "one for each k" in page
    ids = re.findall(r'<tr id="(k[^"]+)"', page)
    assert len(ids) == len(set(ids)) == 3
    branches = ViewSpec("rows", "union", "k int, _branch int", key=("k", "_branch"), hidden=("_branch",))
    CommittedFlow(river, branches).commit((1, 0, 1), (1, 1, 1))
    assert "no key" in http.get("/ui/views/rows").text


def test_the_newest_changes_of_a_view_are_each_read_once(river: River, totals: CommittedFlow) -> None:
    recent, written = RecentChanges(), 0

    def commit(rows: int) -> None:
        nonlocal written
        totals.commit(*((f"user-{number:03}", number, 0.5, 1) for number in range(written, written + rows)))
        written += rows

    def seen() -> list[int]:
        newest = river.store.progress("totals").commit
        return [change.after["n"] for change in recent.look(river.store, "totals", newest) if change.after]

    assert seen() == []
    for rows in (1, 3, 0, 20, 2, 0, 5):
        commit(rows)
        assert seen() == seen() == list(range(written))[: -15 - 1 : -1]
    for _ in range(20):  # while nobody looked
        commit(1)
    assert seen() == list(range(written))[: -15 - 1 : -1]


def test_no_sql_box_where_it_could_do_more_than_read_views(
    http: httpx.Client, totals: CommittedFlow, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With views in PostgreSQL, and no login that reads them and nothing else."""

    def refuse(self: SqlStore) -> None:
        raise Unavailable("it needs a login", hint="Make one")

    monkeypatch.setattr(SqlStore, "admit_strangers", refuse)
    page = Page(http.get("/ui/views", params={"sql": "select 7 * 6"}).text)
    assert "it needs a login" in page.text
    assert "Make one" in page.text
    assert "42" not in page.text
    assert "<textarea" not in http.get("/ui/views").text


@pytest.mark.parametrize(
    ("sql", "said"),
    [
        ("select user, n from totals;", "ada"),
        ("select n from totals -- all", "1 rows"),
        ("with a as (select 7 as seven) select * from a", "seven"),
        ("delete from totals", "Not answered"),
        ("selec", "Not answered"),
        ("select * from nothing", "Not answered"),
        ("select 1 where 1 = 2", "No rows"),
    ],
)
def test_the_sql_box(http: httpx.Client, totals: CommittedFlow, sql: str, said: str) -> None:
    totals.commit(("ada", 1, 9.5, 1))
    answer = http.post("/ui/views", data={"sql": sql})
    assert said in Page(answer.text).text
    assert http.get("/views/totals").json() == [{"user": "ada", "n": 1, "total": 9.5}]


def test_an_endless_query_and_a_large_answer(
    http: httpx.Client, totals: CommittedFlow, monkeypatch: pytest.MonkeyPatch
) -> None:
    from riverrun.serve.pages import views_page

    monkeypatch.setattr(views_page, "_PATIENCE", 0.2)
    totals.commit(("ada", 1, 9.5, 1))
    endless = "with recursive n(i) as (select 1 union all select i + 1 from n) select"
    assert "the first 200 rows" in Page(http.post("/ui/views", data={"sql": f"{endless} i from n"}).text).text
    assert "stopped" in Page(http.post("/ui/views", data={"sql": f"{endless} count(*) from n"}).text).text


def test_a_topic_with_its_rows_readers_and_columns(http: httpx.Client, river: River) -> None:
    river.topic("orders").append([order("ada", number) for number in range(40)])
    for _ in river.topic("orders").consumer("billing", timeout=0.1):
        break
    page = look(http, "/ui/topics/orders")
    assert "The newest 25" in page.text
    assert "billing" in page.text and "40 rows" in page.text
    assert "event time" in page.text and "at most 7 d" in page.text
    assert "The newest 25 with the key 'ada'" in look(http, "/ui/topics/orders?key=ada").text
    assert "No row with the key 'bob'" in look(http, "/ui/topics/orders?key=bob").text
    assert "billing" in look(http, "/ui/topics").text
    assert "1 topic Topic" in look(http, "/ui/topics").text


def test_decimals_are_on_the_right_as_whole_numbers_are() -> None:
    assert [dict(Page(cell(value)).of("td")[0])["class"] for value in (7, Decimal("7.50"), "7")] == ["n", "n", "cell"]


@pytest.mark.parametrize(
    ("status", "badge", "said"),
    [
        ({}, "● running", "has been processed"),
        ({"epoch": 0}, "◆ starting", "No epoch has been committed yet."),
        (
            {"epoch": 0, "lag": Lag(9, 4.0, {"orders": 9})},
            "◆ starting",
            "No epoch has been committed yet; 9 rows wait.",
        ),
        (
            {"state": "starting", "reason": "Spark is being started", "lag": Lag(1, 4.0, {"orders": 1})},
            "◆ starting",
            "Spark is being started; 1 row waits.",
        ),
        (
            {"lag": Lag(90_000, 184.0, {"orders": 90_000})},
            "▲ behind",
            "90 k rows are waiting",
        ),
        ({"state": "waiting", "reason": "the store is away"}, "◆ waiting", "the store is away"),
        (
            {"state": "failing", "reason": "no", "next_try": datetime(2026, 1, 31, 18, 4, 31, tzinfo=UTC)},
            "◆ trying again",
            "18:04:31",
        ),
        ({"state": "failed", "reason": "fenced by run 2"}, "■ stopped", "fenced by run 2 riverrun run FLOW.py"),
        ({"state": "drained"}, "■ drained", "every window is closed"),
        ({"state": "rebuilding", "reason": "1 of 2 rows"}, "◆ rebuilding", "1 of 2 rows"),
    ],
)
def test_states_are_said(served: Callable[..., httpx.Client], status: dict[str, Any], badge: str, said: str) -> None:
    page = look(served(TellingRun(**status)), "/")
    assert badge in page.text
    assert said in page.text


def test_rows_that_wait_for_the_first_epoch_are_not_asked_for_again(served: Callable[..., httpx.Client]) -> None:
    run = TellingRun(state="starting", reason="Spark is being started", epoch=0, lag=Lag(9, 4.0, {"orders": 9}))
    page = look(served(run), "/ui/time")
    assert "Spark is being started; 9 rows wait." in page.text
    assert "Append some rows" not in page.text


def test_the_two_texts_of_a_box_leave_each_other_room(served: Callable[..., httpx.Client]) -> None:
    html = served(TellingRun(state="starting", epoch=0)).get("/").text
    lines = re.findall(r'class="kind">([^<]*)</text>(?:<text[^>]*class="state"[^>]*>([^<]*)</text>)?', html)
    assert [state for _, state in lines] == ["◆ starting"] * 3
    assert "group by…" in [kind for kind, _ in lines]
    assert all(len(kind) + len(state) < 20 for kind, state in lines)


@pytest.mark.parametrize("path", PAGES)
def test_a_run_that_does_not_answer(served: Callable[..., httpx.Client], path: str) -> None:
    run = TellingRun()
    run.fails = Transient("the store is away")
    assert "◆ unknown the store is away" in look(served(run), path).text


def test_a_run_that_did_not_answer_for_a_while_was_not_replaced(served: Callable[..., httpx.Client]) -> None:
    run = TellingRun()
    http = served(run)
    look(http, "/ui/epochs")
    run.fails = Transient("the store is away")
    until(lambda: look(http, "/ui/epochs"), "running → unknown: the store is away")
    run.fails = None
    assert "took over" not in until(lambda: look(http, "/ui/epochs"), "unknown → running").text


def test_a_flow_of_another_process(http: httpx.Client, totals: CommittedFlow) -> None:
    totals.commit(("ada", 1, 9.5, 1), ledger=STORED)
    page = until(lambda: look(http, "/"), "○ elsewhere It last committed")
    assert "whether it runs is not known here" in page.text
    assert "orders" in page.text and "totals" in page.text
    assert "unknown" in page.text  # its rate: a zero would be a lie


def test_the_numbers_of_a_run(served: Callable[..., httpx.Client]) -> None:
    http = served(TellingRun())
    page = look(http, "/")
    assert "12.4 k /s" in page.text
    assert {"value": "12400", "title": "12 400 rows per second"} in page.of("data")
    assert "2 kB" in page.text
    assert "3 rows came too late to count, 30 % of what was read" in page.text


def test_who_computes_the_expressions_of_a_node(served: Callable[..., httpx.Client]) -> None:
    source, group = (node["id"] for node in TellingRun().flow.to_json()["nodes"])
    by_tasks = ComputedBy(group, "view-totals", "arrow", None)
    by_spark = ComputedBy(source, group, "spark", "soundex(user) is not in the verified set")
    http = served(TellingRun(expressions=(by_tasks, by_spark)))
    assert "ok Spark" in look(http, "/").text and "ok tasks" in look(http, "/").text
    assert "computed by Spark: soundex(user) is not in the verified set" in look(http, f"/?node={group}").text
    assert "computed by the tasks" in look(http, "/?node=view-totals").text


def test_what_a_node_says_about_itself(served: Callable[..., httpx.Client]) -> None:
    _, group = (node["id"] for node in TellingRun().flow.to_json()["nodes"])
    http = served(TellingRun(figures={group: {"queries": 120, "tried on every row": 7}}))
    assert "Queries 120 Tried on every row 7" in look(http, f"/?node={group}").text
    assert "Tried on every row" not in look(http, "/?node=view-totals").text


def test_the_ledger_adds_up(served: Callable[..., httpx.Client]) -> None:
    page = look(served(TellingRun()), "/ui/ledger")
    assert page.text.count("● yes") == 3
    assert "late, dropped 33.3 %" in " ".join(str(one.get("aria-label")) for one in page.of("svg"))


def test_a_ledger_that_does_not(served: Callable[..., httpx.Client]) -> None:
    source, window = LEDGER
    page = look(served(TellingRun(ledger=(source, msgspec.structs.replace(window, accepted=4)))), "/ui/ledger")
    assert "■ no" in page.text and "1 missing" in page.text


def test_a_ledger_of_a_pattern_that_gave_up(served: Callable[..., httpx.Client]) -> None:
    assert "given up" not in look(served(TellingRun()), "/ui/ledger").text
    source, window = LEDGER
    page = look(served(TellingRun(ledger=(source, msgspec.structs.replace(window, given_up=7)))), "/ui/ledger")
    assert "Attempts given up 7" in page.text
    assert page.text.count("● yes") == 3  # they are no rows, and everything still adds up


def test_epochs_with_their_times_and_what_happened(served: Callable[..., httpx.Client]) -> None:
    run = TellingRun()
    http = served(run)
    look(http, "/ui/epochs")
    run.say(epoch=4, fence=2, state="failing", reason="a worker died")
    page = until(lambda: look(http, "/ui/epochs"), "run 2 took over from run 1")
    assert "running → failing: a worker died" in page.text
    assert "compute" in page.text and "400 ms" in page.text


def test_alerts_as_they_fire(served: Callable[..., httpx.Client], river: River) -> None:
    river.topic("shop.alerts.large", "user string, amount double").append({"user": EVIL, "amount": 99.5})
    river.topic("other.alerts.large", "user string").append({"user": "somebody else's"})
    large = AlertStatus("large", sent=2, rows=2, waiting=1, failed=3, last_error="mail: refused")
    page = look(served(TellingRun(alerts=(large,))), "/ui/alerts")
    assert EVIL in page.text and "99.5" in page.text
    assert "▲ trying again" in page.text and "mail: refused" in page.text
    assert "somebody else" not in page.text
    assert len(page.of("script")) == 1


def test_dead_letters_are_there_whichever_run_gave_them_up(served: Callable[..., httpx.Client], river: River) -> None:
    """After a restart the page said that there were none, and that everything was delivered."""
    river.topic("shop.alerts.large", "user string, amount double").append({"user": "ada", "amount": 99.5})
    dead = river.topic(
        "shop.alerts.large.dead",
        "user string, amount double, dead_reason string, dead_attempts int, dead_position string, dead_at timestamp",
        partitions=1,
    )
    letter = {"dead_reason": "mail: refused", "dead_attempts": 5, "dead_position": "shop.alerts.large@0:0"}
    dead.append({"user": "ada", "amount": 99.5, **letter, "dead_at": datetime.now(UTC)})
    page = look(served(TellingRun(alerts=(AlertStatus("large"),))), "/ui/alerts")
    assert "■ some were never delivered" in page.text
    assert "mail: refused 5 shop.alerts.large@0:0" in page.text
    assert any(one.get("href") == "/ui/topics/shop.alerts.large.dead" for one in page.of("a"))


def test_an_alert_shows_its_message_as_it_is_sent(served: Callable[..., httpx.Client], river: River) -> None:
    run = TellingRun()
    orders = run.flow.stream("orders")
    run.flow.alert("large", orders, to=["json://localhost"], message="{user} spent {amount:.2f} at {at}")
    at = datetime(2026, 1, 31, 12, 0, 3, tzinfo=UTC)
    fired = {"user": EVIL, "amount": 99.5, "at": at}
    river.topic("shop.alerts.large", "user string, amount double, at timestamp").append(fired)
    river.topic("shop.alerts", "kind string, state string, text string").append({"text": "flow shop is behind"})
    page = look(served(run), "/ui/alerts")
    assert f"{EVIL} spent 99.50 at 2026-01-31 12:00:03 UTC" in page.text
    assert "operator flow shop is behind" in page.text


def test_windows_are_shown_the_newest_first(http: httpx.Client, river: River) -> None:
    spec = ViewSpec("minutes", "shop", "user string, window_start timestamp, n bigint", ("user", "window_start"))
    starts = [datetime(2026, 1, 31, 12, minute, tzinfo=UTC) for minute in range(60)]
    CommittedFlow(river, spec).commit(*(("ada", start, start.minute, 1) for start in starts))
    page = look(http, "/ui/views/minutes")
    assert "Rows 1 to 50, the newest windows first" in page.text
    assert "12:59:00Z" in page.text and "12:09:00Z" not in page.text
    [sorted_by] = [one for one in page.of("th") if "aria-sort" in one]
    assert sorted_by["aria-sort"] == "descending"
    assert "12:09:00Z" in look(http, "/ui/views/minutes?order=window_start").text


def test_a_view_says_how_programs_ask_for_it(http: httpx.Client, totals: CommittedFlow) -> None:
    totals.commit(("ada", 1, 9.5, 1))
    page = look(http, "/ui/views/totals")
    assert "total double" in page.text and "user string key" in page.text
    assert "riverrun view query 'select * from \"totals\" limit 10'" in page.text
    [curl] = re.findall(r"curl '(\S+limit=10)'", page.text)
    assert httpx.get(curl).json() == [{"user": "ada", "n": 1, "total": 9.5}]


def test_late_is_one_number_on_every_page(served: Callable[..., httpx.Client], river: River) -> None:
    """Flow, Time and Ledger: rows that came too late to count."""
    river.topic("orders").append(order())
    source = SourceStatus("stream-orders", "orders", datetime.now(UTC), 1.0)
    corrected = msgspec.structs.replace(LEDGER[1], corrected=2)
    http = served(TellingRun(sources=(source,), ledger=(LEDGER[0], corrected)))
    for path in ("/", "/ui/time", "/ui/ledger"):
        assert "Late rows 3 rows" in look(http, path).text, path
    assert "Corrections 2 rows came to a window that had closed" in look(http, "/ui/ledger").text


def test_nobody_holds_the_watermark_back_where_all_are_as_far(
    served: Callable[..., httpx.Client], river: River
) -> None:
    now = datetime.now(UTC)
    topic = river.topic("orders")
    topic.append([{"user": user, "amount": 1.0, "at": now} for user in ("ada", "bob", "eve", "joe")])
    slowest = SlowProducer("0", now - timedelta(seconds=5), now)  # as the run knew it, some rows ago
    run = TellingRun(sources=(SourceStatus("stream-orders", "orders", now, 1.0, (slowest,)),))
    http = served(run)
    page = until(lambda: look(http, "/ui/time"), "all are within a second: 2 partitions")
    assert "holds back" not in page.text and "Producers" not in page.text
    later = now + timedelta(seconds=9)
    [other] = [user for user in ("ada", "bob", "eve", "joe") if partition_of(user.encode(), 2) == 1][:1]
    topic.append({"user": other, "amount": 1.0, "at": later})
    assert (
        "Held back by partition 0 9 s behind the furthest" in until(lambda: look(http, "/ui/time"), "holds back").text
    )


def test_a_mark_is_drawn_only_where_it_belongs(served: Callable[..., httpx.Client], river: River) -> None:
    """Rows from before the picture piled up on its left border."""
    topic, now = river.topic("orders"), datetime.now(UTC)
    http = served(TellingRun(sources=(SourceStatus("stream-orders", "orders", now, 0.0),)))
    look(http, "/ui/time")
    topic.append([order("ada", at=(now + timedelta(seconds=1)).isoformat()) for _ in range(20)])
    topic.append([order("ada", at=(now - timedelta(days=number)).isoformat()) for number in (1, 2, 3)])
    page = until(lambda: look(http, "/ui/time"), "Behind the watermark 3 rows")
    assert [one["d"] for one in page.of("path") if one.get("class") == "straggler"] == [""]
    assert "with a time outside of it, and without a mark" in page.text


def test_nodes_have_names_that_people_wrote(served: Callable[..., httpx.Client]) -> None:
    """Three windows were all called window, and joins join_streams."""
    run = TellingRun()
    orders = run.flow.stream("orders")
    for size in ("1 minute", "1 hour"):
        run.flow.view(f"per-{size[2:]}", orders.window(rr.tumbling(size), by="user").agg(n=rr.count()))
    joined = orders.join(orders, on="user", within=("0 s", "5 minutes"))
    run.flow.topic("pairs", joined)
    page = look(served(run), "/")
    assert "window 1" in page.text and "window 2" in page.text
    assert "inner join on user within 0 s … 5 min" in page.text
    assert "join_streams" not in page.text


def test_small_state_is_in_the_manifest(served: Callable[..., httpx.Client]) -> None:
    """It was said to be in 0 files."""
    assert "2 kB in the manifest" in look(served(TellingRun(state_size=StateSize(2048, 0))), "/").text


def test_the_history_of_a_flow_is_kept_in_the_river(
    served: Callable[..., httpx.Client], river: River, serve: Callable[..., Background]
) -> None:
    parts = [DayPart(int(time.time()) // 60 * 60 - 60 * minute, 60, 60.0, 600, 3) for minute in range(9, 0, -1)]
    path = Path(day_path(river.path, "shop"))
    path.parent.mkdir()
    path.write_bytes(msgspec.json.encode(DayDocument(1, parts)))
    page = look(served(TellingRun()), "/ui/history")
    assert "Rows read in a second now 10/s, at most 10/s" in page.text
    assert "Late rows in a minute now 3/min" in page.text
    assert len([one for one in page.of("svg") if one.get("class") == "day fitted"]) == 6
    assert "2 hours" in look(served(TellingRun()), "/ui/history?span=2h").text


def test_pages_need_a_token_where_there_are_tokens(river: River, serve: Callable[..., Background]) -> None:
    from riverrun.serve.tokens import line

    settings = Settings(tokens=";".join((line("me", ["read"], "secret"), line("shop", ["write"], "other"))))
    with River(river.path, settings=settings) as guarded:
        url = serve(river=guarded).url
        refused = httpx.get(f"{url}/")
        assert refused.status_code == 401
        assert (
            "Basic" in refused.headers["www-authenticate"]
        )  # a browser asks the person, and sends it with every request
        assert httpx.get(f"{url}/", auth=("", "secret")).status_code == 200
        assert httpx.get(f"{url}/ui/static/live.js", auth=("", "secret")).status_code == 200
        assert httpx.get(f"{url}/", auth=("", "other")).status_code == 403
        with httpx.stream("GET", url, auth=("", "secret"), headers={"accept": "text/event-stream"}) as events:
            assert events.status_code == 200
            assert b"data: " in next(part for part in events.iter_bytes() if b"data" in part)


def test_pages_are_small(http: httpx.Client, totals: CommittedFlow) -> None:
    totals.commit(*((f"user-{number:03}", number, number / 2, 1) for number in range(120)))
    static = sum(len(http.get(f"/ui/static/{name}").content) for name in ("style.css", "live.js", "icon.svg"))
    for path in (*PAGES, "/ui/views/totals", "/ui/topics/orders"):
        assert static + len(http.get(path).content) < 150_000


def test_without_pages_there_is_the_api_alone(serve: Callable[..., Background]) -> None:
    url = serve(pages=None).url
    assert httpx.get(f"{url}/").status_code == 404
    assert httpx.get(f"{url}/topics").status_code == 200
    assert dashboard.__doc__


def test_static_files_are_those_of_the_folder(http: httpx.Client) -> None:
    assert http.get("/ui/static/live.js").headers["content-type"].startswith("text/javascript")
    for name in ("nothing.js", "..%2froutes.py", "%2e%2e"):
        assert http.get(f"/ui/static/{name}").status_code == 404


def test_arrivals_know_who_is_behind_and_what_was_late(river: River) -> None:
    topic = river.topic("readings", "device string, at timestamp", time="at", producers="device", fsync="os")
    now = datetime.now(UTC)
    arrivals = ArrivalSample(topic)

    def send(device: str, seconds: float) -> None:
        topic.append({"device": device, "at": now - timedelta(seconds=seconds)})

    send("a", 0)
    send("b", 20)
    arrivals.look(None)
    send("a", 7)
    send("b", 15)
    arrivals.look(int((now - timedelta(seconds=10)).timestamp() * 1e6))
    assert sorted(arrivals.speakers) == ["a", "b"]
    assert arrivals.speakers["a"].time - arrivals.speakers["b"].time == 15_000_000
    assert len(arrivals.marks) == arrivals.behind == 1  # b's second row, behind the watermark then
    assert arrivals.rows == 4
    assert arrivals.delays.tolist() == [1, 1, 1, 1, 0, 0, 0, 0, 0]  # a's second row came 7 s behind its first


def test_many_rows_are_taken_from_headers(river: River, monkeypatch: pytest.MonkeyPatch) -> None:
    from riverrun.serve.pages import arrival_sample as module

    monkeypatch.setattr(module, "_FEW", 10)
    topic = river.topic("orders")
    arrivals = ArrivalSample(topic)
    topic.append([order("ada", at=f"2026-01-31T12:00:{second:02}Z") for second in range(30)])
    arrivals.look(None)
    assert not arrivals.is_exact
    assert int(arrivals.arrived.counts.sum()) == 30


def test_a_replay_of_old_rows_is_in_the_frame(river: River) -> None:
    topic = river.topic("orders")
    arrivals = ArrivalSample(topic)
    topic.append([order("ada", at=f"2020-01-01T12:00:{second:02}Z") for second in range(30)])
    arrivals.look(None)
    now = int(time.time() * 1e6)
    frame = choose_span(arrivals.arrived, [], now, 120_000_000)
    first = int(datetime(2020, 1, 1, 12, tzinfo=UTC).timestamp() * 1e6)
    assert frame.low <= first + 1_000_000 < first + 29_000_000 <= frame.high
    assert frame.high - frame.low < 600_000_000


def test_the_graph_is_laid_out_without_overlaps() -> None:
    edges = (("a", "c"), ("b", "c"), ("a", "d"), ("c", "e"), ("d", "f"), ("c", "g"), ("e", "h"))
    placed = lay_out(tuple("abcdefgh"), edges).places
    assert all(placed[start].x < placed[end].x for start, end in edges)
    assert len({(place.x, place.y) for place in placed.values()}) == 8
    assert {placed[end].x for end in "fgh"} == {max(place.x for place in placed.values())}


def test_every_class_of_the_style_sheet_is_used() -> None:
    """A rule for something that is no longer drawn is dead."""
    from importlib.resources import files

    folder = files("riverrun.serve.pages")
    written = "".join(entry.read_text() for entry in folder.iterdir() if entry.name.endswith(".py"))
    written += (folder / "static" / "live.js").read_text()
    rules = re.sub(r"\{[^}]*\}", " ", (folder / "static" / "style.css").read_text())
    unused = {name for name in re.findall(r"\.([a-z][\w-]*)", rules) if name.rstrip("-0123456789") not in written}
    assert unused == set()


def test_a_long_edge_goes_around_the_boxes_between() -> None:
    edges = (("a", "b"), ("b", "c"), ("c", "d"), ("a", "d"))
    made = lay_out(tuple("abcd"), edges)
    straight = [float(y) for y in re.findall(r"C\S+ \S+ \S+ (\S+) \S+ \S+?H", made.paths["a", "d"])]
    assert len(straight) == 2
    for y, passed in zip(straight, "bc", strict=True):
        assert not made.places[passed].y <= y <= made.places[passed].y + HEIGHT


def test_results_stand_around_what_they_come_from() -> None:
    placed = lay_out(tuple("abcd"), (("a", "b"), ("a", "c"), ("a", "d"))).places
    assert placed["c"].y == placed["a"].y
    assert placed["b"].y < placed["a"].y < placed["d"].y
