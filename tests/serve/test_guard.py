"""Who may ask: hosts, origins, tokens, and what every answer says to a browser."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest

from riverrun.errors import Invalid, Unavailable
from riverrun.river import River
from riverrun.serve import live_feed
from riverrun.serve import tokens as tokens_module
from riverrun.serve.guard import host_name, needed_role
from riverrun.serve.tokens import Tokens, extract_token, line
from riverrun.settings import Settings
from riverrun.views.sql.sqlstore import SqlStore
from serve.conftest import ORDERS, CommittedFlow, order

SECRETS = {role: f"secret-of-{role}-0123456789" for role in ("read", "write", "admin")}


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("localhost", 200),
        ("LOCALHOST:1", 200),
        ("127.0.0.1:8400", 200),
        ("[::1]:8400", 200),
        ("localhost.:8400", 200),
        ("evil.example", 421),
        ("evil.example:8400", 421),
        ("localhost.evil.example", 421),
        ("127.0.0.1.evil.example", 421),
        ("evil@localhost", 421),
        ("10.0.0.1", 421),
        ("[", 421),
        ("", 421),
    ],
)
def test_a_foreign_host_is_sent_away(http: httpx.Client, host: str, status: int) -> None:
    for path in ("/topics", "/healthz", "/nowhere"):
        answer = http.get(path, headers={"host": host})
        assert answer.status_code == (404 if path == "/nowhere" and status == 200 else status)
        assert status == 200 or answer.json()["error"]


@pytest.mark.parametrize(
    ("origin", "status"),
    [
        ("https://evil.example", 403),
        ("null", 403),
        ("http://localhost:1", 403),
        ("http://127.0.0.1", 403),
        ("file://", 403),
        ("", 403),
    ],
)
def test_a_foreign_origin_is_refused(http: httpx.Client, river: River, origin: str, status: int) -> None:
    assert http.post("/topics/orders", json=order(), headers={"origin": origin}).status_code == status
    assert http.get("/topics", headers={"origin": origin}).status_code == status
    assert river.topic("orders").read().num_rows == 0


def test_the_servers_own_pages_may_ask(http: httpx.Client) -> None:
    own = str(http.base_url).rstrip("/")
    assert http.post("/topics/orders", json=order(), headers={"origin": own}).status_code == 202
    for site in ("same-origin", "none"):
        assert http.get("/topics", headers={"sec-fetch-site": site, "sec-fetch-mode": "cors"}).status_code == 200


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
def test_from_another_site_there_are_only_links_that_show_pages(
    http: httpx.Client, totals: CommittedFlow, monkeypatch: pytest.MonkeyPatch, site: str
) -> None:
    """What a page elsewhere fetches without reading the answer still took its time, which tells something."""
    totals.commit(("ada", 1, 9.5, 1))
    ran: list[str] = []
    monkeypatch.setattr(SqlStore, "query", lambda self, sql, *_, **__: ran.append(sql) or [])
    fetched = {"sec-fetch-site": site, "sec-fetch-mode": "no-cors", "sec-fetch-dest": "empty"}
    link = {"sec-fetch-site": site, "sec-fetch-mode": "navigate", "sec-fetch-dest": "document"}
    framed = {**link, "sec-fetch-dest": "iframe"}
    for path in ("/ui/views?sql=select+1", "/views/totals?user=ada", "/topics", "/", "/metrics"):
        assert http.get(path, headers=fetched).status_code == 403
        assert http.get(path, headers=framed).status_code == 403
        assert http.get(path, headers=link).status_code == 200
    for headers in (fetched, link):
        assert http.post("/topics/orders", json=order(), headers=headers).status_code == 403
        assert http.post("/ui/views", data={"sql": "select 1"}, headers=headers).status_code == 403
    assert ran == []


def test_sql_in_an_address_is_shown_and_not_run(
    http: httpx.Client, totals: CommittedFlow, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever a browser says about it: of servers without TLS it says nothing."""
    totals.commit(("ada", 1, 9.5, 1))
    ran: list[str] = []
    monkeypatch.setattr(SqlStore, "query", lambda self, sql, *_, **__: ran.append(sql) or [{"seven": 7}])
    shown = http.get("/ui/views", params={"sql": "select 7 as seven"}).text
    assert "select 7 as seven</textarea>" in shown
    assert "Press Run" in shown
    assert ran == []
    own = {"origin": str(http.base_url).rstrip("/"), "sec-fetch-site": "same-origin"}
    assert "<td" in http.post("/ui/views", data={"sql": "select 7 as seven"}, headers=own).text
    assert len(ran) == 1
    assert http.post("/ui/views", data={"sql": "select 1"}, headers={"origin": "null"}).status_code == 403
    assert http.post("/ui/views", content=b"x" * 70_000).status_code == 413
    assert len(ran) == 1


