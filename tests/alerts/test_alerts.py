"""From a row that fired to a message: at once, once per `every`, again after a crash, aside when nobody takes it."""

from __future__ import annotations

import threading
import time
from typing import Any

import pyarrow as pa
import pytest

from alert_receiver import SCHEMA, Receiver, fired, fraud
from riverrun import River
from riverrun.alerts import alert
from riverrun.alerts import alerts as service
from riverrun.alerts.address import Address
from riverrun.alerts.alerts import Alerts
from riverrun.alerts.message import AlertMessage
from riverrun.alerts.stretch import Stretch, StretchRows, read_stretch
from riverrun.durations import FIRST
from riverrun.log.topic import Topic
from riverrun.runtime.status import AlertStatus
from waiting import until


def row(user: str) -> dict[str, Any]:
    return {"user": user, "amount": 9.5}


def test_a_row_becomes_a_message(river: River, receiver: Receiver) -> None:
    topic = fired(river)
    alerts = Alerts(river, fraud(receiver.url, message="{user} paid {amount}"))
    alerts.start()
    topic.append(row("ada"))
    receiver.wait(1)
    alerts.stop()
    (body,) = receiver.bodies()
    assert body == {
        "title": "shop: fraud",
        "message": "ada paid 9.5",
        "type": "warning",
        "flow": "shop",
        "alert": "fraud",
        "key": "shop.alerts.fraud@0:0-0",
        "count": 1,
        "rows": [{"user": "ada", "amount": 9.5, "at": None}],
    }
    assert receiver.keys() == [body["key"]]
    (status,) = alerts.status()
    assert status.last_sent is not None
    assert status == AlertStatus("fraud", sent=1, rows=1, last_sent=status.last_sent)
    assert river.lag("shop.alerts")["rows"] == 0


def test_rows_within_every_are_one_message_and_stopping_does_not_wait(river: River, receiver: Receiver) -> None:
    topic = fired(river)
    alerts = Alerts(river, fraud(receiver.url, message="{user}", every="1 hour"))
    alerts.start()
    topic.append(row("first"))
    receiver.wait(1)
    for i in range(12):
        topic.append(row(f"u{i}"))
    until(lambda: alerts.status()[0].waiting == 12)
    assert len(receiver.got) == 1
    alerts.stop()
    assert [body["count"] for body in receiver.bodies()] == [1, 12]
    assert receiver.bodies()[1]["message"] == "12 rows:\n- u0\n- u1\n- u2\n- u3\n- u4\nand 7 more"
    assert alerts.status()[0].waiting == 0


def test_the_next_run_goes_on(river: River, receiver: Receiver) -> None:
    topic = fired(river)
    flow = fraud(receiver.url, every=0)
    topic.append(row("ada"))
    for user in ("bob", "eve"):
        alerts = Alerts(river, flow)
        alerts.start()
        alerts.stop()
        topic.append(row(user))
    assert [body["rows"][0]["user"] for body in receiver.bodies()] == ["ada", "bob"]


@pytest.mark.parametrize("options", [{"suffix": "-replay"}, {"send": False}])
def test_a_replay_and_a_test_send_nothing(river: River, receiver: Receiver, options: dict[str, Any]) -> None:
    fired(river).append(row("ada"))
    alerts = Alerts(river, fraud(receiver.url), **options)
    alerts.start()
    alerts.stop()
    assert alerts.status() == ()
    assert receiver.got == []


def test_failures_are_tried_again_with_the_same_key(river: River, receiver: Receiver) -> None:
    topic = fired(river)
    receiver.answers = [500, 503]
    alerts = Alerts(river, fraud(receiver.url))
    alerts.start()
    topic.append(row("ada"))
    receiver.wait(3)
    until(lambda: alerts.status()[0].sent == 1)
    alerts.stop()
    assert len(set(receiver.keys())) == 1
    (status,) = alerts.status()
    assert (status.failed, status.dead) == (2, 0)
    assert status.last_error == "json://127.0.0.1: the answer was 503"


