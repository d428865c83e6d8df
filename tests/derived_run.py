"""A flow whose views are in the home store and in all others, run and killed as a process, and compared at the end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from contracts.derived_flow import DerivedPlace, files_place, postgres_place, redis_place
from programs.recovery_flows import ORDERS
from riverrun.river import River

PROGRAM = Path(__file__).parent / "programs" / "run_without_spark.py"
START = datetime(2026, 1, 31, 12, tzinfo=UTC)
STORES = ("redis", "search", "delta", "sqlite", "postgres")
USERS = ["ada", "bob", "eve:x", "zoë", "50%", ""]


def all_places(directory: Path) -> dict[str, DerivedPlace]:
    """One of each kind; that of searches is in the river."""
    river, lake = directory / "river", directory / "lake"
    found = {
        "redis": redis_place(directory),
        "search": files_place("search:", river, "search"),
        "delta": files_place(f"delta:{lake}/totals", lake, "totals"),
        "sqlite": files_place(f"sqlite:{directory}/other.db", directory, "other.db"),
        "postgres": postgres_place(directory),
    }
    assert tuple(found) == STORES
    return found


class Everywhere:
    """One river and the stores beside it."""

    def __init__(self, path: Path, stores: Mapping[str, str]) -> None:
        self.path, self.stores = path, dict(stores)
        self.places: dict[str, DerivedPlace] = {}
        self.rows: list[dict[str, Any]] = []
        self.factor = 1
        self.feed(0)

    @classmethod
    def in_every_store(cls, directory: Path) -> Everywhere:
        """With one store of each kind, which can go away and come back."""
        places = all_places(directory)
        made = cls(directory / "river", {name: place.address for name, place in places.items()})
        made.places = places
        return made

    def feed(self, count: int = 60) -> None:
        """So many more orders."""
        with River(self.path) as river:
            topic = river.topic("orders", ORDERS, key="user", time="at", partitions=2)
            start = len(self.rows)
            new = [self._order(number) for number in range(start, start + count)]
            for first in range(0, count, 10):  # each may begin an epoch
                topic.append(new[first : first + 10])
            self.rows += new

    def _order(self, n: int) -> dict[str, Any]:
        user = USERS[n % 6] if n % 5 else f"user{n}"
        return {"n": n, "user": user, "amount": str(n % 12), "at": START + timedelta(seconds=n)}

    def run(self, *options: object, failpoints: str = "", environment: Mapping[str, str] | None = None) -> Any:
        """The flow, until there is nothing left to do."""
        return subprocess.run(
            [sys.executable, str(PROGRAM), str(self.path), "--flow", "everywhere", *map(str, options)],
            env={**self.environment, **(environment or {}), "RIVERRUN_FAILPOINTS": failpoints},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )

    @property
    def environment(self) -> dict[str, str]:
        lines = "\n".join(f"{name}={address}" for name, address in self.stores.items())
        return {**os.environ, "STORES": lines}

    def complete(self, *options: object, **more: Any) -> Any:
        done = self.run(*options, **more)
        assert done.returncode == 0, done.stderr
        return done

    @contextmanager
    def started(self, failpoints: str) -> Iterator[subprocess.Popen[str]]:
        """The same beside the test, which reads what it says; what still runs at the end is killed."""
        with subprocess.Popen(
            [sys.executable, str(PROGRAM), str(self.path), "--flow", "everywhere"],
            env={**self.environment, "RIVERRUN_FAILPOINTS": failpoints},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        ) as run:
            try:
                yield run
            finally:
                run.kill()

    def killed(self, failpoint: str, *options: object) -> None:
        done = self.run(*options, failpoints=f"{failpoint}=kill")
        assert done.returncode == -signal.SIGKILL, f"{failpoint}: {done.stdout} {done.stderr}"

    def check(self) -> None:
        """Every view equals the one at home, and that one what can be told from the rows."""
        with River(self.path) as river:
            home = {kind: river.view(kind).rows() for kind in ("totals", "large")}
            for name in self.stores:
                for kind, rows in home.items():
                    view = river.view(f"{kind}-{name}")
                    assert _bag(view.rows()) == _bag(rows), (name, kind)
                    assert len(view) == len(rows)
                    assert view.position == river.view(kind).position
        assert _bag(home["totals"]) == _bag(self._totals())
        assert sorted(row["n"] for row in home["large"]) == [row["n"] for row in self.rows if float(row["amount"]) >= 9]

    def _totals(self) -> list[dict[str, Any]]:
        users: dict[Any, list[float]] = {}
        for row in self.rows:
            users.setdefault(row["user"], []).append(float(row["amount"]))
        return [{"user": user, "n": len(all_), "total": sum(all_) * self.factor} for user, all_ in users.items()]


def _bag(rows: list[dict[str, Any]]) -> list[str]:
    return sorted(repr(sorted(row.items())) for row in rows)
