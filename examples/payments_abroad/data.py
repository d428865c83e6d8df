"""data.py [RIVER]: an hour of what people do in a shop, and from where."""

import random
import sys
from datetime import UTC, datetime, timedelta

import riverrun as rr
from flow import ACTIONS

NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)


def events(seed: int = 1) -> list[tuple[str, dict]]:
    """(topic, row) by arrival: some seconds after the time it happened."""
    rng = random.Random(seed)
    made = []

    def happened(second: float, **row: object) -> None:
        at = NOON + timedelta(seconds=round(second, 3))
        made.append((second + rng.uniform(0, 8), {**row, "at": at}))

    for user in range(40):
        country, second = rng.choice(["NO", "DE", "PT"]), rng.uniform(0, 1800)
        for _ in range(rng.randint(4, 12)):
            if rng.random() < 0.15:
                country = rng.choice(["NO", "DE", "PT", "BR"])
            kind = rng.choice(["login", "look", "payment"])
            amount = round(rng.choice([20, 80, 700]) * rng.uniform(0.8, 1.2), 2) if kind == "payment" else None
            happened(second, user=f"u{user}", kind=kind, country=country, amount=amount)
            second += rng.uniform(10, 240)
    return [("actions", row) for _, row in sorted(made, key=lambda event: event[0])]


if __name__ == "__main__":
    with rr.River(*sys.argv[1:] or ["river"]) as river:
        rows = [row for _, row in events()]
        print(len(rows), "actions", river.topic(ACTIONS).append(rows))
