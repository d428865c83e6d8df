"""A database in a SQLite file and a river beside it, for the tests of captures."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

from captured_shop import CapturedRiver


class FileShop(CapturedRiver):
    """A database of SQLite."""

    dialect = "sqlite"

    def __init__(self, path: Path, journal: str = "wal") -> None:
        self.file = path / "shop.db"
        super().__init__(f"sqlite:{self.file}", "shop", path)
        self.db = sqlite3.connect(self.file, isolation_level=None)
        self.db.execute(f"pragma journal_mode = {journal}")

    def sql(self, text: str, *values: Any) -> list[Any]:
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
