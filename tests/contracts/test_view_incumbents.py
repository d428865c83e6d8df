"""Which run of a flow was heard last."""

from __future__ import annotations

import time

import pytest

from riverrun.errors import Busy
from riverrun.views import Store


def test_a_newer_run_takes_the_place_of_an_older_one_and_keeps_it(store: Store, again) -> None:
    assert store.incumbent("shop") is None
    first = store.take_fence("shop")
    store.hear("shop", first, "one")
    begun = again().incumbent("shop")
    assert begun is not None and (begun.fence, begun.process) == (first, "one") and begun.since <= begun.heard
    store.hear("shop", first, "one")
    heard = again().incumbent("shop")
    assert heard is not None and heard.since == begun.since and heard.heard >= begun.heard
    second = again().take_fence("shop")
    again().hear("shop", second, "two")
    store.hear("shop", first, "one")  # it does not know yet
    store.resign("shop", first)
    found = store.incumbent("shop")
    assert found is not None and (found.fence, found.process) == (second, "two") and found.since >= begun.heard
    store.hear("other", 1, "three")
    store.resign("shop", second)
    assert store.incumbent("shop") is None
    assert store.incumbent("other") is not None


def test_a_store_from_before_learns_it(store: Store, again) -> None:
    with store.database.writing("shop") as db:  # type: ignore[attr-defined]
        db.run('drop table "riverrun:runs"')
    later = again()
    later.resign("shop", 1)
    assert later.incumbent("shop") is None
    with later.database.reading() as db:
        assert not later.database.has_table(db, '"riverrun:runs"')  # to open it is no reason to write
    later.hear("shop", 1, "one")
    assert later.incumbent("shop") is not None


def test_a_run_that_tells_does_not_wait_for_long(store: Store, again) -> None:
    other = again()
    with other.database.writing("shop"):
        for tell in (lambda: store.hear("shop", 1, "one"), lambda: store.resign("shop", 1)):
            begun = time.monotonic()
            with pytest.raises(Busy):
                tell()
            assert time.monotonic() - begun < 5
    store.hear("shop", 1, "one")
    assert other.incumbent("shop") is not None
