"""`riverrun view …` on a river whose views were written without Spark."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from riverrun.river import River
from riverrun.views import Epoch, ViewSpec

SCHEMA = pa.schema([("user", pa.string()), ("day", pa.date32()), ("n", pa.int64()), ("at", pa.timestamp("us", "UTC"))])
AT = datetime(2026, 1, 1, 12, 30, tzinfo=UTC)


def rows(*found: tuple[str, int, int]) -> pa.Table:
    """(user, n, weight)"""
    made = [{"user": user, "day": AT.date(), "n": n, "at": AT, "_weight": w} for user, n, w in found]
    return pa.Table.from_pylist(made, schema=SCHEMA.append(pa.field("_weight", pa.int8())))


def commit(river: River, epoch: int, changes: pa.Table) -> None:
    last = river.store.last("shop")
    river.store.commit(Epoch("shop", last.fence, epoch, {"orders": {0: epoch * 10}}, {"totals": changes}))


@pytest.fixture
def river(riverrun: Any) -> Iterator[River]:
    with River("river") as river:
        river.store.take_fence("shop")
        river.store.declare(ViewSpec("totals", "shop", SCHEMA, ("user", "day"), ("orders",)))
        commit(river, 1, rows(("ada", 3, 1), ("bob", 1, 1)))
        yield river


def test_list(riverrun: Any, river: River) -> None:
    (found,) = riverrun("view", "list", "--json").json
    assert found == {
        "name": "totals",
        "rows": 2,
        "schema": "user string, day date, n bigint, at timestamp",
        "key": ["user", "day"],
        "flow": "shop",
        "topics": ["orders"],
        "epoch": 1,
        "position": "orders@0:10",
        "cursor": "1",
        "kept_up": True,
    }
    assert "totals" in riverrun("view", "list").out
    assert "kept up" not in riverrun("view", "list").out
    river.store.keep_only("shop", 1, [])
    assert "no longer kept up" in " ".join(riverrun("view", "list").out.split())


def test_get_by_key_and_by_condition(riverrun: Any, river: River) -> None:
    row = {"user": "ada", "day": "2026-01-01", "n": 3, "at": "2026-01-01T12:30:00Z"}
    assert riverrun("view", "get", "totals", "ada", "2026-01-01", "--json").json == row
    assert riverrun("view", "get", "totals", "--where", "n > 1", "--json").json == [row]
    assert len(riverrun("view", "get", "totals", "--json").json) == 2
    assert len(riverrun("view", "get", "totals", "--limit", "1", "--json").json) == 1
    assert "ada" in riverrun("view", "get", "totals", "ada", "2026-01-01").out
    assert riverrun("view", "get", "totals", "--at-least", "orders@0:10", "--json").code == 0


def test_no_such_row(riverrun: Any, river: River) -> None:
    missing = riverrun("view", "get", "totals", "eve", "2026-01-01")
    assert (missing.code, missing.out, missing.err) == (1, "", "view totals has no row eve 2026-01-01\n")
    missing = riverrun("view", "get", "totals", "eve", "2026-01-01", "--json")
    assert (missing.code, missing.json) == (1, None)


def test_query(riverrun: Any, river: River) -> None:
    assert riverrun("view", "query", "select sum(n) as total from totals", "--json").json == [{"total": 4}]
    assert riverrun("view", "query", "select user from totals where n > 9", "--json").json == []
    assert "4" in riverrun("view", "query", "select sum(n) as total from totals").out


def test_names_of_columns_are_neither_markup_nor_control_characters_at_a_terminal(riverrun: Any, river: River) -> None:
    """A name of a column was read as markup, and control characters in it reached the terminal."""
    shown = riverrun("view", "query", "select 1 as '[/nope]', 2 as '\x1b[31mred'").out
    assert "[/nope]" in shown
    assert "\\x1b[31mred" in shown
    assert "\x1b" not in shown


def test_control_characters_in_an_error_do_not_reach_the_terminal(riverrun: Any, river: River) -> None:
    """What an event brought along was written to the terminal as it was."""
    failed = riverrun("view", "query", "select * from '\x1b]0;pwned\x07'")
    assert "\\x1b]0;pwned\\x07" in failed.error
    assert "\x1b" not in failed.error


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["get", "totels", "ada"], "there is no view 'totels'. Did you mean 'totals'?"),
        (["get", "totals", "ada"], "the key of view 'totals' has 2 parts (user, day), got 1"),
        (["get", "totals", "ada", "soon"], "'soon' is not a value of column 'day'"),
        (["get", "totals", "ada", "2026-01-01", "--limit", "1"], "a key names one row"),
        (["get", "totals", "--where", "m > 1"], "m"),
        (["get", "totals", "--at-least", "clicks@0:1"], "does not read topic 'clicks'"),
        (["query", "delete from totals"], "cannot modify totals"),
        (["query", "selct 1"], "syntax error"),
        (["watch", "totals", "--since", "never"], "not a cursor: 'never'"),
        (["watch", "totals", "--quiet", "a while"], "not a duration: 'a while'"),
    ],
)
def test_mistakes(riverrun: Any, river: River, arguments: list[str], why: str) -> None:
    assert why in riverrun("view", *arguments).error


def test_a_river_without_views(riverrun: Any) -> None:
    with River("river"):
        pass
    assert riverrun("view", "list").out == "no views\n"
    assert riverrun("view", "list", "--json").json == []
    assert "has no views yet" in riverrun("view", "get", "totals", "ada").error
    assert "has no views yet" in riverrun("view", "query", "select 1").error
    assert not Path("river/views.db").exists()
    with River("river") as river:
        assert river.store.views() == []
    error = riverrun("view", "query", "select * from nope").error
    assert error == "sql: no such table: nope. There are no views yet; a run of a flow makes them"


def test_watch_shows_what_was_kept(riverrun: Any, river: River) -> None:
    commit(river, 2, rows(("ada", 3, -1), ("ada", 4, 1), ("bob", 1, -1)))
    found = riverrun("view", "watch", "totals", "--since", "oldest", "--quiet", "10 ms", "--json").lines
    assert [change["op"] for change in found[:2]] == ["insert", "insert"]
    changed = {change["op"]: change for change in found[2:]}
    assert (changed["update"]["before"]["n"], changed["update"]["after"]["n"]) == (3, 4)
    assert changed["delete"]["after"] is None
    after = riverrun("view", "watch", "totals", "--since", found[1]["cursor"], "--quiet", "10 ms", "--json").lines
    assert after == found[2:]
    lines = riverrun("view", "watch", "totals", "--since", found[1]["cursor"], "--quiet", "10 ms").out.splitlines()
    assert sorted(lines) == [
        "- user=bob  day=2026-01-01  n=1  at=2026-01-01T12:30:00Z",
        "~ user=ada  day=2026-01-01  n=3→4",
    ]


def test_watch_follows_what_comes(riverrun: Any, river: River) -> None:
    watching = subprocess.Popen(
        [sys.executable, "-m", "riverrun.cli", "view", "watch", "totals", "--since", "1", "--json"],
        stdout=subprocess.PIPE,
        text=True,
    )
    timer = threading.Timer(60, watching.kill)
    timer.start()
    try:
        commit(river, 2, rows(("eve", 7, 1)))
        assert watching.stdout is not None
        assert '"user":"eve"' in watching.stdout.readline()
    finally:
        timer.cancel()
        watching.kill()
        watching.communicate()


def test_a_rebuild_names_what_is_wrong_before_it_starts_anything(riverrun: Any) -> None:
    Path("other.py").write_text(
        'import riverrun as rr\nflow = rr.Flow("other")\n'
        'flow.view("totals", flow.stream("orders", "user string").group("user").agg(n=rr.count()))\n'
    )
    assert riverrun("view", "rebuild", "total", "other.py").error.endswith("Did you mean 'totals'?")
    assert "there is no river" in riverrun("view", "rebuild", "totals", "other.py").error
    with River("river") as river:
        river.store.take_fence("shop")
        river.store.declare(ViewSpec("totals", "shop", SCHEMA, ("user", "day"), ("orders",)))
    assert "view totals belongs to flow shop, not to other" in riverrun("view", "rebuild", "totals", "other.py").error


def test_search(riverrun: Any, river: River) -> None:
    fields = "sku string, title string"
    river.store.declare(ViewSpec("words", "other", fields, ("sku",), ("orders",), to="search:"))
    table = pa.table({"sku": ["a", "b"], "title": ["Rain boots", "Hat"], "_weight": pa.array([1, 1], pa.int8())})
    river.store.commit(Epoch("other", river.store.take_fence("other"), 1, {"orders": {0: 10}}, {"words": table}))
    assert riverrun("view", "search", "words", "boo*", "--json").json == [{"sku": "a", "title": "Rain boots"}]
    assert "Rain boots" in riverrun("view", "search", "words", "boots", "--where", "sku = 'a'").out
    assert "which cannot search for words" in riverrun("view", "search", "totals", "boots").error
    listed = {view["name"]: view for view in riverrun("view", "list", "--json").json}
    assert (listed["words"]["rows"], listed["words"]["to"]) == (2, "search:")
