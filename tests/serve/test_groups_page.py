"""Groups and queues on their pages: who works, what waits, what was given up, and moving them."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator

import httpx
import pytest

from riverrun.log.process import identity
from riverrun.log.queue import Queue
from riverrun.river import River
from riverrun.serve.server import Background
from riverrun.serve.tokens import line
from riverrun.settings import Settings
from serve.conftest import order
from serve.test_pages import look


@pytest.fixture
def mails(river: River) -> Iterator[Queue]:
    """Three messages: one is given up, one is in flight, one waits."""
    river.topic("orders").append([order("ada", number) for number in range(3)])
    with river.topic("orders").queue("mails", attempts=1) as queue:
        first = queue.receive(5)
        assert first is not None
        first.nack("no such address")
        assert queue.receive(5) is not None
        yield queue


def test_members_and_who_has_which_partition(http: httpx.Client, river: River) -> None:
    river.topic("orders").append([order(user, 1) for user in ("ada", "bob", "eve", "joe")])
    with river.topic("orders").consumer("billing") as consumer:
        assert consumer.poll(5) is not None
        page = look(http, "/ui/groups/billing")
        assert "1 member" in page.text and "orders 0, 1" in page.text
        assert "Not yet read 4 rows" in page.text
        consumer.commit()
    page = look(http, "/ui/groups/billing")
    assert "Nobody reads for this group now" in page.text
    assert "billing consumer orders" in look(http, "/ui/groups").text


def test_what_a_queue_has_in_flight_and_has_given_up(http: httpx.Client, mails: Queue) -> None:
    assert "mails queue orders 1 1 1" in look(http, "/ui/groups").text
    page = look(http, "/ui/groups/mails")
    assert "In flight 1 message 0 about to come again" in page.text
    assert "First lease ends in" in page.text
    assert "no such address" in page.text and "orders.dead.mails" in page.text


def test_no_groups_and_a_group_that_is_not_there(http: httpx.Client) -> None:
    page = look(http, "/ui/groups")
    assert "No group and no queue has read a topic yet" in page.text
    assert http.get("/ui/groups/nobody").status_code == 404


def test_a_group_is_moved_by_a_form(http: httpx.Client, river: River) -> None:
    river.topic("orders").append([order("ada", number) for number in range(4)])
    for batch in (consumer := river.topic("orders").consumer("billing", timeout=0.2)):
        assert batch.num_rows
        consumer.commit()
    consumer.close()
    assert river.lag("billing")["rows"] == 0
    [form] = [one for one in look(http, "/ui/groups/billing").of("form") if one.get("method") == "post"]
    moved = http.post(str(form["action"]), data={"topic": "orders", "to": "earliest"})
    assert moved.status_code == 303
    assert river.lag("billing")["rows"] == 4
    assert "The group was moved" in look(http, moved.headers["location"]).text
    http.post(str(form["action"]), data={"topic": "orders", "to": "time", "time": "2026-01-31T12:00:01"})
    assert river.lag("billing")["rows"] == 0


@pytest.mark.parametrize(
    ("action", "form", "said"),
    [
        ("reset", {"topic": "nothing", "to": "earliest"}, "does not read topic"),
        ("reset", {"topic": "orders"}, "not said where"),
        ("reset", {"topic": "orders", "to": "time", "time": "soon"}, "the time is missing"),
        ("reset", {"topic": "orders", "to": "earliest"}, "in use by process"),
        ("burn", {}, "nothing called"),
        ("reset", {"topic": "x" * 70_000}, "larger than"),
    ],
)
def test_what_cannot_be_done_to_a_group_is_said(
    http: httpx.Client, river: River, action: str, form: dict[str, str], said: str
) -> None:
    with river.topic("orders").consumer("billing") as consumer:
        consumer.poll(0)
        answer = http.post(f"/ui/groups/billing?action={action}", data=form)
        assert 400 <= answer.status_code < 600 and answer.headers["content-type"].startswith("text/html")
        assert said in answer.text
        forced = http.post("/ui/groups/billing?action=reset", data={"topic": "orders", "to": "latest", "force": "yes"})
        assert forced.status_code == 303


def test_dead_letters_are_sent_again_by_a_button(http: httpx.Client, river: River, mails: Queue) -> None:
    """What was sent again does not wait any more."""
    forms = [one for one in look(http, "/ui/groups/mails").of("form") if "/dead/" in str(one.get("action"))]
    assert [one["method"] for one in forms] == ["post"]
    assert river.dead_letters.waiting("orders.dead.mails") == 1
    sent = http.post(str(forms[0]["action"]))
    assert (sent.status_code, sent.headers["location"]) == (303, "/ui/groups/mails")
    assert river.dead_letters.waiting("orders.dead.mails") == 0
    assert "no such address" not in look(http, "/ui/groups/mails").text
    assert http.post("/ui/dead/orders.dead.mails?back=//elsewhere.example").headers["location"] == "/"


def test_only_admins_move_groups(river: River, serve: Callable[..., Background]) -> None:
    for _ in river.topic("orders").consumer("billing", timeout=0.1):
        break
    lines = (line("me", ["read"], "looking"), line("boss", ["admin"], "doing"), line("shop", ["write"], "sending"))
    with River(river.path, settings=Settings(tokens=";".join(lines))) as guarded:
        url = f"{serve(river=guarded).url}/ui/groups/billing"
        looking = httpx.get(url, auth=("", "looking"))
        assert "role admin" in looking.text and 'method="post"' not in looking.text
        form = {"topic": "orders", "to": "earliest"}
        for secret, status in (("looking", 403), ("sending", 403), ("doing", 303)):
            assert httpx.post(f"{url}?action=reset", data=form, auth=("", secret)).status_code == status
        page = httpx.get(url, auth=("", "doing"))
        assert 'method="post"' in page.text
        # Under `no-referrer` a browser would send the origin null, which is refused.
        assert page.headers["referrer-policy"] == "same-origin"


def test_another_site_cannot_move_a_group(http: httpx.Client, river: River) -> None:
    for _ in river.topic("orders").consumer("billing", timeout=0.1):
        break
    foreign = {"origin": "http://elsewhere.example"}
    answer = http.post("/ui/groups/billing?action=reset", data={"topic": "orders", "to": "latest"}, headers=foreign)
    assert answer.status_code == 403


def test_a_worker_without_a_message_is_on_the_page(http: httpx.Client, river: River) -> None:
    with river.topic("orders").queue("idle") as queue:
        while message := queue.receive(0):
            message.ack()
        assert "idle queue orders 1" in look(http, "/ui/groups").text
        assert (
            f"Who is there, and who has messages now Process Topic Messages First lease ends in {os.getpid()} orders 0 –"
            in (look(http, "/ui/groups/idle").text)
        )


def test_workers_of_two_containers_have_rows_of_their_own(http: httpx.Client, river: River) -> None:
    with river.topic("orders").queue("twins") as queue:
        queue.tell()
        boot = identity().split("/")[0]
        with river._coordination.transaction() as db:
            for name in ("901", "902"):
                row = ("twins", "orders", name, f"{boot}/{name}/1/55", river._coordination.now())
                db.execute("insert into queue_workers values (?, ?, ?, ?, ?)", row)
        assert "twins queue orders 3" in look(http, "/ui/groups").text
        ids = re.findall(r'id="(worker-[^"]*)"', http.get("/ui/groups/twins").text)
        assert len(ids) == len(set(ids)) == 3
