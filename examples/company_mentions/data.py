"""data.py [RIVER]: 10 000 subscribers and a day of articles."""

import random
import sys
from datetime import UTC, datetime, timedelta

import riverrun as rr
from flow import ARTICLES, SUBSCRIBERS

START = datetime(2026, 1, 31, tzinfo=UTC)
SOURCES = ["wire", "daily", "blog"]
FIRST = ["Nordwind", "Café Zoë", "Acme", "Hélios", "Blue River", "Grand", "Old Town", "Ærø", "Sun & Moon", "Kestrel"]
SECOND = [
    "Energy",
    "Foods",
    "Bank",
    "Motors",
    "Software",
    "Airlines",
    "Media",
    "Pharma",
    "Steel",
    "Toys",
    "Group",
    "Labs",
]
COMPANIES = [f"{one} {two}" for one in FIRST for two in SECOND]
EVENTS = ["merger", "takeover", "profit", "loss", "strike", "lawsuit", "recall", "patent", "layoffs", "expansion"]
FILLERS = [
    "the",
    "a",
    "of",
    "and",
    "to",
    "in",
    "for",
    "on",
    "with",
    "as",
    "market",
    "today",
    "shares",
    "report",
    "people",
]


def subscribers(count: int = 10_000) -> list[dict]:
    """Who follows which company, and what about it."""
    rng = random.Random(4)
    found = []
    for number in range(count):
        company = rng.choice(COMPANIES)
        one, two = rng.sample(EVENTS, 2)
        query = rng.choice(
            [
                f'"{company}"',
                f'"{company}" AND ({one} OR {two})',
                f'"{company}" -{one}',
                f'title:"{company}"',
                f'"{company} {one}"~5',
            ]
        )
        source = rng.choice([None, None, *SOURCES])
        found.append({"subscriber": f"r{number}", "query": query, "company": company, "source": source})
    return found


def articles(count: int = 200, words: int = 150) -> list[dict]:
    """News, most of it about nobody in particular; now and then one comes twice."""
    rng = random.Random(5)
    found = []
    for number in range(count):
        body = rng.choices(FILLERS, k=words)
        for _ in range(rng.choice([0, 1, 1, 2])):
            company = rng.choice(COMPANIES)
            body[rng.randrange(words)] = rng.choice(
                [company, company.upper(), company.replace("é", "e").replace("ë", "e")]
            )
            body[rng.randrange(words)] = rng.choice(EVENTS)
        title = rng.choice([f"{rng.choice(COMPANIES)}: {rng.choice(EVENTS)}", "Markets today", "Weather"])
        at = START + timedelta(seconds=86_400 * number / count)
        article = {"id": f"n{number}", "source": rng.choice(SOURCES), "title": title, "body": " ".join(body), "at": at}
        found += [article] * (2 if number % 40 == 7 else 1)
    return found


if __name__ == "__main__":
    with rr.River(*sys.argv[1:] or ["river"]) as river:
        for spec, rows in ((SUBSCRIBERS, subscribers()), (ARTICLES, articles())):
            print(len(rows), spec.name, river.topic(spec).append(rows))
