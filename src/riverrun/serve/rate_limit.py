"""How often a client may ask: a bucket of turns for each, which fills at a steady rate."""

from __future__ import annotations

from riverrun.serve.problems import Refused

_BURST = 2.0  # seconds of the rate that may come at once


class RateLimit:
    """Used from the event loop only. `rate` is in requests per second; 0: as many as they like."""

    def __init__(self, rate: int) -> None:
        self._rate = rate
        self._buckets: dict[str, tuple[float, float]] = {}  # turns left, and when that was so

    def take(self, account: str, now: float) -> None:
        """One turn; `Refused` when there is none left."""
        if not self._rate:
            return
        most = self._rate * _BURST
        left, at = self._buckets.get(account, (most, now))
        left = min(most, left + (now - at) * self._rate)
        if left < 1:
            raise Refused(
                429,
                f"this client has sent more than {self._rate} requests per second",
                hint="Send more rows in each, or see the setting http_rate",
            )
        self._buckets[account] = (left - 1, now)
