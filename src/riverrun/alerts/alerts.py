"""The alerts of a running flow: one thread that reads their topics and sends.

    alerts = Alerts(river, flow)    # refuses addresses that can never be reached
    alerts.start()
    alerts.status()
    alerts.stop()

At least once: a message whose sender dies before it could note the success is sent again, with the same key. What is
not sent when it stops is sent by the next run.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable

from riverrun.alerts import courier
from riverrun.alerts.address import Address, redact
from riverrun.alerts.alert import Alert, Deliver
from riverrun.alerts.message import AlertMessage
from riverrun.alerts.stretch import Offsets
from riverrun.alerts.watch import MESSAGE, Watch, Watched
from riverrun.durations import wall_clock
from riverrun.errors import Closed, RiverrunError
from riverrun.flow import Flow
from riverrun.log.consumer import Consumer
from riverrun.position import Position
from riverrun.river import River
from riverrun.runtime.outputs import alert_topic
from riverrun.runtime.status import AlertStatus

log = logging.getLogger("riverrun.alerts")

_LONGEST_WAIT = 500_000  # between two looks whether it is to stop
_PAUSE = 5.0  # seconds after an error of the river itself
_LAST_PAUSE = 0.5  # the same, once it is to stop
_AT_ONCE = 64  # batches taken in before messages are sent


class Alerts:
    """Everything a run has to tell people. Without alerts and without the setting `alert_to` it does nothing; neither
    does a replay, whose rows have been told before, and a run that tests a flow (`send`)."""

    def __init__(
        self,
        river: River,
        flow: Flow,
        suffix: str = "",
        send: bool = True,
        deliver: Deliver | None = None,
        now: Callable[[], int] = wall_clock,
    ) -> None:
        self._river = river
        self._flow = flow.name
        self._deliver = deliver or self._send
        self._now = now
        self._watch: Watch | None = None
        self._alerts: dict[str, Alert] = {}
        self._until: float | None = None  # when to give up, once it is to stop
        self._thread: threading.Thread | None = None
        if suffix or not send:
            return
        attempts = river.settings.alert_attempts
        for end in flow.alerts.values():
            to = tuple(map(Address, end.to))
            topic = alert_topic(flow.name, end.name)
            self._alerts[topic] = Alert(flow.name, end.name, to, end.message, end.every, attempts)
        if river.settings.alert_to:
            self._watch = Watch(river, flow.name)
            to = tuple(map(Address, river.settings.alert_to))
            self._alerts[self._watch.topic] = Alert(flow.name, "operator", to, MESSAGE, 0, attempts)
        addresses = list({address: None for alert in self._alerts.values() for address in alert.to})
        courier.check_addresses(addresses, river.settings.alert_private_addresses)

    @property
    def group(self) -> str:
        """The consumer group that knows how far everything is."""
        return f"{self._flow}.alerts"

    def start(self, run: Watched | None = None) -> None:
        """Send in the background. With a run, what the settings say about it is watched. The topics exist already."""
        if self._alerts and self._thread is None:
            if self._watch is not None:
                self._watch.open(run)
            self._thread = threading.Thread(target=self._work, name=f"riverrun-{self.group}", daemon=True)
            self._thread.start()

    def stop(self, patience: float = 5.0) -> None:
        """Send what is there, without waiting for `every`, and end. After `patience` seconds the rest is left for the
        next run, with 0 all of it. A second stop does nothing."""
        if self._thread is not None and self._until is None:
            if self._watch is not None and patience:
                self._watch.due = 0  # a last look: it may stop because it has failed
            self._until = time.monotonic() + patience
            self._thread.join(patience + 1)

    def status(self) -> tuple[AlertStatus, ...]:
        """Of each alert, since the run began; dead letters that were not sent again, whichever run had them."""
        return tuple(alert.status() for alert in self._alerts.values())

    def _send(self, address: Address, message: AlertMessage) -> None:
        timeout = self._river.settings.alert_timeout / 1e6
        courier.deliver(address, message, timeout, self._river.settings.alert_private_addresses)

    def _work(self) -> None:
        while not self._is_over():
            try:
                with self._opened() as consumer:
                    if self._serve(consumer):
                        return
            except Closed:
                return
            except Exception as error:  # whatever it is, rows wait in their topics and nobody else would try again
                self._trouble(error)
                self._sleep(_PAUSE)

    def _serve(self, consumer: Consumer) -> bool:
        """Until it is to stop and nothing is left, or the time is up; False: when somebody left or joined the group, and
        everything has to be looked up again."""
        mine = consumer.assignment
        while not self._is_over():
            hurry = self._until is not None
            now = self._now()
            if self._watch is not None:
                self._watch.look(now)
            came = self._take_in(consumer, now, hurry)
            if consumer.assignment != mine:
                return False
            if hurry and not came and self._is_idle():
                return True
            for topic, alert in self._alerts.items():
                if alert.work(self._now(), self._deliver, hurry):
                    consumer.commit({topic: {p: alert.done[p] for p in mine.get(topic, [])}})
                    alert.commit()
                if not hurry:
                    alert.send_again(self._now(), self._deliver)
        return True

    def _take_in(self, consumer: Consumer, now: int, hurry: bool) -> bool:
        """Learn what has come, waiting for it until something is due; whether rows came."""
        wait = self._due(now, hurry) - now
        if hurry:
            wait = min(wait, 50_000)
        came = consumer.poll(max(wait, 0) / 1e6) is not None
        more = came
        for _ in range(_AT_ONCE):
            if not more:
                break
            more = consumer.poll(0) is not None
        for topic, offsets in consumer.position.items():
            self._alerts[topic].reached |= offsets
        return came

    def _due(self, now: int, hurry: bool) -> int:
        moments = [alert.due(now, hurry) for alert in self._alerts.values()]
        if self._watch is not None:
            moments.append(self._watch.due)
        return min([now + _LONGEST_WAIT, *(moment for moment in moments if moment is not None)])

    def _is_idle(self) -> bool:
        return all(alert.due(0, hurry=True) is None for alert in self._alerts.values())

    def _is_over(self) -> bool:
        return self._until is not None and time.monotonic() >= self._until

    def _opened(self) -> Consumer:
        """A member of the group, with every alert where its addresses were."""
        names = list(self._alerts)
        consumer = self._river.consumer(self.group, names)
        try:
            committed = self._committed()
            behind = self._behind_retention(committed)
            if behind:
                consumer.close()
                consumer = self._river.consumer(self.group, names, start=Position(behind))
            for topic, alert in self._alerts.items():
                alert.open(self._river, topic, committed[topic])
        except BaseException:
            consumer.close()
            raise
        return consumer

    def _committed(self) -> dict[str, Offsets]:
        found = self._river.lag(self.group)["topics"]
        return {
            topic: {p: part["committed"] or 0 for p, part in found[topic]["partitions"].items()}
            for topic in self._alerts
        }

    def _behind_retention(self, committed: dict[str, Offsets]) -> dict[str, Offsets]:
        """Where to begin in topics that no longer have the rows that come next."""
        begin = {}
        for topic, offsets in committed.items():
            earliest = self._river.topic(topic).begins()
            if any(offset < earliest[p] for p, offset in offsets.items()):
                begin[topic] = {p: max(offset, earliest[p]) for p, offset in offsets.items()}
        return begin

    def _trouble(self, error: Exception) -> None:
        expected = isinstance(error, RiverrunError | OSError)
        told = self._redact(str(error) if expected else f"{type(error).__name__}: {error}")
        log.warning("alerts of flow %s wait, trying again in %g s: %s", self._flow, _PAUSE, told)
        for alert in self._alerts.values():
            alert.trouble(told)

    def _redact(self, text: str) -> str:
        return redact(text, tuple(address for alert in self._alerts.values() for address in alert.to))

    def _sleep(self, pause: float) -> None:
        """A pause, which the word to stop ends; what fails after that is tried a few times more."""
        stopping = self._until is not None
        end = time.monotonic() + (_LAST_PAUSE if stopping else pause)
        while time.monotonic() < end and not self._is_over() and (stopping or self._until is None):
            time.sleep(0.05)
