"""Where the demo's alerts go."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest

from riverrun.demo.shop.inbox import TO, Inbox
from riverrun.settings import Settings


@pytest.fixture
def inbox() -> Iterator[Inbox]:
    opened = Inbox()
    yield opened
    opened.close()


def post(inbox: Inbox, message: str, **headers: str) -> int:
    url = inbox.environment[TO].replace("json:", "http:", 1)
    return httpx.post(url, json={"message": message}, headers=headers).status_code


def test_the_last_message_is_kept_and_each_is_counted_once(inbox: Inbox) -> None:
    assert [post(inbox, text, **{"idempotency-key": key}) for key, text in (("a", "1"), ("b", "2"), ("a", "1"))] == [
        204
    ] * 3
    assert (inbox.keys, inbox.last) == ({"a", "b"}, "1")


def test_what_is_no_message_is_refused(inbox: Inbox) -> None:
    assert post(inbox, "no key") == 400
    assert (inbox.keys, inbox.last) == (set(), None)


def test_a_process_may_send_here(inbox: Inbox) -> None:
    assert Settings.load(environ=inbox.environment | {TO: "x"}).alert_private_addresses
