"""The dashboard in a real browser: it moves, comes back after a restart, and asks nobody else for anything."""

from __future__ import annotations

import os
import re
import threading
import time
from collections.abc import Callable, Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest

from riverrun.river import River
from riverrun.runtime.rule_topic import open_rules
from riverrun.serve.guard import Guard
from riverrun.serve.pages.day import COARSE, DayPart
from riverrun.serve.pages.day_file import DayDocument, day_path
from riverrun.serve.server import Background, serve_in_background
from riverrun.serve.tokens import line
from riverrun.settings import Settings
from riverrun.views.sql.sqlstore import SqlStore
from serve.dashboard_shop import Customers, ShopRun, shop_flow
from serve.page_bell import PageBell

sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")

CHROMIUM = "/usr/bin/chromium"
OPTIONS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
]
EVIL = "<script>document.title=1</script><img src=x onerror=document.title=2>"
PAGES = (
    "/",
    "/ui/time",
    "/ui/topics",
    "/ui/topics/orders",
    "/ui/views",
    "/ui/views/cities",
    "/ui/ledger",
    "/ui/epochs",
)
QUIET = ("/ui/groups", "/ui/groups/warehouse-of-the-north", "/ui/history", "/ui/alerts", "/ui/rules")  # change seldom
PATIENCE = 15_000  # milliseconds
RULES = [
    {
        "rule_id": "card-testing-with-many-small-payments-before-a-large-one",
        "pattern": "small{5,} -> large",
        "define": '{"small": "amount < 2 and currency = first(small.currency)", "large": "amount > 500"}',
        "within": "10 minutes",
        "enabled": True,
    },
    {"rule_id": "x", "pattern": "a !b -> c", "enabled": False},
]

pytestmark = [
    pytest.mark.skipif(not os.path.exists(CHROMIUM), reason=f"there is no browser at {CHROMIUM}"),
    pytest.mark.xdist_group("browser"),
]


def write_day(river: River, flow: str) -> None:
    """As if it had been run all day."""
    now = int(time.time()) // COARSE * COARSE
    parts = [DayPart(now - COARSE * back, COARSE, 600.0, 6000 + 40 * back, 3) for back in range(140, 0, -1)]
    path = Path(day_path(river.path, flow))
    path.parent.mkdir()
    path.write_bytes(msgspec.json.encode(DayDocument(1, parts)))


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[River]:
    """A river with a flow that is run, and customers who do not stop."""
    stop = threading.Event()
    with River(tmp_path_factory.mktemp("shop") / "river") as river:
        run = ShopRun(river, shop_flow(), every=0.7)
        people = Customers(river)
        people.act(200, 10)
        with river.topic("orders").consumer("warehouse-of-the-north") as consumer:
            consumer.poll(5)  # and is behind from then on
        open_rules(river, "rules").append(RULES)
        write_day(river, run.name)

        def live() -> None:
            while not stop.wait(0.5):
                people.act(10, 10)

        thread = threading.Thread(target=live)
        with run:
            thread.start()
            river.shop = run  # type: ignore[attr-defined]
            yield river
            stop.set()
            thread.join()


@pytest.fixture(scope="module")
def served(shop: River) -> Iterator[Background]:
    with serve_in_background(shop, shop.shop, port=0) as background:  # type: ignore[attr-defined]
        yield background


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with sync_api.sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=CHROMIUM, args=OPTIONS)
        yield opened
        opened.close()


@pytest.fixture
def page(browser: Any, served: Background) -> Iterator[Any]:
    """A page in a fresh profile. In the end: no error in the console, and no request to anywhere else."""
    context = browser.new_context(base_url=served.url, viewport={"width": 1280, "height": 900})
    opened = context.new_page()
    opened.set_default_timeout(PATIENCE)
    errors: list[str] = []
    requests: list[str] = []
    opened.on("pageerror", lambda error: errors.append(str(error)))
    opened.on("console", lambda message: errors.append(message.text) if message.type in ("error", "warning") else None)
    opened.on("request", lambda request: requests.append(request.url))
    opened.errors = errors
    yield opened
    context.close()
    assert errors == []
    assert requests and [url for url in requests if not url.startswith(("http://127.0.0.1:", "data:"))] == []


