"""A database in a SQLite file and a river beside it, for the tests of captures."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import riverrun as rr
from captured_shop import Shop


class FileShop(Shop):
    """As `Shop`, of a file."""

    def __init__(self, path: Path, journal: str = "wal") -> None:
        self.path = path
        self.file = path / "shop.db"
        self.url = f"sqlite:{self.file}"
        self.name = "shop"
        self.db = sqlite3.connect(self.file, isolation_level=None)
        self.db.execute(f"pragma journal_mode = {journal}")
        self.river = rr.River(str(path / "river"))

    def sql(self, text: str, *values: Any) -> list[Any]:
        """One statement with values, or several."""
        if values or (text.lstrip().lower().startswith(("select", "pragma", "begin", "commit")) and ";" not in text):
            return self.db.execute(text, values).fetchall()
        self.db.executescript(text)
        return []

    def source(self, table: str, key: str = "id") -> dict[Any, dict[str, Any]]:
        """What the table has, by key."""
        found = self.db.execute(f'select * from "{table}"')
        names = [column[0] for column in found.description]
        rows = [dict(zip(names, row, strict=True)) for row in found.fetchall()]
        return {row[key]: row for row in rows}

    def close(self) -> None:
        self.river.close()
        self.db.close()


def wait_for(condition: Callable[[], object], seconds: float = 20.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it does not happen"
        time.sleep(0.02)
