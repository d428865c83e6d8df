"""Server-sent events: topics and views followed, left and taken up again, by many, and by slow ones."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from riverrun.river import River
from riverrun.serve import live_feed
from riverrun.serve.server import Background
from serve.conftest import CommittedFlow, EventReader, order

Follow = Callable[..., EventReader]


def test_a_tail_begins_at_the_end(http: httpx.Client, stream: Follow) -> None:
    http.post("/topics/orders", json=order("before"))
    tail = stream("/topics/orders/tail")
    assert tail.response.headers["content-type"].startswith("text/event-stream")
    position = http.post("/topics/orders", json=order("after")).json()["position"]
    event = tail.next()
    assert event["data"]["user"] == "after"
    assert event["id"] == position
    assert "event" not in event


def test_a_tail_from_the_beginning_goes_over_into_what_arrives(http: httpx.Client, stream: Follow) -> None:
    http.post("/topics/orders", json=[order(f"u{i}") for i in range(3000)])
    tail = stream("/topics/orders/tail?from=earliest")
    tail.take(10)
    http.post("/topics/orders", json=[order(f"v{i}") for i in range(1000)])
    found = [event["data"]["user"] for event in tail.take(3990)]
    assert sorted(found[-1000:]) == sorted(f"v{i}" for i in range(1000))
    assert len(set(found)) == 3990


def test_every_id_is_a_place_to_resume_from(http: httpx.Client, stream: Follow) -> None:
    for i in range(5):
        http.post("/topics/orders", json=[order(f"u{i}-{j}") for j in range(4)])
    everything = stream("/topics/orders/tail?from=earliest").take(20)
    for i, event in enumerate(everything[:-1]):
        [after] = stream("/topics/orders/tail", last=event["id"]).take(1)
        assert after["data"] == everything[i + 1]["data"]
    from_there = stream(f"/topics/orders/tail?from={everything[9]['id']}").take(10)
    assert [event["data"] for event in from_there] == [event["data"] for event in everything[10:]]


def test_a_tail_goes_on_after_the_server_was_restarted(
    http: httpx.Client, serve: Callable[..., Background], stream: Follow
) -> None:
    first = serve()
    tail = stream("/topics/orders/tail", base=first.url)
    http.post("/topics/orders", json=order("a"))
    seen = tail.next()
    port = int(first.url.rpartition(":")[2])
    first.close()
    with pytest.raises(StopIteration):
        tail.next()
    http.post("/topics/orders", json=order("b"))
    again = stream("/topics/orders/tail", base=serve(port=port).url, last=seen["id"])
    http.post("/topics/orders", json=order("c"))
    assert [event["data"]["user"] for event in again.take(2)] == ["b", "c"]


def test_deleted_rows_are_told(http: httpx.Client, river: River, stream: Follow) -> None:
    tail = stream("/topics/orders/tail")
    river.topic("orders").delete("ada")
    data = tail.next()["data"]
    assert (data["_deleted"], data["user"]) == (True, "ada")


@pytest.mark.parametrize(
    ("path", "last", "status"),
    [
        ("/topics/orders/tail", "orders@0:5,1:5", 410),
        ("/topics/orders/tail", "users@0:5", 400),
        ("/topics/orders/tail", "nonsense", 400),
        ("/topics/orders/tail?from=soon", None, 400),
        ("/topics/nope/tail", None, 404),
        ("/views/nope/changes", None, 404),
        ("/views/totals/changes", "99", 410),
        ("/views/totals/changes", "x", 400),
        ("/views/totals/changes?since=" + "9" * 30, None, 400),
    ],
)
def test_places_that_cannot_be_followed(
    stream: Follow, totals: CommittedFlow, path: str, last: str | None, status: int
) -> None:
    response = stream(path, last=last).response
    assert response.status_code == status
    assert json.loads(response.read())["error"]


def test_an_event_cannot_forge_another(http: httpx.Client, stream: Follow) -> None:
    tail = stream("/topics/orders/tail")
    user = "x\n\nid: 1\ndata: {}\n\n\r\u2028"
    http.post("/topics/orders", json=[order(user), order("end")])
    assert {tail.next()["data"]["user"], tail.next()["data"]["user"]} == {user, "end"}


def test_changes_of_a_view(totals: CommittedFlow, stream: Follow) -> None:
    totals.commit(("ada", 1, 1.0, 1))
    changes = stream("/views/totals/changes")
    totals.commit(("ada", 1, 1.0, -1), ("ada", 2, 2.0, 1), ("bob", 1, 1.0, 1))
    totals.commit(("bob", 1, 1.0, -1))
    update, insert, delete = changes.take(3)
    assert update["data"] == {
        "op": "update",
        "before": {"user": "ada", "n": 1, "total": 1.0},
        "after": {"user": "ada", "n": 2, "total": 2.0},
        "cursor": update["id"],
    }
    assert (insert["data"]["op"], delete["data"]["op"]) == ("insert", "delete")
    assert delete["data"]["after"] is None


def test_every_cursor_is_a_place_to_resume_from(
    totals: CommittedFlow, http: httpx.Client, serve: Callable[..., Background], stream: Follow
) -> None:
    for i in range(4):
        totals.commit(*((f"u{i}-{j}", 1, 1.0, 1) for j in range(3)))
        totals.commit()  # changes nothing
    everything = stream("/views/totals/changes?since=oldest").take(12)
    other = serve().url
    for i, event in enumerate(everything[:-1]):
        assert stream("/views/totals/changes", last=event["id"], base=other).next() == everything[i + 1]
    end = stream("/views/totals/changes", last=everything[-1]["id"])
    totals.commit(("new", 1, 1.0, 1))
    assert end.next()["data"]["after"]["user"] == "new"


def test_reading_a_view_and_following_it_misses_nothing(
    totals: CommittedFlow, http: httpx.Client, stream: Follow
) -> None:
    totals.commit(("ada", 1, 1.0, 1))
    cursor = http.get("/views/totals").headers["riverrun-cursor"]
    totals.commit(("bob", 1, 1.0, 1))
    assert stream(f"/views/totals/changes?since={cursor}").next()["data"]["after"]["user"] == "bob"


def test_a_large_commit_reaches_everybody_whole(totals: CommittedFlow, stream: Follow) -> None:
    """More than fits into a follower's queue: the feed waits for those who keep up."""
    followers = [stream("/views/totals/changes") for _ in range(3)]
    found: list[list[str]] = [[] for _ in followers]

    def follow(i: int) -> None:
        found[i] = [event["data"]["after"]["user"] for event in followers[i].take(30_000)]

    threads = [threading.Thread(target=follow, args=(i,)) for i in range(3)]
    for thread in threads:
        thread.start()
    totals.commit(*((f"u{i:05}", 1, 1.0, 1) for i in range(30_000)))
    for thread in threads:
        thread.join(30)
    assert found == [[f"u{i:05}" for i in range(30_000)]] * 3


