"""data.py [RIVER]: an hour of prices that go up and down."""

import random
import sys
from datetime import UTC, datetime, timedelta

import riverrun as rr
from flow import TICKS

NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)


def events(seed: int = 1) -> list[tuple[str, dict]]:
    """(topic, row) by arrival: some seconds after the time it happened."""
    rng = random.Random(seed)
    made = []

    def happened(second: float, **row: object) -> None:
        at = NOON + timedelta(seconds=round(second, 3))
        made.append((second + rng.uniform(0, 8), {**row, "at": at}))

    for symbol in ("OSL", "TRD", "BGO"):
        price = 100.0
        for second in range(0, 3600, 20):
            price += rng.choice([-1.5, -1.0, -0.5, 0.5, 1.0, 1.5])
            happened(second, symbol=symbol, price=price)
    return [("ticks", row) for _, row in sorted(made, key=lambda event: event[0])]


if __name__ == "__main__":
    with rr.River(*sys.argv[1:] or ["river"]) as river:
        rows = [row for _, row in events()]
        print(len(rows), "ticks", river.topic(TICKS).append(rows))
