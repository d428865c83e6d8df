"""write_ledger.py ADDRESS NUMBER [--rounds N] [--seconds S] [--rate N]: writes transactions of ledger.py, as writer so and
so, until there were so many or for so long. One that the database gives up, since two wait for each other, is given up."""

import argparse
import itertools
import random
import sqlite3
import sys
import time
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import psycopg2
import pymysql

sys.path.insert(0, str(Path(__file__).parents[1]))
import ledger

arguments = argparse.ArgumentParser()
arguments.add_argument("address")
arguments.add_argument("number", type=int)
arguments.add_argument("--rounds", type=int, default=1 << 40)
arguments.add_argument("--seconds", type=float, default=1e9)
arguments.add_argument("--rate", type=float, default=1e9)  # in a second, at most
asked = arguments.parse_args()


def connected() -> tuple[str, Any]:
    """The dialect, and a cursor that commits when it is told to."""
    if asked.address.startswith("sqlite:"):
        file = asked.address.removeprefix("sqlite:")
        return "sqlite", sqlite3.connect(file, isolation_level=None, timeout=60).cursor()
    if asked.address.startswith("mariadb:"):
        parts = urlsplit(asked.address)
        options = {"host": parts.hostname, "port": parts.port, "user": parts.username, "database": parts.path[1:]}
        return "mariadb", pymysql.connect(autocommit=True, **options).cursor()
    connection = psycopg2.connect(asked.address)
    connection.autocommit = True
    return "postgresql", connection.cursor()


dialect, db = connected()
dice = random.Random(asked.number)
begun = time.monotonic()
for step in itertools.takewhile(lambda step: step < asked.rounds, itertools.count()):
    wait = begun + step / asked.rate - time.monotonic()
    time.sleep(max(wait, 0.0))
    if time.monotonic() > begun + asked.seconds:
        break
    try:
        for statement in ledger.transaction(dialect, dice, asked.number, step):
            db.execute(statement)
    except (psycopg2.Error, pymysql.Error):
        db.execute("rollback")  # fails, too, when the server is gone
