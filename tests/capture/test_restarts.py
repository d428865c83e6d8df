"""Servers that stop and come back, and connections that are cut, while a capture runs."""

from __future__ import annotations

import pytest

from captured_ledger import CapturedLedger
from waiting import until


@pytest.mark.parametrize("dialect", ["postgresql", "mariadb"])
def test_a_server_that_restarts_and_a_connection_that_is_cut(own_shop, dialect):
    shop = own_shop(dialect)
    loaded = CapturedLedger(shop)
    with shop.capture("accounts", "ledger", "tags") as capture:
        capture.wait_until_it_runs()
        loaded.write()
        until(shop.readers)
        shop.cut()
        loaded.write()
        until(lambda: capture.status()["state"] == "streaming" and capture.status()["lag_bytes"] == 0)
        for stop in (shop.server.stop, shop.server.crash):
            shop.disconnect()
            stop()
            until(lambda: capture.status()["state"] == "waiting")
            assert "Is the server there?" in capture.status()["reason"]
            shop.server.start()
            loaded.write()
            until(lambda: capture.status()["state"] == "streaming")
        assert len(loaded.source("ledger")) == 2 * loaded.steps, "the server has lost what it had acknowledged"
        until(lambda: len(shop.replica(loaded.topic("ledger"))) == 2 * loaded.steps)
    loaded.complete()
    loaded.check()
