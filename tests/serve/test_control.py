"""A button on the pages: pressed by a plain form, from these pages only, and nowhere where nobody put it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import httpx
import pytest

from riverrun.errors import TimedOut
from riverrun.river import River
from riverrun.serve.pages.control import keep_local
from riverrun.serve.server import Background
from riverrun.serve.tokens import line
from riverrun.settings import Settings
from serve.conftest import CommittedFlow
from serve.page_bell import PageBell
from serve.test_pages import PAGES, Page


@pytest.fixture
def bell() -> PageBell:
    return PageBell()


@pytest.fixture
def url(serve: Callable[..., Background], totals: CommittedFlow, bell: PageBell) -> str:
    totals.commit(("ada", 1, 9.5, 1))
    return serve(pages=bell.pages).url


def controls(page: Page) -> list[dict[str, str | None]]:
    """What is posted, but for questions."""
    posted = [form for form in page.of("form") if form.get("method") == "post"]
    return [form for form in posted if form["action"] != "/ui/views#answer"]


@pytest.mark.parametrize("path", (*PAGES, "/ui/topics/orders", "/ui/views/totals?order=n"))
def test_the_form_of_every_page_leads_back_to_it(url: str, bell: PageBell, path: str) -> None:
    page = Page(httpx.get(url + path).text)
    [form] = controls(page)
    assert "rung 0 times" in page.text
    answer = httpx.post(url + str(form["action"]), headers={"origin": url})
    assert (answer.status_code, answer.headers["location"]) == (303, path)
    assert bell.rung == 1
    assert "rung 1 times" in httpx.get(url + path).text


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "http://evil.example"},
        {"origin": "null"},
        {"origin": "http://127.0.0.1:1"},
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
        {"host": "evil.example"},
    ],
)
def test_nobody_elses_page_can_press_it(url: str, bell: PageBell, headers: dict[str, str]) -> None:
    assert httpx.post(f"{url}/ui/ring", headers=headers).status_code in (403, 421)
    assert bell.rung == 0


def test_looking_presses_nothing(url: str, bell: PageBell) -> None:
    for method in ("GET", "HEAD", "PUT"):
        assert httpx.request(method, f"{url}/ui/ring").status_code == 405
    assert bell.rung == 0


def test_a_browser_may_say_where_the_form_is(url: str, http: httpx.Client) -> None:
    """Under `no-referrer` it would send the origin null, which is refused."""
    assert (
        httpx.get(url).headers["referrer-policy"] == http.get("/ui/views").headers["referrer-policy"] == "same-origin"
    )


def test_what_goes_wrong_is_a_page(url: str, bell: PageBell) -> None:
    bell.fails = TimedOut("nobody answered", hint="Try again")
    answer = httpx.post(f"{url}/ui/ring")
    assert answer.status_code == 504
    assert "nobody answered Try again" in Page(answer.text).text


def test_where_nobody_put_it_there_is_none(http: httpx.Client, totals: CommittedFlow) -> None:
    totals.commit(("ada", 1, 9.5, 1))
    for path in PAGES:
        assert not controls(Page(http.get(path).text))
    for path in ("/ui/ring", "/ui/break"):
        assert http.post(path).status_code == 404


def test_with_tokens_it_takes_an_admin(tmp_path: Path, serve: Callable[..., Background], bell: PageBell) -> None:
    tokens = ";".join(line(role, [role], f"{role}-secret") for role in ("read", "write", "admin"))
    with River(tmp_path / "guarded", settings=Settings(tokens=tokens)) as guarded:
        url = serve(river=guarded, pages=bell.pages).url
        statuses = [
            httpx.post(f"{url}/ui/ring", headers={"authorization": f"Bearer {role}-secret"}).status_code
            for role in ("nobody", "read", "write", "admin")
        ]
    assert statuses == [401, 403, 403, 303]
    assert bell.rung == 1


def test_back_is_an_address_of_this_server() -> None:
    assert keep_local("/ui/epochs?x=1") == "/ui/epochs?x=1"
    for elsewhere in ("//evil.example", "/\\evil.example", "http://evil.example", "", "evil", "/\r\nSet-Cookie: a=b"):
        assert keep_local(elsewhere) == "/"