def moving(page: Any, selector: str) -> None:
    """Wait until the text of an element is no longer what it is."""
    page.wait_for_selector(selector)
    before = page.text_content(selector)
    page.wait_for_function("([s, t]) => document.querySelector(s)?.textContent !== t", arg=[selector, before])


@pytest.mark.parametrize("path", PAGES)
def test_every_page_moves(page: Any, path: str) -> None:
    page.goto(path)
    assert page.title().endswith("Riverrun")
    region = {"/ui/time": "#figures", "/ui/topics/orders": "#tail", "/ui/views/cities": "#grid", "/ui/epochs": "#list"}
    others = {"/ui/topics": "#topics", "/ui/views": "#views", "/ui/ledger": "#ledger", "/": "#figures"}
    moving(page, {**region, **others}[path])
    assert page.locator("#connection").is_hidden()


def test_a_node_of_the_graph_has_its_numbers_and_its_line(page: Any) -> None:
    page.goto("/")
    page.click("svg.flow a.box:has-text('window') >> nth=0")
    page.wait_for_selector("#node .details")
    assert re.search(r"dashboard_shop\.py:\d+", page.text_content("#node"))
    assert "accepted" in page.text_content("#node")


def test_the_graph_by_keyboard(page: Any) -> None:
    page.goto("/")
    page.focus("svg.flow a.box >> nth=0")
    page.keyboard.press("Enter")
    page.wait_for_selector("#node .details")


def test_a_view_updates_after_a_post(page: Any, served: Background) -> None:
    page.goto("/ui/views/cities?q=Atlantis&in=city")
    assert "No row fits" in page.text_content("#grid")
    user = {"user": "neo", "name": "Neo", "city": "Atlantis"}
    httpx.post(f"{served.url}/topics/users", json=user).raise_for_status()
    order = {"order_id": "x-1", "user": "neo", "amount": 5.0, "shop": "Lyon", "at": "2099-01-01T00:00:00Z"}
    now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    httpx.post(f"{served.url}/topics/orders", json={**order, "at": now}).raise_for_status()
    page.wait_for_selector("#grid td:has-text('Atlantis')")


def test_what_is_in_events_is_text(page: Any, served: Background) -> None:
    now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    click = {"user": EVIL, "page": EVIL, "device": "phone", "at": now}
    page.goto("/ui/topics/clicks")
    httpx.post(f"{served.url}/topics/clicks", json=click).raise_for_status()
    page.wait_for_selector(f"#tail td:text-is({EVIL!r})")
    assert page.title() == "clicks · Riverrun"
    assert page.locator("#tail img, #tail script").count() == 0


def test_the_newest_rows_can_be_paused(page: Any) -> None:
    page.goto("/ui/topics/orders")
    moving(page, "#tail tbody")
    page.click("#tail button")
    before = page.text_content("#tail tbody")
    moving(page, "#figures")
    assert page.text_content("#tail tbody") == before
    page.click("#tail button")
    moving(page, "#tail tbody")


def test_what_somebody_types_stays(page: Any) -> None:
    page.goto("/ui/views/cities")
    page.fill("input[name=q]", "Ber")
    moving(page, "#grid")
    assert page.input_value("input[name=q]") == "Ber"
    assert page.evaluate("document.activeElement.name") == "q"


def test_a_hidden_tab_asks_for_nothing(page: Any, served: Background) -> None:
    page.goto("/ui/topics")
    moving(page, "#topics")
    show = (
        "(hidden) => { Object.defineProperty(document, 'hidden', {value: hidden, configurable: true});"
        " document.dispatchEvent(new Event('visibilitychange')); }"
    )
    page.evaluate(show, True)
    _until(lambda: _streams(served) == 0)
    page.evaluate(show, False)
    moving(page, "#topics")


