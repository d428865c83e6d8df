"""data.py [RIVER]: an hour of payments by card, in the order a log would get them. Some cards are stolen."""

import random
import sys
from datetime import UTC, datetime, timedelta

import riverrun as rr
from flow import PAYMENTS

NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)


def events(seed: int = 1) -> list[tuple[str, dict]]:
    """(topic, row) by arrival: some seconds after the time it happened."""
    rng = random.Random(seed)
    made = []

    def happened(second: float, **row: object) -> None:
        at = NOON + timedelta(seconds=round(second, 3))
        made.append((second + rng.uniform(0, 8), {**row, "at": at}))

    for card in range(60):
        second, stolen = rng.uniform(0, 3600), card % 12 == 0
        for number in range(rng.randint(3, 8)):
            small = rng.random() < 0.3 or (stolen and number < 4)
            amount = rng.uniform(0.5, 4.9) if small else rng.uniform(6, 180)
            happened(second, card=f"card-{card}", amount=round(amount, 2))
            second += rng.uniform(5, 90)
        if stolen:
            happened(second, card=f"card-{card}", amount=round(rng.uniform(400, 900), 2))
    return [("payments", row) for _, row in sorted(made, key=lambda event: event[0])]


if __name__ == "__main__":
    with rr.River(*sys.argv[1:] or ["river"]) as river:
        rows = [row for _, row in events()]
        print(len(rows), "payments", river.topic(PAYMENTS).append(rows))