def test_every_answer_tells_browsers_what_not_to_do(http: httpx.Client) -> None:
    for path in ("/topics", "/nowhere", "/metrics", "/openapi.json"):
        headers = http.get(path).headers
        assert "default-src 'self'" in headers["content-security-policy"]
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["cross-origin-opener-policy"] == headers["cross-origin-resource-policy"] == "same-origin"
        assert "access-control-allow-origin" not in headers
        assert "server" not in headers
    assert http.get("/topics", headers={"host": "evil"}).headers["x-content-type-options"] == "nosniff"


def test_errors_are_problems_without_tracebacks(
    http: httpx.Client, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def fails(*_: object) -> None:
        raise RuntimeError("/secret/path")

    monkeypatch.setattr(River, "topics", fails)
    answer = http.get("/topics")
    assert answer.status_code == 500
    assert set(answer.json()) == {"error", "hint"}
    assert "/secret" not in answer.text
    assert "Traceback" not in capfd.readouterr().err
    assert http.put("/topics").status_code == 405
    assert http.request("BREW", "/topics").status_code == 405
    assert set(http.delete("/topics/orders").json()) == {"error", "hint"}


@pytest.fixture
def guarded(tmp_path: Path, serve: Callable) -> Iterator[str]:
    """The address of a server with a token for each role."""
    file = tmp_path / "tokens"
    lines = [line(role, [role], secret) for role, secret in SECRETS.items()]
    file.write_text("# who may do what\n\n" + "\n".join(lines) + "\n")
    with River(tmp_path / "guarded", settings=Settings(tokens_file=str(file))) as river:
        river.topic("orders", ORDERS, fsync="os")
        yield serve(river=river).url


def bearer(secret: str) -> dict[str, str]:
    return {"authorization": f"Bearer {secret}"}


def test_tokens_decide_what_may_be_done(guarded: str) -> None:
    def get(**headers: str) -> int:
        return httpx.get(guarded + "/topics", headers=headers).status_code

    def post(**headers: str) -> int:
        return httpx.post(guarded + "/topics/orders", json=order(), headers=headers).status_code

    assert [get(), post()] == [401, 401]
    assert [get(**bearer("wrong")), post(authorization="Bearer")] == [401, 401]
    assert [get(**bearer(SECRETS["read"])), post(**bearer(SECRETS["read"]))] == [200, 403]
    assert [get(**bearer(SECRETS["write"])), post(**bearer(SECRETS["write"]))] == [403, 202]
    assert [get(**bearer(SECRETS["admin"])), post(**bearer(SECRETS["admin"]))] == [200, 202]
    hashed = hashlib.sha256(SECRETS["admin"].encode()).hexdigest()
    assert get(**bearer(hashed)) == get(**bearer(f"sha256:{hashed}")) == 401


def test_a_browser_sends_its_token_as_a_password(guarded: str) -> None:
    assert httpx.get(guarded + "/topics", auth=("anybody", SECRETS["read"])).status_code == 200
    refused = httpx.get(guarded + "/topics", auth=("anybody", "wrong"))
    assert refused.status_code == 401
    assert "Basic" in refused.headers["www-authenticate"]
    assert "Bearer" in refused.headers["www-authenticate"]


def test_only_health_is_open(guarded: str) -> None:
    assert httpx.get(guarded + "/healthz").status_code == httpx.get(guarded + "/readyz").status_code == 200
    for path in ("/", "/metrics", "/openapi.json", "/views", "/flows", "/topics/orders/tail", "/nowhere", "//healthz"):
        assert httpx.get(guarded + path).status_code == 401


def test_a_secret_is_in_no_answer(guarded: str, capfd: pytest.CaptureFixture[str]) -> None:
    secret = SECRETS["admin"]
    said = ""
    for path in ("/topics", "/metrics", "/flows", "/nowhere", "/topics/nope", "/views/x?y=z", "/openapi.json"):
        answer = httpx.get(guarded + path, headers=bearer(secret))
        said += answer.text + str(answer.headers)
    said += httpx.get(guarded + "/topics", headers=bearer(secret + "x")).text
    out = capfd.readouterr()
    for text in (secret, hashlib.sha256(secret.encode()).hexdigest()):
        assert text not in said + out.out + out.err


def test_roles_by_request() -> None:
    assert needed_role("GET", "/topics/orders/tail") == needed_role("HEAD", "/") == "read"
    assert needed_role("POST", "/ui/views") == "read"
    assert needed_role("POST", "/topics/orders") == "write"
    assert needed_role("POST", "/erase") == needed_role("DELETE", "/topics/orders") == "admin"


def test_names_in_host_headers() -> None:
    assert host_name("Example.COM:80") == "example.com"
    assert host_name("[::1]:8400") == "::1"
    assert host_name("a@b") is None


def test_more_names(tmp_path: Path, serve: Callable) -> None:
    with River(tmp_path / "named", settings=Settings(http_hosts="shop.example, Other.example")) as river:
        url = serve(river=river).url
        for host, status in (("shop.example", 200), ("other.example:80", 200), ("third.example", 421)):
            assert httpx.get(url + "/topics", headers={"host": host}).status_code == status


def test_tokens_in_settings() -> None:
    tokens = Tokens.load(Settings(tokens=f"{line('a', ['read'], 'one')} ; {line('b', ['read', 'write'], 'two')}"))
    found = {secret: tokens.find(secret) for secret in ("one", "two", "three", "\udc80")}
    assert {secret: token and (token.name, token.roles) for secret, token in found.items()} == {
        "one": ("a", {"read"}),
        "two": ("b", {"read", "write"}),
        "three": None,
        "\udc80": None,
    }
    assert not Tokens.load(Settings())


def test_what_is_wrong_with_tokens_is_told_without_showing_them(tmp_path: Path) -> None:
    file = tmp_path / "tokens"
    for text in (
        "my-plain-secret",
        "a read my-plain-secret",
        "a read sha256:my-plain-secret",
        "a root sha256:" + "0" * 64,
    ):
        file.write_text(f"# tokens\n{text}\n")
        with pytest.raises(Invalid, match="line 2") as caught:
            Tokens.load(Settings(tokens_file=str(file)))
        assert "my-plain-secret" not in str(caught.value)
    file.write_text("# nobody\n")
    with pytest.raises(Invalid, match="has no tokens"):
        Tokens.load(Settings(tokens_file=str(file)))
    with pytest.raises(Unavailable, match="cannot be read"):
        Tokens.load(Settings(tokens_file=str(tmp_path / "absent")))


def test_tokens_in_headers() -> None:
    assert extract_token("Bearer abc") == extract_token("bearer  abc") == "abc"
    assert extract_token("Basic " + base64.b64encode(b"me:abc").decode()) == "abc"
    for header in ("", "abc", "Bearer", "Bearer ", "Basic", "Basic !", "Basic /w==", "Digest abc"):
        assert extract_token(header) is None


def test_a_token_that_is_removed_from_the_file_is_refused_and_its_streams_end(
    tmp_path: Path, serve: Callable, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(tokens_module, "_LOOK", 0.0)
    monkeypatch.setattr(live_feed, "_QUIET", 0.1)
    file = tmp_path / "tokens"
    lines = {name: line(name, ["read"], f"secret-of-{name}") for name in ("ada", "bob")}
    file.write_text("\n".join(lines.values()))

    def get(name: str) -> int:
        return httpx.get(url + "/topics", headers=bearer(f"secret-of-{name}")).status_code

    with River(tmp_path / "guarded", settings=Settings(tokens_file=str(file))) as river:
        river.topic("orders", ORDERS, fsync="os")
        url = serve(river=river).url
        with httpx.stream("GET", url + "/topics/orders/tail", headers=bearer("secret-of-bob"), timeout=20) as stream:
            parts = stream.iter_raw()
            assert next(parts)
            assert [get("ada"), get("bob")] == [200, 200]
            file.unlink()
            assert [get("ada"), get("bob")] == [200, 200]
            assert "the tokens from before stay" in caplog.text
            file.write_text(f"what is this?\n{lines['ada']}")
            assert [get("ada"), get("bob")] == [200, 401]
            assert "line 1: not a token; it counts for nothing" in caplog.text
            with pytest.raises(httpx.RemoteProtocolError):
                for _ in parts:
                    pass
        file.write_text("\n".join(lines.values()))
        assert [get("ada"), get("bob")] == [200, 200]
        for nobody in ("", "# nobody\n", "what is this?"):
            file.write_text(nobody)
            assert [get("ada"), get("bob"), httpx.get(url + "/topics").status_code] == [401, 401, 401]
        assert "has no tokens in it: nobody is let in" in caplog.text
        file.write_text(lines["ada"])
        assert [get("ada"), get("bob")] == [200, 401]


def test_why_it_is_not_ready_is_told_to_those_who_may_read(
    guarded: str, http: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object) -> None:
        raise Unavailable("the store /secret/path is away")

    monkeypatch.setattr(River, "topics", fails)
    for headers in ({}, bearer("wrong"), bearer(SECRETS["write"])):
        answer = httpx.get(guarded + "/readyz", headers=headers)
        assert (answer.status_code, answer.json()) == (503, {"status": "not ready"})
    for answer in (httpx.get(guarded + "/readyz", headers=bearer(SECRETS["read"])), http.get("/readyz")):
        assert "/secret/path" in answer.json()["error"]


def test_names_of_hosts_without_tokens_are_warned_about(
    tmp_path: Path, serve: Callable, caplog: pytest.LogCaptureFixture
) -> None:
    with River(tmp_path / "named", settings=Settings(http_hosts="shop.example")) as river:
        serve(river=river)
    assert "shop.example, and there are no tokens" in caplog.text
