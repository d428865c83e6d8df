"""Events over HTTP: what is accepted, what is refused, and how it is said."""

from __future__ import annotations

import gzip
import json
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest

from riverrun.errors import DiskFull, Invalid
from riverrun.log.embedded import EmbeddedBackend
from riverrun.river import River
from riverrun.serve.ingest import Key, idempotency_key
from serve.conftest import AT, order

NDJSON = {"content-type": "application/x-ndjson"}


def users(river: River, topic: str = "orders") -> list[str]:
    return sorted(river.topic(topic).read().column("user").to_pylist())


def lines(*rows: Any) -> bytes:
    return b"\n".join(json.dumps(row).encode() for row in rows)


@pytest.mark.parametrize(
    ("body", "headers"),
    [
        (lines(order("a")), {}),
        (json.dumps(order("a"), indent=2).encode(), {"content-type": "application/json"}),
        (json.dumps([order("a")]).encode(), {}),
        (b"\n  " + json.dumps([order("a")], indent=1).encode(), {"content-type": "application/json; charset=utf-8"}),
        (lines(order("a")), NDJSON),
        (b"\n" + lines(order("a")) + b"\r\n\n", NDJSON),
        (lines(order("a")), {"content-type": "application/x-www-form-urlencoded"}),  # as curl -d sends it
        (gzip.compress(lines(order("a")), mtime=0), {"content-encoding": "gzip"}),
    ],
)
def test_an_object_an_array_or_lines(http: httpx.Client, river: River, body: bytes, headers: dict[str, str]) -> None:
    answer = http.post("/topics/orders", content=body, headers=headers)
    assert answer.status_code == 202
    assert answer.json() == {"position": str(river.topic("orders").latest), "rows": 1}
    assert users(river) == ["a"]


def test_several_rows_are_one_append(http: httpx.Client, river: River) -> None:
    http.post("/topics/orders", json=[order("a"), order("b")])
    http.post("/topics/orders", content=lines(order("c"), order("d")), headers=NDJSON)
    http.post("/topics/orders", content=lines(order("e"), order("f")), headers={"content-type": "application/json"})
    assert users(river) == list("abcdef")
    assert river.topic("orders").describe()["appends"] == 3


def test_no_rows_are_no_append(http: httpx.Client, river: River) -> None:
    assert http.post("/topics/orders", json=[]).json() == {"position": "orders@0:0,1:0", "rows": 0}
    assert http.post("/topics/orders", content=b"").status_code == 400
    assert river.topic("orders").describe()["appends"] == 0


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (lines(order(), {**order(), "amount": "x"}), "line 2, column 'amount'"),
        (lines(order(), {**order(), "amout": 1}), "line 2: there is no column 'amout'. Did you mean 'amount'?"),
        (lines(order()) + b"\n\n\n{", "line 4: ends in the middle"),
        (json.dumps([order(), order(), {"user": None, "at": AT}]).encode(), "element 3, column 'user': a value is"),
        (json.dumps([order(), 7]).encode(), "element 2: expected `object`"),
        (json.dumps({**order(), "at": "yesterday"}).encode(), "the object, column 'at'"),
        (b"[1, 2", "not a JSON array"),
        (b'{"user": "a", "amount": NaN, "at": "%b"}' % AT.encode(), "line 1: NaN is not JSON"),
        (b'{"user": "a", "user": "b", "at": "%b"}' % AT.encode(), "the name 'user' is given twice"),
        (b'[{"user": "a", "user": "b", "at": "%b"}]' % AT.encode(), "element 1: the name 'user' is given twice"),
        (b'\xef\xbb\xbf{"user": "a"}', "byte order mark"),
        (b'{"user": "\xff"}', "not UTF-8"),
        (b'{"user": "a\0"}', "has a NUL byte"),
        (b'{"user": "\\ud800", "at": "%b"}' % AT.encode(), ""),
        (b'{"user": "a", "amount": %b}' % (b"9" * 5000), "out of range"),
        (b'{"user": ' * 10_000, ""),
        (b"[" * 100_000, "nested too deeply"),
        (b"[" * 900 + b"]" * 900, "expected `object`"),
        (b'{"user": ' + b'{"a":' * 50_000 + b"1" + b"}" * 50_001, "nested too deeply"),
        (b'{"user": "a", "at": "2026-01-31T12:00:00"}', "is a time without a zone. Give it one"),
        (b'{"user": "a", "at": "2026-01-31 12:00"}', "'2026-01-31 12:00' is not a time. Write it as"),
        (b'{"user": "a", "at": 1769860800}', "1769860800 is a number, not a time"),
        (b"\0\0\0\0", ""),
        (b"null", "expected `object`"),
        (b"user=ada&amount=1", "line 1"),
    ],
)
def test_what_cannot_be_accepted_is_named(http: httpx.Client, river: River, body: bytes, said: str) -> None:
    answer = http.post("/topics/orders", content=body)
    assert answer.status_code == 400
    assert said in answer.json()["error"]
    assert users(river) == []