@pytest.mark.parametrize("settings", [{"alert_attempts": 1, "alert_timeout": "1 s", "alert_private_addresses": True}])
def test_what_nobody_takes_is_put_aside_and_others_get_theirs(river: River, receiver: Receiver) -> None:
    topic = fired(river)
    broken = Receiver()
    broken.answers = [500] * 10
    alerts = Alerts(river, fraud(broken.url, receiver.url, every=0))
    alerts.start()
    topic.append([row("ada"), row("bob")])
    until(lambda: alerts.status()[0].dead == 2)
    until(lambda: alerts.status()[0].rows == 2)
    alerts.stop()
    broken.close()
    assert len(receiver.got) == 1
    dead = river.topic("shop.alerts.fraud.dead").read().to_pylist()
    assert [(one["user"], one["dead_position"]) for one in dead] == [
        ("ada", "shop.alerts.fraud@0:0"),
        ("bob", "shop.alerts.fraud@0:1"),
    ]
    assert {one["dead_reason"] for one in dead} == {"json://127.0.0.1: the answer was 500"}
    assert {one["dead_attempts"] for one in dead} == {1}


def test_an_address_that_is_away_does_not_delay_others(river: River, receiver: Receiver) -> None:
    topic = fired(river)
    away = Receiver()
    away.answers = [500] * 100
    alerts = Alerts(river, fraud(away.url, receiver.url, every=0))
    alerts.start()
    for i in range(3):
        topic.append(row(f"u{i}"))
        receiver.wait(i + 1)
    alerts.stop(patience=0.1)
    assert alerts.status()[0].waiting == 3
    assert river.lag("shop.alerts")["rows"] == 3
    away.answers.clear()
    taken = len(away.got)
    again = Alerts(river, fraud(away.url, receiver.url, every=0))
    again.start()
    again.stop()
    assert sum(body["count"] for body in away.bodies()[taken:]) == 3
    assert away.keys()[taken] == away.keys()[0], "what was begun is what is sent again"
    assert len(receiver.got) == 3
    assert river.lag("shop.alerts")["rows"] == 0


def test_a_group_that_was_moved_back_is_sent_again(river: River, receiver: Receiver) -> None:
    topic = fired(river)
    topic.append(row("ada"))
    for _ in range(2):
        alerts = Alerts(river, fraud(receiver.url))
        alerts.start()
        alerts.stop()
        river.groups.reset("shop.alerts", topic.name, "earliest")
    assert len(receiver.got) == 2
    assert len(set(receiver.keys())) == 1


@pytest.mark.parametrize("settings", [{"segment_bytes": "2 kB", "alert_private_addresses": True}])
@pytest.mark.parametrize("begun", [True, False])
def test_rows_that_retention_removed_are_told_and_the_others_sent(
    river: River, receiver: Receiver, begun: bool
) -> None:
    topic = river.topic("shop.alerts.fraud", SCHEMA, partitions=1, retention=None, retention_bytes="1 kB")
    if begun:
        topic.append(row("first"))
        alerts = Alerts(river, fraud(receiver.url))
        alerts.start()
        alerts.stop()
    for i in range(60):
        topic.append(row(f"u{i}"))
    topic.enforce_retention()
    lost = topic.begins()[0] - begun
    assert 0 < lost < 60
    again = Alerts(river, fraud(receiver.url))
    again.start()
    again.stop()
    assert [body["count"] for body in receiver.bodies()] == [1] * begun + [60 - lost]
    assert (
        again.status()[0].last_error == f"json://127.0.0.1: retention removed rows ({lost}) before they could be sent"
    )
    assert again.status()[0].waiting == 0


def test_partitions_that_another_process_still_holds(river: River, receiver: Receiver) -> None:
    topic = river.topic("shop.alerts.fraud", SCHEMA, partitions=4)
    with river.consumer("shop.alerts", topic.name) as other:
        alerts = Alerts(river, fraud(receiver.url, every=0))
        alerts.start()
        until(lambda: other.poll(0.05) is None and len(other.assignment.get(topic.name, [])) < 4)
        for i in range(8):
            topic.append(row(f"u{i}"))
    until(lambda: sum(body["count"] for body in receiver.bodies()) >= 8)
    alerts.stop()
    assert sum(body["count"] for body in receiver.bodies()) == 8
    assert len(set(receiver.keys())) == len(receiver.keys())
    assert river.lag("shop.alerts")["rows"] == 0


def test_a_flood_is_one_message(river: River, receiver: Receiver) -> None:
    topic = river.topic("shop.alerts.fraud", SCHEMA)
    for _ in range(4):
        topic.append([row("x")] * 20_000)
    alerts = Alerts(river, fraud(receiver.url))
    alerts.start()
    alerts.stop()
    assert sum(body["count"] for body in receiver.bodies()) == 80_000
    assert all(len(body["rows"]) == 5 for body in receiver.bodies())


