"""data.py [RIVER] [--later]: saved searches and listings; with --later some searches change, and more listings come."""

import random
import sys
from datetime import UTC, datetime, timedelta

import riverrun as rr
from flow import LISTINGS, SEARCHES

START = datetime(2026, 1, 31, 9, tzinfo=UTC)
CITIES = ["Oslo", "Rome", "Lyon"]
KINDS = ["flat", "house", "loft", "studio"]
FEATURES = ["garden", "gardens", "balcony", "lift", "parking space", "fireplace", "sea view", "cellar", "roof terrace"]


def searches(later: bool, count: int = 400) -> list[dict]:
    """What people look for; later, some have changed their minds, one has found something, one cannot spell."""
    rng = random.Random(later)
    if later:
        changed = [_search(rng, number) for number in range(20)]
        gone = {"search_id": "s20", "_deleted": True}
        return [*changed, gone, {**_search(rng, 21), "query": 'house AND "sea view'}]
    return [_search(rng, number) for number in range(count)]


def _search(rng: random.Random, number: int) -> dict:
    one, two, three = rng.sample(FEATURES, 3)
    kind = rng.choice(KINDS)
    query = rng.choice(
        [
            f'{kind} "{one}"',
            f'{kind} AND ("{one}" OR "{two}")',
            f'"{one}" "{two}" -"{three}"',
            f"(house OR flat) rooms:[{rng.randint(1, 3)} TO {rng.randint(3, 6)}]",
            f"title:{kind} AND gard*",
            f'"{one} quiet"~6 rooms:>{rng.randint(1, 3)}',
            f"NOT studio rooms:{rng.randint(1, 5)}",
        ]
    )
    budget = rng.randrange(600, 3000, 100)
    return {
        "search_id": f"s{number}",
        "user": f"user{number % 150}",
        "query": query,
        "city": rng.choice(CITIES),
        "budget": float(budget),
    }


def listings(later: bool, count: int = 150) -> list[dict]:
    """A morning's offers, or an afternoon's."""
    rng = random.Random(10 + later)
    start = START + timedelta(hours=6 * later)
    return [_listing(rng, f"{'b' if later else 'a'}{number}", start, number) for number in range(count)]


def _listing(rng: random.Random, id: str, start: datetime, number: int) -> dict:
    kind, rooms = rng.choice(KINDS), rng.randint(1, 6)
    features = rng.sample(FEATURES, rng.randint(1, 4))
    text = f"A {rng.choice(['quiet', 'bright', 'large'])} {kind} with {', '.join(features)}. {rng.choice(['Call now!', ''])}"
    return {
        "id": id,
        "title": f"{kind.title()} near the {rng.choice(['station', 'park', 'gardens'])}",
        "description": text,
        "city": rng.choice(CITIES),
        "rooms": rooms,
        "price": float(300 * rooms + rng.randrange(0, 900, 50)),
        "at": start + timedelta(minutes=number),
    }


if __name__ == "__main__":
    later = "--later" in sys.argv
    with rr.River(*[name for name in sys.argv[1:] if name != "--later"] or ["river"]) as river:
        for spec, rows in ((SEARCHES, searches(later)), (LISTINGS, listings(later))):
            print(len(rows), spec.name, river.topic(spec).append(rows))