def test_unknown_topics_have_near_misses(http: httpx.Client) -> None:
    answer = http.post("/topics/ordres", json=order())
    assert (answer.status_code, answer.json()["hint"]) == (404, "Did you mean 'orders'?")
    for name in ("..%2Forders", "a%20b", "%00", "x" * 300):
        assert http.post(f"/topics/{name}", json=order()).status_code in (400, 404)


def test_documents_go_into_a_json_topic_as_they_are(http: httpx.Client, river: River) -> None:
    river.topic("raw", "json string", fsync="os")
    http.post("/topics/raw", content=b'{"a":  1}\n[2]', headers=NDJSON)
    http.post("/topics/raw", content=b'[{"b": 3}, "x"]')
    assert river.topic("raw").read().column("json").to_pylist() == ['{"a":  1}', "[2]", '{"b": 3}', '"x"']


def test_a_body_over_the_limit_is_refused_before_and_after_unpacking(http: httpx.Client, river: River) -> None:
    large = lines(*[order()] * 20_000)
    assert len(large) > 1 << 20
    for content, headers in (
        (large, {}),
        ((large[i : i + 65536] for i in range(0, len(large), 65536)), {}),  # of unknown length
        (gzip.compress(large, mtime=0), {"content-encoding": "gzip"}),
        (gzip.compress(b" " * 200_000_000, mtime=0), {"content-encoding": "gzip"}),
    ):
        answer = http.post("/topics/orders", content=content, headers=headers)
        assert answer.status_code == 413
        assert "1048576 bytes" in answer.json()["error"]
    assert users(river) == []
    assert http.post("/topics/orders", json=order()).status_code == 202


def test_a_row_over_its_own_limit_is_refused(serve: Any, river: River, tmp_path: Any) -> None:
    answer = httpx.post(serve().url + "/topics/orders", json=[order(), order("x" * 1_047_000)])
    assert answer.status_code == 202
    from riverrun.settings import Settings

    with River(tmp_path / "small", settings=Settings(max_record_bytes=100)) as small:
        small.topic("orders", "user string")
        answer = httpx.post(serve(river=small).url + "/topics/orders", json=[{"user": "a"}, {"user": "x" * 200}])
        assert answer.status_code == 413
        assert "element 2" in answer.json()["error"]


@pytest.mark.parametrize(
    ("content", "encoding", "status"),
    [(b"\x1f\x8b" + b"x" * 50, "gzip", 400), (gzip.compress(b"{}", mtime=0)[:-4], "gzip", 400), (b"{}", "br", 415)],
)
def test_bodies_that_cannot_be_unpacked(http: httpx.Client, content: bytes, encoding: str, status: int) -> None:
    answer = http.post("/topics/orders", content=content, headers={"content-encoding": encoding})
    assert answer.status_code == status
    assert answer.json()["error"]


def test_every_part_of_a_gzip_body_counts(http: httpx.Client, river: River) -> None:
    """Logs that are compressed as they grow are several members of gzip, one behind the other."""
    parts = [gzip.compress(lines(order(user)) + b"\n") for user in "abc"]
    answer = http.post("/topics/orders", content=b"".join(parts), headers={"content-encoding": "gzip", **NDJSON})
    assert (answer.status_code, answer.json()["rows"]) == (202, 3)
    assert users(river) == list("abc")


@pytest.mark.parametrize(
    "behind",
    [b"garbage", b"\0" * 8, b"\x1f", gzip.compress(b"{}")[:-1], gzip.compress(b"") * 2000],
    ids=["garbage", "zeros", "a byte", "a part cut off", "too many parts"],
)
def test_what_is_behind_the_end_of_a_gzip_body_is_refused(http: httpx.Client, river: River, behind: bytes) -> None:
    body = gzip.compress(lines(order("a")) + b"\n") + behind
    assert http.post("/topics/orders", content=body, headers={"content-encoding": "gzip"}).status_code == 400
    assert users(river) == []


