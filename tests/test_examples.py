"""The stories under examples/: each comes to what a batch computation over its data says, and its README's commands run."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import riverrun as rr
from oracles.histories import counted
from oracles.search import Search
from postgres_server import logical_server
from redis_server import shared_redis
from riverrun.cli.flow_file import load_flow
from riverrun.testing import Append, Delete, Process, assert_same_as_batch, run_flow

EXAMPLES = Path(__file__).parent.parent / "examples"
STORIES = sorted(path.name for path in EXAMPLES.iterdir() if (path / "flow.py").exists())


@pytest.fixture
def story(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], tuple[ModuleType, ModuleType]]]:
    """story("invoices") gives its modules flow and data, as its own folder would import them."""

    def forget() -> None:
        for name, module in list(sys.modules.items()):
            if str(getattr(module, "__file__", None)).startswith(str(EXAMPLES)):
                del sys.modules[name]

    def load(name: str) -> tuple[ModuleType, ModuleType]:
        forget()
        monkeypatch.syspath_prepend(str(EXAMPLES / name))
        import data  # type: ignore[import-not-found]

        import flow  # type: ignore[import-not-found]

        return flow, data

    yield load
    forget()


def by_topic(events: list[tuple[str, Any]]) -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = defaultdict(list)
    for topic, row in events:
        found[topic].append(row)
    return dict(found)


PATTERNS = ["card_testing", "payments_abroad", "price_dips", "silent_machines"]
SEARCHES = ["company_mentions", "saved_searches"]
DATABASES = ["one_database"]


def test_the_stories() -> None:
    others = ["click_through", "enriched_activity", "home_timelines", "invoices"]
    assert sorted([*PATTERNS, *SEARCHES, *DATABASES, *others]) == STORIES


RATES = """
    select url, count(*) as shown, count(clicked_at) as clicked, count(clicked_at) / count(*) as rate from (
        select r.*, c."at" as clicked_at from results r left join (select distinct * from clicks) c on r.search = c.search
        and r.url = c.url and c."at" between r."at" and r."at" + interval 1 hour) group by url
"""
HOURLY = RATES.replace("select url,", 'select url, time_bucket(interval 1 hour, "at") as window_start, ').replace(
    "count(clicked_at) / count(*) as rate", "window_start + interval 1 hour as window_end"
)
UNCLICKED = """
    select * from searches s where not exists (select 1 from clicks c where c.search = s.search
        and c."at" between s."at" and s."at" + interval 1 hour)
"""


def test_click_through(story: Any) -> None:
    flow, data = story("click_through")
    events = data.events(searches=60)
    sql = {"rates": RATES, "hourly": HOURLY.replace("group by url", "group by all"), "unclicked": UNCLICKED}
    assert_same_as_batch(flow.flow, by_topic(events), sql, times=2)
    whole = run_flow(flow.flow, by_topic(data.events()))
    assert counted(whole.topics["unclicked-searches"]) == counted(whole.views["unclicked"])
    assert sum(row["shown"] for row in whole.views["rates"]) == 1800
    assert all(0.05 < row["rate"] < 0.4 for row in whole.views["rates"])
    early = run_flow(flow.flow, by_topic(data.events()), drain=False)
    assert 1600 < sum(row["shown"] for row in early.views["rates"]) < 1800  # it is too early for the last hour


def test_enriched_activity(story: Any) -> None:
    flow, data = story("enriched_activity")
    stages = [{"profiles": data.profiles(later), "page_views": data.page_views(later)} for later in (False, True)]
    found = run_flow(flow.flow, stages)
    profiles: dict[str, Any] = {}
    wanted = []
    for stage in stages:
        profiles.update({row["user"]: row for row in stage["profiles"]})
        for row in stage["page_views"]:
            known = profiles.get(row["user"], {})
            wanted.append({**row, "country": known.get("country"), "plan": known.get("plan")})
    assert counted(found.views["activity"]) == counted(wanted) == counted(found.topics["enriched-views"])
    views: dict[Any, list[str]] = defaultdict(list)
    for row in wanted:
        views[row["country"]].append(row["user"])
    countries = [{"country": name, "views": len(users), "visitors": len(set(users))} for name, users in views.items()]
    assert counted(found.views["countries"]) == counted(countries)
    assert {row["country"]: row["users"] for row in found.views["people"]}["Iceland"] == 6
    assert sum(row["users"] for row in found.views["people"]) == 19
    assert sum(row["views"] for row in found.views["plans"]) == len(wanted)


def timelines(follows: list[Any], posts: list[Any], length: int) -> dict[str, list[str]]:
    """The posts of each reader's timeline, the newest first."""
    found: dict[str, list[Any]] = defaultdict(list)
    for follow in follows:
        found[follow["follower"]] += [post for post in posts if post["author"] == follow["author"]]
    newest = {reader: sorted(mine, key=lambda post: (post["at"], post["post"])) for reader, mine in found.items()}
    return {reader: [post["post"] for post in mine[::-1][:length]] for reader, mine in newest.items() if mine}


