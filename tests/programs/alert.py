"""alert.py RIVER URL: sends what has fired, and ends."""

from __future__ import annotations

import sys

from riverrun import Flow, River
from riverrun.alerts.alerts import Alerts
from riverrun.settings import Settings

flow = Flow("shop")
flow.alert("fraud", flow.stream("orders", "user string, amount double, at timestamp"), to=sys.argv[2])
with River(sys.argv[1], settings=Settings.load(alert_private_addresses=True, alert_attempts=1)) as river:
    alerts = Alerts(river, flow)
    alerts.start()
    alerts.stop(patience=20)
    print(alerts.status())
