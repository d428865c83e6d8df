"""The changes of a view, followed from any cursor."""

from __future__ import annotations

import threading

import pytest

from contracts.view_flow import HOUR, ViewFlow, revenue, rows
from riverrun.durations import wall_clock
from riverrun.errors import Invalid, OutOfRange
from riverrun.views import View


def test_changes_tell_what_happened_and_can_be_resumed_anywhere(store):
    flow = ViewFlow(store, revenue())
    flow.commit(rows(("a", 1, 1), ("b", 1, 1), ("c", 1, 1)))
    flow.commit()
    flow.commit(rows(("a", 1, -1), ("a", 2, 1), ("b", 5, 1), ("c", 1, -1), ("d", 1, 1)))
    view = View(store, "revenue")
    seen = list(view.changes(timeout=0))
    assert {
        (c.op, c.before and c.before["n"], c.after and c.after["n"], (c.after or c.before)["user"]) for c in seen
    } == {
        *(("insert", None, 1, user) for user in "abcd"),
        ("update", 1, 2, "a"),
        ("update", 1, 5, "b"),
        ("delete", 1, None, "c"),
    }
    assert len(seen) == 7
    for i, change in enumerate(seen):
        assert list(view.changes(since=change.cursor, timeout=0)) == seen[i + 1 :]
    assert list(view.changes(since=view.cursor, timeout=0)) == []
    with pytest.raises(Invalid, match="not a cursor"):
        view.changes(since="yesterday")
    with pytest.raises(OutOfRange, match="up to 3"):
        next(view.changes(since="99", timeout=0))


def test_an_update_to_the_same_row_is_no_change(store):
    flow = ViewFlow(store, revenue())
    flow.commit(rows(("a", 1, 1)))
    flow.commit(rows(("a", 1, 1)))
    flow.commit(rows(("a", 1, -1), ("a", 1, 1)))
    assert len(list(View(store, "revenue").changes(timeout=0))) == 1


def test_changed_rows_are_counted_from_any_commit_on(store):
    flow = ViewFlow(store, revenue(), revenue(name="other"))
    assert store.changed("shop", None) == (0, {"revenue": 0, "other": 0})
    flow.commit(rows(("ada", 1, 1), ("bob", 2, 1)))
    first, counted = store.changed("shop", 0)
    assert counted == {"revenue": 2, "other": 0}
    flow.commit(rows(("ada", 1, -1), ("ada", 3, 1)))  # an update is one change
    flow.commit(rows(("bob", 2, -1)))
    newest, counted = store.changed("shop", first)
    assert (newest, counted) == (first + 2, {"revenue": 2, "other": 0})
    assert store.changed("shop", newest) == store.changed("shop", None) == (newest, {"revenue": 0, "other": 0})
    assert store.changed("nobody", 0) == (0, {})


def test_changes_wait_for_new_ones(store, again):
    flow = ViewFlow(store, revenue())
    seen: list[object] = []
    done = threading.Event()

    def follow() -> None:
        for change in View(again(), "revenue").changes(timeout=10):
            seen.append(change.after)
            if len(seen) == 3:
                break
        done.set()

    thread = threading.Thread(target=follow)
    thread.start()
    for n in range(3):
        flow.commit(rows((f"k{n}", n, 1)))
        flow.commit()
    assert done.wait(10)
    thread.join()
    assert seen == [{"user": f"k{n}", "n": n} for n in range(3)]


def test_changes_end_after_a_time_without_any_though_epochs_go_on(store):
    flow = ViewFlow(store, revenue())
    flow.commit(rows(("a", 1, 1)))
    stop = threading.Event()

    def go_on() -> None:
        while not stop.is_set():
            flow.commit()

    thread = threading.Thread(target=go_on)
    thread.start()
    assert len(list(View(store, "revenue").changes(timeout=0.2))) == 1
    stop.set()
    thread.join()


def test_changes_of_many_rows_come_in_parts(store):
    flow = ViewFlow(store, revenue())
    many = 70_001
    flow.commit(rows(*((f"k{i:06}", 0, 1) for i in range(many))))
    pairs = [row for i in range(many) for row in ((f"k{i:06}", 0, -1), (f"k{i:06}", 1, 1))]
    flow.commit(rows(*pairs))
    view = View(store, "revenue")
    changes = list(view.changes(timeout=0))
    assert [c.op for c in changes] == ["insert"] * many + ["update"] * many
    middle = changes[many + 40_000]
    assert next(view.changes(since=middle.cursor, timeout=0)) == changes[many + 40_001]
    assert {c.cursor for c in changes[many - 1 : many]} == {"1"}


def test_changes_expire_and_an_expired_cursor_is_an_error(short):
    flow = ViewFlow(short, revenue(), revenue(name="kept", history="1 hour"))
    start = wall_clock()
    table = rows(("a", 1, 1))["revenue"]
    flow.commit({"revenue": table, "kept": table}, committed=start)
    view, kept = View(short, "revenue"), View(short, "kept")
    first = next(view.changes(timeout=0))
    flow.commit(rows(("a", 1, -1), ("a", 2, 1), ("b", 1, 1)), committed=start + 1)
    partial = next(view.changes(since=first.cursor, timeout=0))
    complete = list(view.changes(timeout=0))[-1]
    flow.commit(committed=start + 120_000_000)
    assert list(view.changes(timeout=0)) == []
    for gone in (first.cursor, partial.cursor):
        with pytest.raises(OutOfRange, match="Read the view, then follow it from its cursor"):
            next(view.changes(since=gone, timeout=0))
    assert list(view.changes(since=complete.cursor, timeout=0)) == []
    assert [c.op for c in kept.changes(timeout=0)] == ["insert"]
    flow.commit(committed=start + 2 * HOUR)
    assert list(kept.changes(timeout=0)) == []
