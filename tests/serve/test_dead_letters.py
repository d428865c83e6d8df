"""`/dead-letters`: how many wait, and sending them again."""

from __future__ import annotations

import httpx

from riverrun.river import River


def test_dead_letters_are_counted_and_sent_again(http: httpx.Client, river: River) -> None:
    topic = river.topic("mails", "to string", partitions=1, fsync="os")
    topic.append([{"to": "ada"}, {"to": "bob"}])
    with topic.queue("send", attempts=1) as queue:
        while message := queue.receive(timeout=0):
            message.nack("away")
        assert http.get("/dead-letters").json() == [
            {
                "topic": "mails.dead.send",
                "kind": "queue",
                "source": "mails",
                "group": "send",
                "rows": 2,
                "waiting": 2,
                "asked": 0,
            }
        ]
        assert 'riverrun_dead_letters{topic="mails.dead.send"} 2.0' in http.get("/metrics").text
        answer = http.post("/dead-letters/mails.dead.send")
        assert (answer.status_code, answer.json()) == (202, {"topic": "mails.dead.send", "rows": 2, "gone": 0})
        assert http.get("/dead-letters").json()[0]["waiting"] == 0
        assert queue.receive(timeout=0) is not None
    missing = http.post("/dead-letters/mails")
    assert missing.status_code == 404
    assert "mails.dead.send" in missing.json()["hint"]