def test_something_unexpected_does_not_end_it(
    river: River, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service, "_PAUSE", 0.05)
    calls: list[Address] = []

    def deliver(address: Address, _: AlertMessage) -> None:
        calls.append(address)
        if len(calls) < 3:
            raise KeyError("s3cret-path")

    fired(river).append(row("ada"))
    alerts = Alerts(river, fraud("json://host/s3cret-path"), deliver=deliver)
    alerts.start()
    until(lambda: alerts.status()[0].sent == 1)
    alerts.stop()
    assert len(calls) == 3
    assert alerts.status()[0].last_error == "KeyError: '…'"


def test_a_time_that_a_datetime_cannot_say_is_told_as_the_first_there_is(river: River, receiver: Receiver) -> None:
    topic = fired(river)
    before = pa.array([FIRST - 1]).cast(pa.timestamp("us", "UTC"))
    poison = pa.RecordBatch.from_arrays([pa.array(["ada"]), pa.array([9.5]), before], schema=topic.schema)
    topic.backend.append(poison, None)
    alerts = Alerts(river, fraud(receiver.url))
    alerts.start()
    until(lambda: alerts.status()[0].sent == 1)
    alerts.stop()
    assert receiver.bodies()[0]["rows"][0]["at"] == "0001-01-01T00:00:00Z"


def test_rows_of_which_no_message_can_be_made_are_put_aside_and_hold_up_nobody(
    river: River, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    def read(topic: Topic, stretch: Stretch) -> StretchRows:
        found = read_stretch(topic, stretch)
        if any(one["user"] == "poison" for one in found.rows):
            raise OverflowError("date value out of range")
        return found

    monkeypatch.setattr(alert, "read_stretch", read)
    topic = fired(river)
    alerts = Alerts(river, fraud(receiver.url, every=0))
    topic.append(row("poison"))
    alerts.start()
    until(lambda: alerts.status()[0].dead == 1)
    topic.append(row("ada"))
    until(lambda: alerts.status()[0].sent == 1)
    alerts.stop()
    [dead] = river.topic("shop.alerts.fraud.dead").read().to_pylist()
    assert dead["user"] == "poison"
    assert dead["dead_reason"].endswith("no message can be made of the rows (OverflowError: date value out of range)")
    assert [one["user"] for body in receiver.bodies() for one in body["rows"]] == ["ada"]


def test_trouble_while_it_stops_is_tried_a_few_times_and_not_in_a_rush(
    river: River, monkeypatch: pytest.MonkeyPatch
) -> None:
    tries: list[float] = []
    began = threading.Event()

    def deliver(address: Address, _: AlertMessage) -> None:
        tries.append(time.monotonic())
        began.set()
        raise KeyError("away")

    fired(river).append(row("ada"))
    alerts = Alerts(river, fraud("json://host/path"), deliver=deliver)
    alerts.start()
    assert began.wait(10)
    alerts.stop(patience=1.2)
    assert 2 <= len(tries) <= 5


@pytest.mark.parametrize("settings", [{"alert_attempts": 1, "alert_timeout": "1 s", "alert_private_addresses": True}])
def test_dead_letters_are_counted_after_a_restart_and_sent_again_when_asked(river: River, receiver: Receiver) -> None:
    """To the address that did not take them, and to no other."""
    topic = fired(river)
    broken = Receiver()
    broken.answers = [500] * 10
    flow = fraud(broken.url, receiver.url, every=0)
    first = Alerts(river, flow)
    first.start()
    topic.append([row("ada"), row("bob")])
    until(lambda: first.status()[0].rows == 2)
    first.stop()
    taken = len(receiver.got), len(broken.got)
    again = Alerts(river, flow)
    again.start()
    until(lambda: again.status()[0].dead == 2)
    # It is still broken: they stay, and are not lost.
    assert river.dead_letters.send_again("shop.alerts.fraud.dead").rows == 2
    until(lambda: len(broken.got) == taken[1] + 1)
    until(lambda: river.dead_letters.topics()[0].asked == 0)
    assert again.status()[0].dead == 2
    broken.answers.clear()
    river.dead_letters.send_again("shop.alerts.fraud.dead")
    until(lambda: again.status()[0].dead == 0)
    again.stop()
    broken.close()
    assert len(receiver.got) == taken[0]
    message = broken.bodies()[-1]
    assert (message["count"], [one["user"] for one in message["rows"]]) == (2, ["ada", "bob"])
    assert message["key"] == "shop.alerts.fraud.dead@0:2-3"
    assert set(message["rows"][0]) == set(topic.schema.names)