def shown(rows: list[Any]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = defaultdict(list)
    for row in sorted(rows, key=lambda row: row["place"]):
        found[row["follower"]].append(row["post"])
        assert row["place"] == len(found[row["follower"]])
    return dict(found)


def test_home_timelines(story: Any) -> None:
    """Post, delete, follow, unfollow: each moves the rows it should, and no others."""
    flow, data = story("home_timelines")
    follows, posts = data.follows(), data.posts()
    new = {"post": "p900", "author": "bob", "text": "hello", "at": data.START + timedelta(days=2)}
    gone, left = posts[-1], next(follow for follow in follows if follow["follower"] == "tim")
    script = [
        {"follows": follows, "posts": posts},
        {"posts": [new]},
        Delete("posts", gone["post"]),
        {"follows": [{"follower": "new", "author": "bob"}]},
        Delete("follows", [left["follower"], left["author"]]),
    ]
    states = [(follows, posts), (follows, [*posts, new]), (follows, [*posts[:-1], new])]
    states.append(([*follows, {"follower": "new", "author": "bob"}], states[-1][1]))
    states.append(([follow for follow in states[-1][0] if follow != left], states[-1][1]))
    held: list[Any] = []
    for number, state in enumerate(states):
        found = run_flow(flow.flow, script[: number + 1], drain=False)
        assert shown(found.views["timelines"]) == timelines(*state, flow.LENGTH)
        held.append(found)
    touched = [{(c.after or c.before)["follower"] for c in changes} for changes in held[-1].changes["timelines"]]
    of_bob = {follow["follower"] for follow in follows if follow["author"] == "bob"}
    of_gone = {follow["follower"] for follow in follows if follow["author"] == gone["author"]}
    assert touched[1:] == [of_bob, of_gone, {"new"}, {"tim"}]
    authors = {row["author"]: (row["posts"], row["followers"]) for row in held[-1].views["authors"]}
    counts = {name: sum(follow["author"] == name for follow in states[-1][0]) or None for name in authors}
    assert authors == {
        name: (sum(p["author"] == name for p in states[-1][1]) or None, counts[name]) for name in authors
    }


def test_invoices(story: Any) -> None:
    flow, data = story("invoices")
    sales, rates, late = data.sales(), data.rates(late=False), data.rates(late=True)
    before = run_flow(flow.flow, [{"tax_rates": rates, "sales": sales}], drain=False)
    after = run_flow(
        flow.flow, [{"tax_rates": rates, "sales": sales[:200]}, {"sales": sales[200:]}, {"tax_rates": late}]
    )
    replay = run_flow(
        flow.flow, [Append("tax_rates", rates), Append("sales", sales), Append("tax_rates", late), Process()]
    )
    for found, versions in ((before, rates), (after, [*rates, *late])):
        invoices = {row["sale"]: row for row in found.views["invoices"]}
        assert len(invoices) == len(sales)
        for sale in sales:
            valid = [v for v in versions if v["country"] == sale["country"] and v["since"] <= sale["at"]]
            rate = max(valid, key=lambda version: version["since"])["rate"] if valid else None
            assert invoices[sale["sale"]]["rate"] == rate
            tax = invoices[sale["sale"]]["tax"]
            assert tax is None if rate is None else abs(tax - sale["net"] * rate) <= Decimal("0.005")
    assert after.views == replay.views
    changed = {c.after["sale"] for c in after.changes["invoices"][2]}
    assert changed == {s["sale"] for s in sales if s["country"] == "Norway" and s["at"] >= late[0]["since"]}
    newest = {row["sale"]: row for row in after.topics["invoice-changes"]}
    assert counted(list(newest.values())) == counted(after.views["invoices"])
    assert {row["country"] for row in after.views["unrated"]} == {"Malta"}
    for row in after.views["taxes"]:
        mine = [i for i in after.views["invoices"] if (i["country"], i["rate"]) == (row["country"], row["rate"])]
        assert (row["sales"], row["net"]) == (len(mine), sum(invoice["net"] for invoice in mine))


def test_saved_searches(story: Any) -> None:
    """Each listing meets the searches of its time, as trying each of them says; one that cannot be read meets nothing."""
    flow, data = story("saved_searches")
    stages = [{"searches": data.searches(later), "listings": data.listings(later, 80)} for later in (False, True)]
    found = run_flow(flow.flow, stages)
    oracle = Search(["title", "description"], language="english")
    searches: dict[str, Any] = {}
    wanted = []
    for stage in stages:
        searches |= {row["search_id"]: row for row in stage["searches"]}
        tried = [row for row in searches.values() if not row.get("_deleted") and row["query"].count('"') % 2 == 0]
        for listing in stage["listings"]:
            mine = [s for s in tried if s["city"] == listing["city"] and listing["price"] <= s["budget"]]
            wanted += [(listing, search) for search in mine if oracle.meets(listing, search["query"])]
    offers = [(row["id"], row["search_id"], row["user"], row["price"]) for row in found.views["offers"]]
    assert sorted(offers) == sorted((x["id"], s["search_id"], s["user"], x["price"]) for x, s in wanted)
    assert len(offers) > 500
    assert len(found.topics["messages"]) == len(offers)
    assert sum(row["offers"] for row in found.views["searches_met"]) == len(offers)
    assert {row["place"] for row in found.views["best"]} == {1, 2, 3}
    (unread,) = found.topics["searches.quarantine"]
    assert unread["search_id"] == "s21"
    assert unread["_error"].endswith('house AND "sea view\n            ^')


def test_company_mentions(story: Any) -> None:
    flow, data = story("company_mentions")
    subscribers, articles = data.subscribers(), data.articles(count=25)
    found = run_flow(flow.flow, [{"subscribers": subscribers}, {"articles": articles}])
    oracle = Search(["title", "body"], fold=True)
    followers: dict[str, list[Any]] = defaultdict(list)
    for row in subscribers:
        followers[row["query"]].append(row)
    wanted = []
    for article in {row["id"]: row for row in articles}.values():
        text = oracle.form(f"{article['title']} {article['body']}")
        for query, mine in followers.items():
            if oracle.form(mine[0]["company"]) in text and oracle.meets(article, query):  # all of them name it
                wanted += [(s["subscriber"], article["id"]) for s in mine if s["source"] in (None, article["source"])]
    assert sorted((row["subscriber"], row["id"]) for row in found.topics["news"]) == sorted(wanted)
    assert len(wanted) > 500
    assert sum(row["readers"] for row in found.views["readers"]) == len(wanted)
    assert sum(row["sent"] for row in found.views["companies"]) == len(wanted)
    assert sum(row["subscribers"] for row in found.views["hourly"]) <= len(wanted)


def sequences(data: ModuleType, key: str) -> dict[str, list[dict[str, Any]]]:
    """The rows of a story by key, each in the order of time."""
    found: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for _, row in sorted(data.events(), key=lambda event: event[1]["at"]):
        found[row[key]].append(row)
    return found


def in_epochs(flow: ModuleType, data: ModuleType, size: int) -> Any:
    arrived = data.events()
    parts = [arrived[start : start + size] for start in range(0, len(arrived), size)]
    return run_flow(flow.flow, [by_topic(part) for part in parts])


@pytest.mark.parametrize("name", PATTERNS)
def test_patterns_are_the_same_in_any_epochs(story: Any, name: str) -> None:
    flow, data = story(name)
    few, many = in_epochs(flow, data, 10_000), in_epochs(flow, data, 150)
    assert any(few.views.values())
    for view in few.views:
        assert counted(few.views[view]) == counted(many.views[view])


def test_machines_that_fall_silent(story: Any) -> None:
    flow, data = story("silent_machines")
    silent = {(row["machine"], row["last_heard"]) for row in in_epochs(flow, data, 500).views["silent"]}
    pause = timedelta(seconds=30)
    for machine, rows in sequences(data, "machine").items():
        for row, after in zip(rows, [*rows[1:], None], strict=True):
            gap = after is None or after["at"] - row["at"] > pause
            assert gap == ((machine, row["at"]) in silent)


def test_machines_that_run_hot(story: Any) -> None:
    flow, data = story("silent_machines")
    found = {
        (row["machine"], row["match_start"], row["match_end"], row["hottest"])
        for row in in_epochs(flow, data, 500).views["hot"]
    }
    expected = set()
    for machine, beats in sequences(data, "machine").items():
        before = [0.0, *(row["celsius"] for row in beats)]
        hot = [row for row, earlier in zip(beats, before, strict=False) if row["celsius"] > 90 >= earlier]
        while len(hot) >= 3:
            three = hot[:3]
            if three[2]["at"] - three[0]["at"] <= timedelta(minutes=10):
                expected.add((machine, three[0]["at"], three[2]["at"], max(row["celsius"] for row in three)))
                hot = hot[3:]
            else:
                hot = hot[1:]
    assert found == expected and expected


def test_cards_that_are_tested(story: Any) -> None:
    flow, data = story("card_testing")
    rows = in_epochs(flow, data, 70).views["tested_cards"]
    found = {
        (row["card"], row["match_start"], row["match_end"]): (row["tries"], row["tried"], row["amount"]) for row in rows
    }
    expected = {}
    for card, payments in sequences(data, "card").items():
        place = 0
        while place < len(payments):
            many, tested = 0, None
            while place + many < len(payments) and payments[place + many]["amount"] < 5:
                many += 1
            while many >= 3 and tested is None:  # as many small ones as possible; fewer where no large one follows
                mean = sum(row["amount"] for row in payments[place : place + many]) / many
                near = [row for row in payments if row["at"] - payments[place]["at"] <= timedelta(minutes=10)]
                tested = next(
                    (n for n in range(place + many, len(near)) if near[n]["amount"] > max(100, 10 * mean)), None
                )
                many -= tested is None
            if tested is None:
                place += 1
                continue
            tried = round(sum(row["amount"] for row in payments[place : place + many]), 2)
            span = (card, payments[place]["at"], payments[tested]["at"])
            expected[span] = (many, tried, payments[tested]["amount"])
            place = tested + 1
    assert found == expected and len(expected) >= 3


def test_payments_abroad(story: Any) -> None:
    flow, data = story("payments_abroad")
    found = {(row["user"], row["match_start"]): row for row in in_epochs(flow, data, 60).views["payments_abroad"]}
    expected = {}
    for user, rows in sequences(data, "user").items():
        place = 1
        while place < len(rows):
            row, beyond = rows[place], place + 1
            if row["country"] != rows[place - 1]["country"]:
                for later in range(place + 1, len(rows)):
                    near = rows[later]["at"] - row["at"] <= timedelta(minutes=5)
                    if near and rows[later]["kind"] == "payment" and rows[later]["amount"] > 500:
                        expected[user, row["at"]] = (row["country"], rows[place - 1]["country"], rows[later]["amount"])
                        beyond = later + 1
                        break
            place = beyond
    assert {key: (row["country"], row["before"], row["amount"]) for key, row in found.items()} == expected


def test_one_database(story: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    """Captured after each of three acts, the flow's views are what SQL over the database gives."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("SHOP", raising=False)
    flow, data = story("one_database")
    import compare  # type: ignore[import-not-found]
    import race  # type: ignore[import-not-found]
    import shop_database  # type: ignore[import-not-found]

    database = shop_database.Database(flow.SHOP)
    stages = []
    with rr.River(tmp_path / "river") as river:
        for act in (lambda: data.fill(database), race.main, lambda: data.change(database)):
            before = {f"shop.{table}": _end(river, f"shop.{table}") for table in ("products", "sales")}
            act()
            river.capture(flow.SHOP, ["products", "sales"], "shop").run(once=True)
            stages.append({topic: _rows(river, topic, end) for topic, end in before.items()})
    found = run_flow(flow.flow, stages)
    for name, sql in compare.QUERIES.items():
        wanted = database.run(sql)
        assert len(found.views[name]) == len(wanted) > 2
        assert compare.differing([tuple(row.values()) for row in found.views[name]], wanted) == 0
    assert compare.differing([(1, "a")], [(1.0, "a"), (2, "a")]) == 1
    assert [sku for (sku,) in database.run("select sku from products where sku in ('p58', 'q58', 'p59')")] == ["q58"]
    database.close()
    printed = [line.partition("<-")[0].strip() for line in capsys.readouterr().out.splitlines()]
    text = (EXAMPLES / "one_database" / "README.md").read_text(encoding="utf-8")
    assert [line.partition("<-")[0].strip() for line in re.findall(r"^p0\d: .*$", text, re.MULTILINE)] == printed


def _end(river: rr.River, topic: str) -> int:
    return river.topic(topic).read().num_rows if topic in river.topics() else 0


def _rows(river: rr.River, topic: str, start: int) -> list[Any]:
    """What was captured since, as flows are given it: the table's columns, and whether the row is gone."""
    rows = sorted(river.topic(topic).read().to_pylist(), key=lambda row: (row["_received"], row["_offset"]))[start:]
    return [{k: v for k, v in row.items() if k[0] != "_" or (k == "_deleted" and v)} for row in rows]


def test_the_dual_write_loses_two_races_of_six(story: Any) -> None:
    story("one_database")
    import race

    lost = []
    for order in race.orders():
        database: dict[str, float] = {}
        cache: dict[str, float] = {}
        race.race(order, "p", database.__setitem__, cache.__setitem__)
        lost += [order] if database != cache else []
    assert len(race.orders()) == 6
    assert lost == ["ABBA", "BAAB"]


def test_price_dips(story: Any) -> None:
    flow, data = story("price_dips")
    dips = in_epochs(flow, data, 90).views["dips"]
    found = sorted((row["symbol"], row["top"], row["bottom"], row["recovered"]) for row in dips)
    expected = []
    for symbol, rows in sequences(data, "symbol").items():
        prices = [row["price"] for row in rows]
        turns = [
            0,
            *(i for i in range(1, len(prices) - 1) if (prices[i] > prices[i - 1]) != (prices[i + 1] > prices[i])),
        ]
        turns.append(len(prices) - 1)
        for top, bottom, end in zip(turns, turns[1:], turns[2:], strict=False):
            if prices[bottom] < prices[top] <= prices[end]:
                expected.append((symbol, prices[top], prices[bottom], prices[end]))
    assert found == sorted(expected)


@pytest.mark.parametrize("name", STORIES)
def test_flows_can_be_loaded_and_drawn(name: str) -> None:
    lines = (EXAMPLES / name / "flow.py").read_text(encoding="utf-8").splitlines()
    assert len(lines) <= 40
    loaded = load_flow(str(EXAMPLES / name / "flow.py"))
    sys.modules.pop("flow", None)
    assert loaded.render().startswith("flowchart")
    text = (EXAMPLES / name / "README.md").read_text(encoding="utf-8")
    for end in (*loaded.views, *loaded.derived):
        assert f"`{end}`" in text, f"README of {name} does not say what {end} is"


@pytest.mark.spark
@pytest.mark.slow  # each starts Spark several times; those of the quickstart are for every day
@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", STORIES)
def test_commands_of_the_readme_run(name: str, tmp_path: Path) -> None:
    run_readme(name, tmp_path)


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.timeout(600)
def test_one_database_of_postgresql_with_a_cache(tmp_path: Path) -> None:
    server = logical_server()
    try:
        environment = {"SHOP": server.url, "CACHE": f"{shared_redis().url}?prefix={tmp_path.name}:"}
        ours = {"sqlite:shop.db": "'$SHOP'", "products,sales": "public.products,public.sales"}
        said = run_readme("one_database", tmp_path, environment, ours)
        assert "cached (redis://" in said
        assert "the cache that requests wrote themselves: wrong for p02, p03" in said
        with shared_redis().client() as client:
            assert client.hgetall(f"{tmp_path.name}:cached:p02") == {b"sku": b"p02", b"price": b"12"}
    finally:
        server.remove()


def run_readme(name: str, tmp_path: Path, given: Mapping[str, str] = {}, ours: Mapping[str, str] = {}) -> str:
    """Run the commands of a story, with other words in them where `ours` has some; what they said."""
    (tmp_path / "examples").symlink_to(EXAMPLES)
    text = (EXAMPLES / name / "README.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```console\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    lines = [line[2:] for block in blocks for line in block.splitlines() if line.startswith("$ ")]
    assert any("--once" in line for line in lines)
    python, riverrun = shlex.quote(sys.executable), shlex.join([sys.executable, "-m", "riverrun.cli"])
    kept = {name: value for name, value in os.environ.items() if name not in ("RIVERRUN_RIVER", "SHOP", "CACHE")}
    said = ""
    for line in lines:
        for theirs, other in ours.items():
            line = line.replace(theirs, other)
        script = f'set -o pipefail; python() {{ {python} "$@"; }}; riverrun() {{ {riverrun} "$@"; }}; {line}'
        done = subprocess.run(
            ["bash", "-c", script], cwd=tmp_path, env={**kept, **given}, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, f"{line}\n{done.stdout}\n{done.stderr}"
        assert done.stdout
        assert "DIFFERENT" not in done.stdout
        said += done.stdout
    return said