def test_a_slow_client_is_cut_off_and_can_resume(
    http: httpx.Client, stream: Follow, river: River, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live_feed, "_QUEUE", 100_000)
    monkeypatch.setattr(live_feed, "_PATIENCE", 0.2)
    host, port = http.base_url.host, http.base_url.port
    assert port
    slow = socket.create_connection((host, port))
    slow.sendall(f"GET /topics/orders/tail HTTP/1.1\r\nHost: {host}:{port}\r\n\r\n".encode())
    assert slow.recv(10)
    quick = stream("/topics/orders/tail")
    topic = river.topic("orders")
    sent = 0
    for _ in range(15):  # more than the system's own buffers take
        topic.append([{"user": "x" * 100_000, "at": f"2026-01-01T00:00:{sent % 60:02}Z"} for _ in range(8)])
        assert len(quick.take(8)) == 8  # the quick one gets everything
        sent += 8
    slow.settimeout(10)
    received = bytearray()
    while b"event: problem" not in received[-1000:]:
        part = slow.recv(1 << 20)
        assert part, "the stream ended without a word"
        received += part
    slow.close()
    assert b"events come faster than this client takes them" in received
    last = received.split(b"id: ")[-1].split(b"\n")[0].decode()
    got = received.count(b"id: ")
    assert got < sent
    assert len(stream("/topics/orders/tail", last=last).take(sent - got)) == sent - got