def test_it_comes_back_after_a_restart_of_the_server(browser: Any, shop: River) -> None:
    run = shop.shop  # type: ignore[attr-defined]
    first = serve_in_background(shop, run, port=0)
    port = int(first.url.rsplit(":", 1)[1])
    context = browser.new_context(base_url=first.url)
    page = context.new_page()
    page.set_default_timeout(PATIENCE)
    page.goto("/")
    moving(page, "#figures")
    first.close()
    page.wait_for_selector("#connection:visible")
    assert re.search(r"connection lost \d+ s ago, retrying", page.text_content("#connection"))
    with serve_in_background(shop, run, port=port):
        page.wait_for_selector("#connection", state="hidden")
        moving(page, "#figures")
        context.close()


def test_a_token_as_the_browser_sends_it(browser: Any, shop: River) -> None:
    """Asked for once, as a password; then it goes with everything, streams included."""
    settings = Settings(tokens=line("me", ["read"], "secret"))
    with River(shop.path, settings=settings) as guarded, serve_in_background(guarded, shop.shop, port=0) as served:  # type: ignore[attr-defined]
        context = browser.new_context(base_url=served.url, http_credentials={"username": "me", "password": "secret"})
        page = context.new_page()
        page.set_default_timeout(PATIENCE)
        page.goto("/")
        moving(page, "#figures")
        context.close()


def test_at_380_pixels_nothing_sticks_out(browser: Any, served: Background) -> None:
    context = browser.new_context(base_url=served.url, viewport={"width": 380, "height": 800})
    page = context.new_page()
    for path in (*PAGES, *QUIET):
        page.goto(path)
        assert page.evaluate("document.documentElement.scrollWidth") <= 380, path
    context.close()


@pytest.mark.parametrize("scripts", [pytest.param(True, marks=pytest.mark.slow), False])
def test_at_380_pixels_every_tab_is_in_sight(browser: Any, served: Background, scripts: bool) -> None:
    """The page that one is at, too: it once was to the right of what was shown."""
    context = browser.new_context(
        base_url=served.url, viewport={"width": 380, "height": 800}, java_script_enabled=scripts
    )
    page = context.new_page()
    for path in (*PAGES, *QUIET):
        page.goto(path)
        tabs = page.locator("nav a")
        boxes = [tabs.nth(number).bounding_box() for number in range(tabs.count())]
        assert [box for box in boxes if box["x"] < 0 or box["x"] + box["width"] > 380 or box["y"] > 160] == [], path
        assert page.locator("nav a[aria-current]").count() == 1
    context.close()


def test_at_380_pixels_history_begins_with_what_is_new(browser: Any, served: Background) -> None:
    context = browser.new_context(base_url=served.url, viewport={"width": 380, "height": 800})
    page = context.new_page()
    page.goto("/ui/history")
    page.wait_for_selector("svg.day")
    right = (
        "() => [...document.querySelectorAll('.scroll:has(svg.day)')]"
        ".map(each => each.scrollWidth - each.clientWidth - each.scrollLeft)"
    )
    page.wait_for_function(f"() => ({right})().every(left => left < 2)")
    assert len(page.evaluate(right)) == 6
    assert page.evaluate("document.querySelector('.scroll:has(svg.day)').scrollLeft") > 500
    context.close()


@pytest.mark.parametrize("path", [*PAGES, *QUIET])
def test_at_1280_pixels_nothing_is_cut_off(page: Any, path: str) -> None:
    """Rows of alerts, the lag of readers and positions once were, with nothing to scroll by in sight."""
    page.goto(path)
    cut = (
        "() => [...document.querySelectorAll('html, main, .scroll, pre')]"
        ".filter(each => each.scrollWidth > each.clientWidth + 1)"
        ".map(each => `${each.getAttribute('aria-label') || each.tagName}: ${each.scrollWidth}`)"
    )
    assert page.evaluate(cut) == []


@pytest.mark.parametrize("scripts", [True, False])
def test_a_group_is_moved_from_its_page(browser: Any, served: Background, shop: River, scripts: bool) -> None:
    context = browser.new_context(base_url=served.url, java_script_enabled=scripts)
    page = context.new_page()
    page.set_default_timeout(PATIENCE)
    page.goto("/ui/groups")
    page.click("text=warehouse-of-the-north")
    page.select_option("select[name=to]", "latest")
    page.click("button:text-is('Move')")
    page.wait_for_selector("#done")
    assert "The group was moved" in page.text_content("#done")
    assert shop.lag("warehouse-of-the-north")["topics"]["orders"]["partitions"][0]["committed"] > 0
    context.close()


