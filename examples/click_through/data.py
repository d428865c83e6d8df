"""data.py [RIVER]: a day of searches, their results, and the clicks on them, in the order a log would get them."""

import random
import sys
from datetime import UTC, datetime, timedelta

import riverrun as rr
from flow import CLICKS, RESULTS, SEARCHES

DAY = datetime(2026, 1, 31, tzinfo=UTC)
URLS = ["/tea", "/rye", "/maps", "/weather", "/tides", "/trains"]


def events(searches: int = 600, seed: int = 1) -> list[tuple[str, dict]]:
    """(topic, row) by arrival: up to five minutes after the time it happened."""
    rng = random.Random(seed)
    made = []

    def happened(topic: str, at: datetime, **row: str) -> None:
        made.append((at + timedelta(seconds=rng.uniform(0, 300)), topic, {**row, "at": at}))

    for number in range(searches):
        search, at = f"s{number}", DAY + timedelta(seconds=rng.randrange(86_400))
        happened("searches", at, search=search, query=rng.choice(["tea", "train to oslo", "high tide"]))
        for place, url in enumerate(rng.sample(URLS, 3)):
            happened("results", at, search=search, url=url)
            if rng.random() < (0.4, 0.2, 0.1)[place]:
                click = at + timedelta(seconds=rng.choice([5, 40, 900, 3600, 5400]))  # the last one is too late
                for _ in range(rng.choice([1, 1, 1, 2])):
                    happened("clicks", click, search=search, url=url)
    return [(topic, row) for _, topic, row in sorted(made, key=lambda event: event[0])]


if __name__ == "__main__":
    with rr.River(*sys.argv[1:] or ["river"]) as river:
        arrived = events()
        for spec in (SEARCHES, RESULTS, CLICKS):
            rows = [row for topic, row in arrived if topic == spec.name]
            print(len(rows), spec.name, river.topic(spec).append(rows))
