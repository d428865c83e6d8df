"""A secret is planted in every place of an address, everything goes wrong, and nothing tells it."""

from __future__ import annotations

import logging
import time
from pathlib import Path
from typing import Any

import pytest

from alert_receiver import Receiver, fired, fraud
from riverrun import River
from riverrun.alerts.alerts import Alerts
from riverrun.errors import Invalid, RiverrunError
from riverrun.flow import Flow
from riverrun.settings import Settings

SECRET = "hunter2-s3cr3t"
SETTINGS = {"alert_attempts": 1, "alert_timeout": "1 s", "alert_private_addresses": True}


@pytest.mark.parametrize("settings", [SETTINGS])
def test_nothing_tells(
    river: River, receiver: Receiver, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level(logging.DEBUG)
    host = f"127.0.0.1:{receiver.port}"
    receiver.answers = [401, (302, {"Location": f"http://x/{SECRET}"}), 500, 500]
    flow = fraud(
        f"json://ada:{SECRET}@{host}/",
        f"json://{host}/{SECRET}",
        f"json://{host}/?+X-Token={SECRET}",
        f"json://name.invalid/{SECRET}?-t={SECRET}",
        f"gotify://{host}/{SECRET}",
    )
    fired(river).append({"user": "ada"})
    alerts = Alerts(river, flow)
    alerts.start()
    end = time.monotonic() + 30
    while alerts.status()[0].dead < 5 and time.monotonic() < end:
        time.sleep(0.05)
    alerts.stop()
    status = alerts.status()[0]
    assert status.dead == 5
    told = [str(status), caplog.text, *capfd.readouterr(), repr(river.settings), repr(alerts), str(flow.alerts)]
    assert [text for text in told if SECRET in text] == []
    files = [path for path in Path(river.path).rglob("*") if path.is_file()]
    assert len(files) > 10
    assert [path for path in files if SECRET.encode() in path.read_bytes()] == []


@pytest.mark.parametrize("to", [SECRET, f"mailto:ada:{SECRET}@host", [f"json://{SECRET}", SECRET]])
def test_neither_do_refusals(to: Any) -> None:
    flow = Flow("shop")
    with pytest.raises(Invalid) as caught:
        flow.alert("fraud", flow.stream("orders", "user string"), to=to)
    assert SECRET not in str(caught.value)
    with pytest.raises(Invalid) as caught:
        Settings.load(environ={}, alert_to=[*to, 1] if isinstance(to, list) else to)
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize(
    "url",
    [f"nosuch://{SECRET}", f"json://host/{SECRET}?verify=no", f"json://{SECRET}:{SECRET}", f"json://h?+X={SECRET}%0d"],
)
def test_nor_does_the_start_of_a_run(river: River, url: str) -> None:
    with pytest.raises(RiverrunError) as caught:
        Alerts(river, fraud(url))
    assert SECRET not in str(caught.value)


def test_settings_keep_what_operators_are_reached_by() -> None:
    settings = Settings.load(environ={"RIVERRUN_ALERT_TO": f"tgram://{SECRET}/1, mailto://ada:{SECRET}@host"})
    assert settings.alert_to == (f"tgram://{SECRET}/1", f"mailto://ada:{SECRET}@host")
    assert SECRET not in repr(settings)
