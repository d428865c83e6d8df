"""data.py [RIVER]: an hour of machines that report their temperature. One falls silent for a while, one runs hot."""

import random
import sys
from datetime import UTC, datetime, timedelta

import riverrun as rr
from flow import BEATS

NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)


def events(seed: int = 1) -> list[tuple[str, dict]]:
    """(topic, row) by arrival: some seconds after the time it happened."""
    rng = random.Random(seed)
    made = []

    def happened(second: float, **row: object) -> None:
        at = NOON + timedelta(seconds=round(second, 3))
        made.append((second + rng.uniform(0, 8), {**row, "at": at}))

    for machine in range(8):
        celsius, second = 70.0, rng.uniform(0, 10)
        while second < 3600:
            celsius += rng.uniform(-6, 6) + (78 - celsius) * 0.1
            happened(second, machine=f"m{machine}", celsius=round(celsius + (6 if machine == 5 else 0), 1))
            second += 75 if machine == 3 and 1200 < second < 1210 else 10
    return [("beats", row) for _, row in sorted(made, key=lambda event: event[0])]


if __name__ == "__main__":
    with rr.River(*sys.argv[1:] or ["river"]) as river:
        rows = [row for _, row in events()]
        print(len(rows), "beats", river.topic(BEATS).append(rows))
