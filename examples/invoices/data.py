"""data.py [RIVER] [--late]: tax rates and a month of sales; with --late, a change of rates that was forgotten."""

import random
import sys
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import riverrun as rr
from flow import RATES, SALES

MONTH = datetime(2026, 3, 1, tzinfo=UTC)


def rates(late: bool) -> list[dict]:
    """The rates of three countries; late, Norway's of the 20th, which nobody had told us."""
    if late:
        return [{"country": "Norway", "rate": Decimal("0.150"), "since": MONTH + timedelta(days=19)}]
    known = {"Norway": "0.250", "Italy": "0.220", "Iceland": "0.240"}
    first = [{"country": country, "rate": Decimal(rate), "since": MONTH} for country, rate in known.items()]
    return [*first, {"country": "Italy", "rate": Decimal("0.200"), "since": MONTH + timedelta(days=14)}]


def sales(count: int = 300, seed: int = 5) -> list[dict]:
    rng = random.Random(seed)
    return [
        {
            "sale": f"n{number:04}",
            "country": rng.choice(["Norway", "Italy", "Iceland", "Malta"]),
            "net": Decimal(rng.randrange(100, 100_000)) / 100,
            "at": MONTH + timedelta(days=30 * number / count),
        }
        for number in range(count)
    ]


if __name__ == "__main__":
    late = "--late" in sys.argv
    with rr.River(*[name for name in sys.argv[1:] if name != "--late"] or ["river"]) as river:
        for spec, rows in ((RATES, rates(late)), (SALES, [] if late else sales())):
            print(len(rows), spec.name, river.topic(spec).append(rows))