def test_two_hundred_clients(http: httpx.Client, river: River) -> None:
    """All of them get all rows, and one reader serves them: the topic is read once."""

    async def follow(client: httpx.AsyncClient, ready: asyncio.Semaphore) -> list[str]:
        found: list[str] = []
        async with client.stream("GET", "/topics/orders/tail") as response:
            assert response.status_code == 200
            async for line in response.aiter_lines():
                if line.startswith("retry"):
                    ready.release()
                elif line.startswith("data: "):
                    found.append(json.loads(line[6:])["user"])
                    if len(found) == 50:
                        return found
        return found

    async def everybody() -> list[list[str]]:
        ready = asyncio.Semaphore(0)
        limits = httpx.Limits(max_connections=None)
        async with httpx.AsyncClient(base_url=http.base_url, limits=limits, timeout=30) as client:
            tasks = [asyncio.create_task(follow(client, ready)) for _ in range(200)]
            for _ in tasks:
                await ready.acquire()
            for i in range(10):
                await client.post("/topics/orders", json=[order(f"u{i}-{j}") for j in range(5)])
            return await asyncio.gather(*tasks)

    begun = time.monotonic()
    found = asyncio.run(everybody())
    assert time.monotonic() - begun < 60
    assert len(found) == 200
    assert all(sorted(one) == sorted(f"u{i}-{j}" for i in range(10) for j in range(5)) for one in found)
    deadline = time.monotonic() + 10
    while "riverrun_http_streams 0.0" not in http.get("/metrics").text:
        assert time.monotonic() < deadline, "clients that left are still counted"
        time.sleep(0.05)


def test_more_clients_than_allowed(serve: Any, stream: Follow, tmp_path: Any) -> None:
    from riverrun.settings import Settings

    with River(tmp_path / "small", settings=Settings(http_clients=5)) as small:
        small.topic("orders", "user string")
        url = serve(river=small).url
        opened = [stream("/topics/orders/tail", base=url) for _ in range(3)]
        assert [one.response.status_code for one in opened] == [200, 200, 429]  # one client gets half of them
        pages = [stream("/", base=url, accept="text/event-stream") for _ in range(3)]
        assert [one.response.status_code for one in pages] == [200, 200, 429]


def test_streams_that_are_asked_for_at_the_same_time_are_counted_before_they_are_opened(
    serve: Any, tmp_path: Any
) -> None:
    from riverrun.settings import Settings

    async def everybody(url: str) -> list[int]:
        async with httpx.AsyncClient(limits=httpx.Limits(max_connections=None), timeout=20) as client:

            async def one() -> int:
                async with client.stream("GET", url + "/topics/orders/tail") as response:
                    statuses.append(response.status_code)
                    while len(statuses) < 40:
                        await asyncio.sleep(0.01)
                    return response.status_code

            statuses: list[int] = []
            return list(await asyncio.gather(*(one() for _ in range(40))))

    with River(tmp_path / "small", settings=Settings(http_clients=10)) as small:
        small.topic("orders", "user string")
        assert Counter(asyncio.run(everybody(serve(river=small).url))) == {200: 5, 429: 35}


def test_a_stream_that_cannot_be_opened_takes_no_room(serve: Any, stream: Follow, tmp_path: Any) -> None:
    from riverrun.settings import Settings

    with River(tmp_path / "small", settings=Settings(http_clients=2)) as small:
        small.topic("orders", "user string")
        url = serve(river=small).url
        for _ in range(3):
            assert httpx.get(f"{url}/topics/nothing/tail").status_code == 404
        assert stream("/topics/orders/tail", base=url).response.status_code == 200


def test_streams_end_promptly_with_the_server(
    totals: CommittedFlow, serve: Callable[..., Background], stream: Follow
) -> None:
    server = serve()
    opened = [stream("/topics/orders/tail", base=server.url) for _ in range(5)]
    opened += [stream("/views/totals/changes", base=server.url) for _ in range(5)]
    begun = time.monotonic()
    server.close()
    for one in opened:
        with pytest.raises(StopIteration):
            one.next()
    assert time.monotonic() - begun < 3


def test_a_quiet_stream_shows_signs_of_life(stream: Follow, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live_feed, "_QUIET", 0.1)
    assert next(line for line in stream("/topics/orders/tail").lines if line == ":")


def test_a_stream_whose_topic_is_dropped_says_so(stream: Follow, river: River) -> None:
    tail = stream("/topics/orders/tail")
    with River(river.path) as other:
        other.drop_topic("orders")
    event = tail.next()
    assert event["event"] == "problem"
    assert event["data"]["error"]
