"""data.py [RIVER]: who follows whom, and what they post."""

import random
import sys
from datetime import UTC, datetime, timedelta

import riverrun as rr
from flow import FOLLOWS, POSTS

START = datetime(2026, 1, 31, tzinfo=UTC)
PEOPLE = ["ada", "bob", "eve", "kim", "liv", "max", "noa", "tim"]


def follows(seed: int = 3) -> list[dict]:
    rng = random.Random(seed)
    return [{"follower": one, "author": other} for one in PEOPLE for other in rng.sample(PEOPLE, 4) if one != other]


def posts(count: int = 200, seed: int = 4) -> list[dict]:
    rng = random.Random(seed)
    return [
        {
            "post": f"p{number:03}",
            "author": rng.choice(PEOPLE),
            "text": rng.choice(["good morning", "tea?", "look at this", "so long"]),
            "at": START + timedelta(minutes=number),
        }
        for number in range(count)
    ]


if __name__ == "__main__":
    with rr.River(*sys.argv[1:] or ["river"]) as river:
        for spec, rows in ((FOLLOWS, follows()), (POSTS, posts())):
            print(len(rows), spec.name, river.topic(spec).append(rows))