def test_without_scripts_the_pages_say_the_same(browser: Any, served: Background) -> None:
    context = browser.new_context(base_url=served.url, java_script_enabled=False)
    page = context.new_page()
    for path, said in (("/", "orders"), ("/ui/topics/orders", "Newest rows"), ("/ui/views/cities", "Berlin")):
        page.goto(path)
        assert said in page.text_content("main")
    assert page.locator("noscript").count() == 1
    context.close()


@pytest.mark.parametrize("scripts", [True, False])
def test_a_button_is_pressed_by_a_form(browser: Any, shop: River, scripts: bool) -> None:
    """A browser says of its own accord where a form comes from, and nothing else is accepted."""
    bell = PageBell()
    with serve_in_background(shop, shop.shop, port=0, pages=bell.pages) as served:  # type: ignore[attr-defined]
        context = browser.new_context(base_url=served.url, java_script_enabled=scripts)
        page = context.new_page()
        page.set_default_timeout(PATIENCE)
        page.goto("/ui/ledger")
        assert "rung 0 times" in page.text_content("#control")
        page.click("text=Ring")
        page.wait_for_selector("#control >> text=rung 1 times")
        assert page.url == f"{served.url}/ui/ledger"
        bell.press()
        if scripts:
            page.wait_for_selector("#control >> text=rung 2 times")
        context.close()


def _streams(served: Background) -> int:
    text = httpx.get(f"{served.url}/metrics").text
    return int(float(re.findall(r"^riverrun_http_streams (\S+)$", text, re.MULTILINE)[0]))


def _until(happened: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE / 1000
    while not happened():
        assert time.monotonic() < deadline
        time.sleep(0.1)


def test_a_question_is_asked_by_a_form_and_its_answer_stays(page: Any, served: Background) -> None:
    page.goto(f"{served.url}/ui/views?sql=select+6*7+as+answer")
    assert page.locator("#answer").inner_text() == "Press Run for its answer"
    page.get_by_role("button", name="Run").click()
    page.wait_for_selector("#answer td", timeout=PATIENCE)
    assert page.locator("#answer td").inner_text() == "42"
    moving(page, "#views")
    assert page.locator("#answer td").inner_text() == "42"
    assert page.locator("textarea").input_value() == "select 6*7 as answer"


def test_a_page_of_another_site_runs_nothing(browser: Any, served: Background, monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[str] = []
    monkeypatch.setattr(SqlStore, "query", lambda self, sql, *_, **__: ran.append(sql) or [])
    asking: list[tuple[str, bytes]] = []
    admit = Guard._admit

    def note(self: Guard, scope: dict[str, Any]) -> Any:
        asking.append((scope["method"], scope["query_string"]))
        return admit(self, scope)

    monkeypatch.setattr(Guard, "_admit", note)
    context = browser.new_context()
    page = context.new_page()
    elsewhere = ThreadingHTTPServer(("127.0.0.1", 0), SimpleHTTPRequestHandler)
    threading.Thread(target=elsewhere.serve_forever, daemon=True).start()
    page.goto(f"http://localhost:{elsewhere.server_port}/nothing")
    asked = f"{served.url}/ui/views"
    page.evaluate("url => fetch(url + '?sql=select 1', {mode: 'no-cors'}).catch(() => 0)", asked)
    image = "url => new Promise(done => { const i = new Image(); i.onerror = i.onload = done; i.src = url; })"
    page.evaluate(image, f"{asked}?sql=select 2")
    posted = "url => fetch(url, {method: 'POST', mode: 'no-cors', body: 'sql=select+3'}).catch(() => 0)"
    page.evaluate(posted, asked)
    page.evaluate("url => { location = url + '?sql=select 4'; }", asked)
    page.wait_for_selector("text=Press Run", timeout=PATIENCE)
    context.close()
    elsewhere.shutdown()
    elsewhere.server_close()
    assert ran == []
    assert {query for _, query in asking if query} == {b"sql=select%201", b"sql=select%202", b"sql=select%204"}
    assert ("POST", b"") in asking