def test_a_body_has_only_so_many_rows(serve: Any, tmp_path: Any) -> None:
    from riverrun.settings import Settings

    with River(tmp_path / "small", settings=Settings(http_rows=10)) as small:
        small.topic("orders", "user string, tags array<string>", fsync="os")
        url = serve(river=small).url + "/topics/orders"

        def post(body: bytes, **headers: str) -> tuple[int, Any]:
            answer = httpx.post(url, content=body, headers={"content-type": "application/x-ndjson", **headers})
            return answer.status_code, answer.json().get("rows")

        rows = [{"user": "a,b],[", "tags": ['\\"', "c", "d"]}] * 11
        assert post(lines(*rows[:10]) + b"\n") == (202, 10)
        assert post(lines(*rows[:10]) + b"\n" * 20) == (202, 10)
        assert post(lines(*rows)) == (413, None)
        assert post(b"\n" * 20 + lines(*rows[:1])) == (413, None)
        assert post(gzip.compress(lines(*rows)), **{"content-encoding": "gzip"}) == (413, None)
        array = {"content-type": "application/json"}
        assert post(json.dumps(rows[:10]).encode(), **array) == (202, 10)
        assert post(json.dumps(rows, indent=1).encode(), **array) == (413, None)
        assert post(b"[" + b"1," * 100 + b"1]", **array) == (413, None)


def test_producers_of_http_are_neither_flows_nor_anybody_else(serve: Any, tmp_path: Any) -> None:
    from riverrun.serve.tokens import line
    from riverrun.settings import Settings

    tokens = ";".join(line(name, ["write"], f"secret-of-{name}") for name in ("app", "eve"))
    with River(tmp_path / "shared", settings=Settings(tokens=tokens)) as shared:
        topic = shared.topic("orders", "user string", partitions=1, fsync="os")
        url = serve(river=shared).url + "/topics/orders"

        def post(token: str, key: str, user: str) -> int:
            headers = {"authorization": f"Bearer secret-of-{token}", "idempotency-key": key}
            return httpx.post(url, json={"user": user}, headers=headers).status_code

        assert post("eve", "shop:999999999999999999", "forged") == 202
        assert post("eve", "app-1:999999999999999999", "forged") == 202
        assert post("app", "app-1:2", "right") == post("app", "app-1:2", "right") == 202
        topic.append({"user": "from a flow"}, producer="shop", sequence=1)
        assert topic.read().column("user").to_pylist() == ["forged", "forged", "right", "from a flow"]


def test_only_an_admin_appends_to_what_a_flow_writes(serve: Any, tmp_path: Any) -> None:
    from riverrun.serve.tokens import line
    from riverrun.settings import Settings

    tokens = ";".join(line(role, [role], f"secret-of-{role}") for role in ("write", "admin"))
    with River(tmp_path / "shared", settings=Settings(tokens=tokens)) as shared:
        for name in ("orders", "shop.alerts.fraud"):
            shared.topic(name, "user string", fsync="os")
        shared.topic("orders").append({"user": "ada"}, producer="shop", sequence=1)
        shared.topic("shop.alerts.fraud").raise_fence("shop", shared.store.take_fence("shop"))
        url = serve(river=shared).url

        def post(topic: str, role: str) -> httpx.Response:
            headers = {"authorization": f"Bearer secret-of-{role}"}
            return httpx.post(f"{url}/topics/{topic}", json={"user": "eve"}, headers=headers)

        assert post("orders", "write").status_code == 202
        refused = post("shop.alerts.fraud", "write")
        assert refused.status_code == 409
        assert refused.json()["error"] == "topic shop.alerts.fraud is written by flow shop"
        assert post("shop.alerts.fraud", "admin").status_code == 202
        letters = "user string, dead_reason string, dead_attempts int, dead_position string, dead_at timestamp"
        shared.topic("orders.dead.mails", letters, fsync="os")
        assert (post("orders.dead.mails", "write").status_code, post("orders.dead.mails", "admin").status_code) == (
            409,
            202,
        )


@pytest.mark.parametrize("at", ["0001-01-01T00:00:00+23:59", "9999-12-31T23:59:59-23:59"])
def test_a_time_that_a_datetime_cannot_say_is_named(http: httpx.Client, river: River, at: str) -> None:
    for body in (lines(order("a"), order("b", at=at)), json.dumps([order("a"), order("b", at=at)]).encode()):
        answer = http.post("/topics/orders", content=body)
        assert answer.status_code == 400
        assert "'at': a time outside the years 1 to 9999" in answer.json()["error"]
    assert users(river) == []


