"""Streams looked up in tables: each row meets the newest version that had arrived by the end of its epoch."""

from __future__ import annotations

from collections import Counter
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

import riverrun as rr
from oracles.histories import FAILPOINTS, counted
from oracles.orders import at, examples
from riverrun.testing import Append, Crash, Process, run_flow

USERS = st.sampled_from(["ada", "bob", "eve"])
VIEWED = st.fixed_dictionaries({"who": st.one_of(USERS, st.none()), "page": st.sampled_from(["/", "/a"])})
PROFILE = st.fixed_dictionaries({"user": USERS, "city": st.sampled_from(["Oslo", "Rome", None])})
GONE = USERS.map(lambda user: {"user": user, "_deleted": True})
ARRIVING = st.one_of(
    VIEWED.map(lambda row: ("views", row)), st.one_of(PROFILE, PROFILE, GONE).map(lambda row: ("profiles", row))
)
EPOCHS = st.lists(st.lists(ARRIVING, min_size=1, max_size=6), min_size=1, max_size=4)
HOW = st.sampled_from(["inner", "left"])


def activity(how: str) -> rr.Flow:
    flow = rr.Flow("activity")
    views = flow.stream("views", "n int, who string, page string, at timestamp", time="at", lateness="1 minute")
    profiles = flow.table("profiles", "user string, city string", key="user")
    seen = views.join(profiles, {"who": "user"}, how=how)
    flow.view("seen", seen)
    flow.view("cities", seen.group("city").agg(rows=rr.count(), pages=rr.distinct("page")))
    flow.view("minutes", seen.window(rr.tumbling("10 seconds"), by="city").agg(rows=rr.count()))
    flow.topic("enriched", seen.where("city is not null"), key="who")
    return flow


def placed(epochs: list[list[Any]]) -> list[list[Any]]:
    """Page views numbered in the order of arrival, four seconds apart."""
    number, found = 0, []
    for epoch in epochs:
        found.append([])
        for topic, row in epoch:
            if topic == "views":
                row, number = {**row, "n": number, "at": at(number * 4)}, number + 1
            found[-1].append((topic, row))
    return found


def expected(epochs: list[list[Any]], how: str) -> list[dict[str, Any]]:
    """Epoch by epoch: first the versions, then the rows."""
    profiles: dict[str, Any] = {}
    found = []
    for epoch in epochs:
        for topic, row in epoch:
            if topic == "profiles":
                profiles[row["user"]] = None if row.get("_deleted") else row
        for topic, row in epoch:
            if topic == "views":
                profile = profiles.get(row["who"])
                if profile or how == "left":
                    found.append({**row, "city": profile["city"] if profile else None})
    return found


def script(epochs: list[list[Any]]) -> list[Any]:
    return [step for epoch in epochs for step in (*(Append(topic, [row]) for topic, row in epoch), Process())]


@given(EPOCHS, HOW, st.sampled_from(FAILPOINTS), st.integers(0, 3))
@examples(10)
def test_rows_meet_the_newest_version_of_their_epoch(epochs: Any, how: str, place: str, when: int) -> None:
    flow, epochs = activity(how), placed(epochs)
    steps = [step for epoch in epochs[:when] for step in script([epoch])]
    found = run_flow(flow, [*steps, Crash(at=place), *script(epochs[when:])], partitions=2)
    wanted = expected(epochs, how)
    assert counted(found.views["seen"]) == counted(wanted)
    assert counted(found.topics["enriched"]) == counted([row for row in wanted if row["city"] is not None])
    cities: dict[Any, list[Any]] = {}
    for row in wanted:
        cities.setdefault(row["city"], []).append(row["page"])
    groups = [{"city": city, "rows": len(pages), "pages": len(set(pages))} for city, pages in cities.items()]
    assert counted(found.views["cities"]) == counted(groups)
    assert sum(row["rows"] for row in found.views["minutes"]) == len(wanted)


@given(EPOCHS, HOW)
@examples(8)
def test_a_fresh_flow_over_a_backlog_meets_versions_in_the_order_they_arrived(epochs: Any, how: str) -> None:
    """Everything is in the log before the flow starts, and each append is an epoch of its own."""
    flow = activity(how)
    (backlog,) = placed([[arriving for epoch in epochs for arriving in epoch]])
    found = run_flow(flow, [Append(topic, [row]) for topic, row in backlog], partitions=2, max_rows=1)
    assert len(found.epochs) == len(backlog) + 1  # and the end
    assert counted(found.views["seen"]) == counted(expected([[arriving] for arriving in backlog], how))


@given(EPOCHS, HOW)
@examples(6)
def test_lookups_in_tables_that_are_computed(epochs: Any, how: str) -> None:
    """What the epoch's rows make of a table counts as already there, however many stages it takes."""
    flow = rr.Flow("activity")
    views = flow.stream("views", "n int, who string, page string, at timestamp", time="at", lateness="1 minute")
    profiles = flow.table("profiles", "user string, city string", key="user")
    cities = profiles.group("city").agg(people=rr.count())
    views = views.with_columns(city="if(page = '/', 'Oslo', 'Rome')").drop("page")
    flow.view("seen", views.join(cities, "city", how=how))
    flow.view("own", views.join(views.where("who is not null").group("who").agg(rows=rr.count()), "who", how=how))
    epochs = placed(epochs)
    found = run_flow(flow, script(epochs), partitions=2)
    homes: dict[str, str | None] = {}
    rows: Counter[str] = Counter()
    seen, own = [], []
    for epoch in epochs:
        homes.update({row["user"]: row.get("city") for topic, row in epoch if topic == "profiles"})
        rows.update(row["who"] for topic, row in epoch if topic == "views")
        for row in (row for topic, row in epoch if topic == "views"):
            city = "Oslo" if row["page"] == "/" else "Rome"
            plain = {"n": row["n"], "who": row["who"], "city": city, "at": row["at"]}
            seen.append({**plain, "people": sum(home == city for home in homes.values()) or None})
            own.append({**plain, "rows": rows[row["who"]] if row["who"] else None})
    assert counted(found.views["seen"]) == counted([row for row in seen if row["people"] or how == "left"])
    assert counted(found.views["own"]) == counted([row for row in own if row["rows"] or how == "left"])


def test_an_answer_stays_when_the_profile_changes_or_goes() -> None:
    flow = activity("left")
    view = {"n": 1, "who": "ada", "page": "/", "at": at(0)}
    steps = [
        {"profiles": [{"user": "ada", "city": "Oslo"}]},
        {"views": [view]},
        {"profiles": [{"user": "ada", "city": "Rome"}], "views": [{**view, "n": 2}]},
        {"profiles": [{"user": "ada", "_deleted": True}]},
        {"views": [{**view, "n": 3}]},
    ]
    found = run_flow(flow, steps)
    assert [row["city"] for row in sorted(found.views["seen"], key=lambda row: row["n"])] == ["Oslo", "Rome", None]
