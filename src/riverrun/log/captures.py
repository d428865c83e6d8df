"""The captures of a river, as its coordination database knows them: who captures what, how far it is, what it wrote.

The tables are made when the first capture registers, so that rivers from before have none.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any

from riverrun.log.coordination import Coordination

_TABLES = (
    """create table if not exists captures (
        name text primary key, fence integer not null, source text not null, process integer not null,
        reported integer not null, alive integer not null, status text not null
    ) without rowid""",
    """create table if not exists captured_topics (
        topic text primary key, capture text not null, described text not null
    ) without rowid""",
)
_LEASE = 10_000_000  # microseconds without a report after which a capture counts as gone


class Captures:
    """What is known of captures, for every process of the river."""

    def __init__(self, coordination: Coordination) -> None:
        self._coordination = coordination

    def register(self, name: str, source: str) -> int:
        """A capture begins: its fence, larger than that of any of this name before."""
        with self._coordination.transaction() as db:
            for statement in _TABLES:
                db.execute(statement)
            found = db.execute("select fence from captures where name = ?", (name,)).fetchone()
            fence = int(found[0]) + 1 if found else 1
            db.execute(
                "insert or replace into captures values (?, ?, ?, ?, ?, 1, ?)",
                (name, fence, source, os.getpid(), self._coordination.now(), json.dumps({"state": "starting"})),
            )
        return fence

    def report(self, name: str, fence: int, status: Mapping[str, Any], alive: bool = True) -> bool:
        """Tell how far it is; False where another one of this name has begun since."""
        with self._coordination.transaction() as db:
            done = db.execute(
                "update captures set status = ?, reported = ?, alive = ? where name = ? and fence = ?",
                (json.dumps(status), self._coordination.now(), int(alive), name, fence),
            )
            return done.rowcount == 1

    def describe_topic(self, topic: str, capture: str, described: Mapping[str, Any]) -> None:
        """Note which table a topic is of, and how its names were changed."""
        with self._coordination.transaction() as db:
            db.execute(
                "insert or replace into captured_topics values (?, ?, ?)", (topic, capture, json.dumps(described))
            )

    def topic(self, topic: str) -> dict[str, Any] | None:
        """The table that a topic is of; None for any other topic."""
        if not self._is_used():
            return None
        with self._coordination.reading() as db:
            found = db.execute("select capture, described from captured_topics where topic = ?", (topic,)).fetchone()
        return {"capture": found[0], **json.loads(found[1])} if found else None

    def list(self) -> list[dict[str, Any]]:
        """The last report of every capture. One that has not been heard of for long is `gone`."""
        if not self._is_used():
            return []
        with self._coordination.reading() as db:
            rows = db.execute("select name, source, process, reported, alive, status from captures order by name")
            return [self._shown(row) for row in rows.fetchall()]

    def forget(self, name: str) -> None:
        """Remove what is known of a capture; its topics stay."""
        if self._is_used():
            with self._coordination.transaction() as db:
                db.execute("delete from captured_topics where capture = ?", (name,))
                db.execute("delete from captures where name = ?", (name,))

    def _shown(self, row: tuple[Any, ...]) -> dict[str, Any]:
        name, source, process, reported, alive, status = row
        silent = self._coordination.now() - reported
        known = {"name": name, "source": source, "pid": process, **json.loads(status)}
        # The clock begins anew with the machine: then everything of before is gone.
        if alive and not 0 <= silent < _LEASE:
            known["state"] = "gone"
            known["reason"] = "its process has not been heard of; it ended without a word, or is stopped"
        return known

    def _is_used(self) -> bool:
        with self._coordination.reading() as db:
            found = db.execute("select 1 from sqlite_master where name = 'captured_topics'").fetchone()
        return found is not None