def test_a_repeat_has_no_effect_and_gives_the_first_position(http: httpx.Client, river: River) -> None:
    first = http.post("/topics/orders", json=order("a"), headers={"idempotency-key": "app:1"}).json()
    second = http.post("/topics/orders?producer=app&sequence=2", json=order("b")).json()
    assert first["position"] != second["position"]
    assert http.post("/topics/orders?producer=app&sequence=1", json=order("a")).json() == first
    assert http.post("/topics/orders", json=order("b"), headers={"idempotency-key": '"app:2"'}).json() == second
    assert users(river) == ["a", "b"]


def test_keys_that_are_none() -> None:
    assert idempotency_key(None, None, None) is None
    assert idempotency_key("a:b:17", None, None) == Key("a:b", 17) == idempotency_key(None, "a:b", "17")
    for header, producer, sequence in (
        ("app", None, None),
        (":1", None, None),
        ("app:", None, None),
        ("app:x", None, None),
        ("app:-1", None, None),
        ("app:" + "9" * 5000, None, None),
        ("app:1", "app", None),
        (None, "app", None),
        (None, None, "1"),
        (None, "x" * 201, "1"),
        (None, "app", "١"),
    ):
        with pytest.raises(Invalid):
            idempotency_key(header, producer, sequence)


def test_a_full_disk_is_told_with_a_time_to_come_back(
    http: httpx.Client, river: River, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise DiskFull("there is no room for topic orders")

    monkeypatch.setattr(EmbeddedBackend, "append", full)
    answer = http.post("/topics/orders", json=order())
    assert answer.status_code == 503
    assert int(answer.headers["retry-after"]) >= 1
    assert "no room" in answer.json()["error"]
    monkeypatch.undo()
    assert http.post("/topics/orders", json=order()).status_code == 202


def test_too_much_at_once_is_refused_and_what_fits_goes_on(
    serve: Any, river: River, monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    from riverrun.settings import Settings

    go = threading.Event()
    append = EmbeddedBackend.append

    def slow(self: EmbeddedBackend, *arguments: Any) -> Any:
        go.wait(10)
        return append(self, *arguments)

    monkeypatch.setattr(EmbeddedBackend, "append", slow)
    with River(tmp_path / "small", settings=Settings(http_memory=300_000, http_body_bytes=200_000)) as small:
        small.topic("orders", "user string", fsync="os")
        url = serve(river=small).url + "/topics/orders"
        with ThreadPoolExecutor(8) as pool:
            sent = [pool.submit(httpx.post, url, json={"user": "x" * 100_000}, timeout=20) for _ in range(6)]
            statuses = [next(done.result() for done in sent if done.done()) for _ in wait_for(sent, 1)]
            assert {answer.status_code for answer in statuses} == {429}
            assert statuses[0].headers["retry-after"]
            go.set()
            codes = sorted(answer.result().status_code for answer in sent)
        assert set(codes) == {202, 429}
        assert len(users(small)) == codes.count(202)
        assert httpx.post(url, json={"user": "again"}).status_code == 202


def wait_for(futures: list[Any], count: int) -> list[Any]:
    from concurrent.futures import FIRST_COMPLETED, wait

    done: set[Any] = set()
    while len(done) < count:
        done = wait(futures, timeout=10, return_when=FIRST_COMPLETED).done
    return list(done)[:count]


def test_columns_added_by_another_process_are_known(http: httpx.Client, river: River) -> None:
    http.post("/topics/orders", json=order())
    with River(river.path) as other:
        other.topic("orders", "user string, amount double, at timestamp, note string")
    assert http.post("/topics/orders", json={**order("b"), "note": "new"}).status_code == 202
    assert http.post("/topics/orders", json={**order("b"), "nope": "new"}).status_code == 400
    assert river.topic("orders").read().column("note").to_pylist().count("new") == 1


def test_a_topic_that_was_dropped_and_made_again(http: httpx.Client, river: River) -> None:
    http.post("/topics/orders", json=order("a"))
    with River(river.path) as other:
        other.drop_topic("orders")
        assert http.post("/topics/orders", json=order("b")).status_code == 404
        other.topic("orders", "user string")
    assert http.post("/topics/orders", json={"user": "c"}).status_code == 202
    assert users(river) == ["c"]


def test_many_at_once_are_all_written(http: httpx.Client, river: River) -> None:
    with ThreadPoolExecutor(16) as pool:
        sent = [pool.submit(http.post, "/topics/orders", json=[order(f"u{i}")] * 10) for i in range(100)]
        assert {answer.result().status_code for answer in sent} == {202}
    assert river.topic("orders").read().num_rows == 1000
