"""data.py [RIVER] [--later]: profiles and page views; with --later some profiles change, and the views after that."""

import random
import sys
from datetime import UTC, datetime, timedelta

import riverrun as rr
from flow import PROFILES, VIEWS

START = datetime(2026, 1, 31, 12, tzinfo=UTC)
USERS = [f"user{number}" for number in range(20)]


def profiles(later: bool) -> list[dict]:
    """Everybody's profile; later, those who moved, and a user who left."""
    if later:
        moved = [{"user": user, "country": "Iceland", "plan": "paid"} for user in USERS[:6]]
        return [*moved, {"user": USERS[6], "_deleted": True}]
    rng = random.Random(2)
    return [{"user": user, "country": rng.choice(["Norway", "Italy"]), "plan": "free"} for user in USERS]


def page_views(later: bool, count: int = 300) -> list[dict]:
    """Half an hour of page views, some by people who have no profile."""
    rng = random.Random(later)
    start = START + timedelta(minutes=30 if later else 0)
    times = [start + timedelta(seconds=1800 * number / count) for number in range(count)]
    return [{"user": rng.choice([*USERS, "guest"]), "page": rng.choice(["/", "/shop"]), "at": at} for at in times]


if __name__ == "__main__":
    later = "--later" in sys.argv
    with rr.River(*[name for name in sys.argv[1:] if name != "--later"] or ["river"]) as river:
        for spec, rows in ((PROFILES, profiles(later)), (VIEWS, page_views(later))):
            print(len(rows), spec.name, river.topic(spec).append(rows))
