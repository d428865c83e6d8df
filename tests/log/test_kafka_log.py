"""A river whose log is Kafka: what others write and read there, what is passed over, what is refused, and how it is named."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import uuid
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from conftest import Riverrun
from kafka_server import shared_kafka
from riverrun.errors import Conflict, Corrupt, Fenced, Invalid, NotFound, Unavailable
from riverrun.log.kafka.address import KafkaAddress
from riverrun.log.kafka.backend import KafkaBackend
from riverrun.log.kafka.mirror import Mirror
from riverrun.log.kafka.refusals import REFUSALS
from riverrun.log.partitioner import partition_of
from riverrun.log.spec import TopicSpec
from riverrun.log.topic import Topic
from riverrun.river import River

AT = datetime(2026, 1, 31, 12, tzinfo=UTC)
SCHEMA = "user string, n bigint, at timestamp"
PAGE = Path(__file__).parents[2] / "docs" / "kafka.md"
Opens = Callable[..., River]


@pytest.fixture
def url() -> str:
    """The broker, with names of topics that are this test's own."""
    return f"{shared_kafka().url}?prefix=log-{uuid.uuid4().hex[:8]}."


@pytest.fixture
def opens(url: str, tmp_path: Path) -> Iterator[Opens]:
    """Opens the river of the test, as often as it likes."""
    opened: list[River] = []

    def open_river() -> River:
        opened.append(River(tmp_path / f"river-{len(opened)}", log=url))
        return opened[-1]

    yield open_river
    for river in opened:
        river.close()


@pytest.fixture
def river(opens: Opens) -> River:
    return opens()


def row(n: int, user: str = "ada") -> dict[str, Any]:
    return {"user": user, "n": n, "at": AT}


def kcat(*arguments: str, given: str = "") -> str:
    if shutil.which("kcat") is None:
        pytest.skip("kcat is not installed: make servers")
    command = ["kcat", "-b", shared_kafka().brokers, *arguments]
    done = subprocess.run(command, input=given, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def kafkas_name(topic: Topic) -> str:
    assert isinstance(topic.backend, KafkaBackend)
    return topic.backend.topic


def backend_of(topic: Topic) -> KafkaBackend:
    assert isinstance(topic.backend, KafkaBackend)
    return topic.backend


def test_rows_are_read_by_other_programs(river: River) -> None:
    topic = river.topic("orders", SCHEMA, key="user", time="at", partitions=2)
    topic.append([row(1), row(2, "bob")])
    topic.delete("ada")
    shown = kcat(
        "-C", "-t", kafkas_name(topic), "-e", "-q", "-X", "isolation.level=read_committed", "-f", "%p|%k|%S|%s\n"
    )
    lines = sorted(line.split("|") for line in shown.splitlines())
    partitions = {user: partition_of(user.encode(), 2) for user in ("ada", "bob")}
    value = '{{"user":"{}","n":{},"at":"2026-01-31T12:00:00Z"}}'
    ada, bob = value.format("ada", 1), value.format("bob", 2)
    assert lines == sorted(
        [
            [str(partitions["ada"]), "ada", str(len(ada)), ada],
            [str(partitions["ada"]), "ada", "-1", ""],
            [str(partitions["bob"]), "bob", str(len(bob)), bob],
        ]
    )


def test_rows_of_other_programs_are_read(river: River) -> None:
    topic = river.topic("orders", SCHEMA, key="user", time="at", partitions=2)
    value = {"n": 7, "at": "2026-01-31T13:00:00+01:00", "more": [1, 2]}
    given = f"ada:{json.dumps({**value, 'user': 'ada'})}\nbob:{json.dumps(value)}\n"
    kcat("-P", "-t", kafkas_name(topic), "-K:", "-X", "partitioner=murmur2_random", given=given)
    found = topic.read().select(["user", "n", "at", "_key", "_partition"]).to_pylist()
    assert sorted(found, key=lambda r: r["user"]) == [
        {"user": user, "n": 7, "at": AT, "_key": user, "_partition": partition_of(user.encode(), 2)}
        for user in ("ada", "bob")
    ]


def test_what_is_no_row_is_passed_over_counted_and_can_be_had(river: River) -> None:
    topic = river.topic("orders", SCHEMA, key="user", time="at", partitions=1)
    topic.append(row(1))
    kcat("-P", "-t", kafkas_name(topic), "-K:", given="ada:{broken\n")
    topic.append(row(2))
    assert topic.read().column("n").to_pylist() == [1, 2]
    assert topic.describe()["undecodable"] == 1
    (bad,) = (one for part in topic.backend.contents(topic.begins(), topic.ends()) for one in part.undecodable)
    assert (bad.key, bad.value, bad.partition, bad.offset) == (b"ada", b"{broken", 0, 2)
    assert "malformed" in bad.error
    with topic.consumer("g", timeout="5 seconds") as consumer:
        got: list[int] = []
        while len(got) < 2:
            got += next(consumer).column("n").to_pylist()
        consumer.commit()
        assert got == [1, 2]
    assert river.lag("g")["rows"] == 0


def test_a_topic_that_others_made_is_opened_by_giving_its_schema(river: River, opens: Opens) -> None:
    connection = backend_of(river.topic("known", SCHEMA)).cluster.connection
    prefix = connection.address.prefix
    connection.create(f"{prefix}foreign", 3, {"retention.ms": 3_600_000})
    assert river.topics() == ["known"]
    with pytest.raises(NotFound, match=r"topic foreign of Kafka .* was made by somebody else.*Give them"):
        river.topic("foreign")
    with pytest.raises(Conflict, match="partitions=3, not 5"):
        river.topic("foreign", SCHEMA, partitions=5)
    topic = river.topic("foreign", SCHEMA, key="user")
    assert (topic.partitions, topic.spec.retention.total_seconds()) == (3, 3600)  # type: ignore[union-attr]
    topic.append(row(1))
    other = opens()
    assert other.topics() == ["foreign", "known"]
    assert other.topic("foreign").read().num_rows == 1
    other.drop_topic("foreign")  # forgets it: its rows are somebody else's
    assert connection.state(f"{prefix}foreign") is not None
    assert other.topics() == ["known"]


@pytest.mark.parametrize("format", ["json", "avro", "arrow"])
def test_every_format_is_read_again(opens: Opens, format: Any) -> None:
    first = opens().topic("t", SCHEMA, key="user", time="at", format=format, partitions=2)
    end = first.append([row(n, f"u{n}") for n in range(100)])
    first.delete("u1")
    first.advance(0, AT)
    second = opens().topic("t")
    assert second.spec.format == format
    assert sorted(second.read(end=end).column("n").to_pylist()) == list(range(100))
    assert second.read(end).column("_deleted").to_pylist() == [True]
    for partition, offset in second.ends().items():  # from everywhere, also from within a message
        table = second.read_offsets({partition: 0}, {partition: offset}, ["_offset"])
        for at in table.column(0).to_pylist()[::9]:
            assert second.read_offsets({partition: at}, {partition: offset}, ["_offset"]).column(0)[0].as_py() == at
    with second.consumer("g", timeout="5 seconds") as consumer:
        got: list[Any] = []
        while len(got) < 101:
            got += next(consumer).column("n").to_pylist()
        consumer.commit()
        assert sorted(n for n in got if n is not None) == list(range(100))
    with second.consumer("g") as consumer:
        assert consumer.poll("2 seconds") is None
    with pytest.raises(Conflict, match=f"format='{format}'"):
        opens().topic("t", format="json" if format != "json" else "avro")


def test_a_producer_gathers_single_rows(river: River) -> None:
    topic = river.topic("t", SCHEMA, key="user")
    with topic.producer(linger="50 ms", name="app") as producer:
        for n in range(500):
            producer.send(row(n, f"u{n}"))
    assert producer.stats.batches < 50
    assert sorted(topic.read().column("n").to_pylist()) == list(range(500))


def test_the_last_process_under_a_fence_wins(opens: Opens) -> None:
    old, new = opens().topic("t", SCHEMA), opens().topic("t", SCHEMA)
    old.append(row(1), producer="run", sequence=1, fence=1)
    new.append(row(2), producer="run", sequence=2, fence=2)
    with pytest.raises(Fenced, match="'run' with fence 1 was superseded by fence 2"):
        old.append(row(3), producer="run", sequence=3, fence=1)
    new.append(row(3), producer="run", sequence=3, fence=2)  # which the refused one has not disturbed
    assert sorted(new.read().column("n").to_pylist()) == [1, 2, 3]


def test_a_topic_made_again_begins_without_memories(river: River) -> None:
    river.topic("t", SCHEMA).append(row(1), producer="p", sequence=5)
    river.drop_topic("t")
    topic = river.topic("t", SCHEMA)
    topic.append(row(2), producer="p", sequence=5)
    assert topic.read().column("n").to_pylist() == [2]


def test_a_group_follows_every_topic_that_matches(opens: Opens) -> None:
    river, other = opens(), opens()
    river.topic("shop.a", SCHEMA).append(row(1))
    river.topic("bank.a", SCHEMA).append(row(2))
    with river.consumer("g", "shop.*", timeout="20 seconds") as consumer:
        assert (next(consumer).column("n").to_pylist(), consumer.topic) == ([1], "shop.a")
        consumer.commit()
        other.topic("shop.b", SCHEMA).append(row(3))
        assert (next(consumer).column("n").to_pylist(), consumer.topic) == ([3], "shop.b")
        consumer.commit()
        assert consumer.assignment == {"shop.a": [0, 1, 2, 3], "shop.b": [0, 1, 2, 3]}
    assert [one["topics"] for one in river.groups.list() if one["group"] == "g"] == [["shop.a", "shop.b"]]
    assert river.lag("g")["rows"] == 0
    river.topic("shop.a").append([row(n) for n in range(3)])
    assert river.lag("g")["rows"] >= 3
    assert river.groups.reset("g", "shop.b") == {0: 0, 1: 0, 2: 0, 3: 0}
    assert river.groups.describe("g")["members"] == []
    river.groups.drop("g")
    with pytest.raises(NotFound, match="there is no group 'g'"):
        river.lag("g")


def test_where_a_group_begins(river: River) -> None:
    topic = river.topic("t", SCHEMA, partitions=1)
    topic.append([row(1), row(2)])
    place = topic.latest
    topic.append([row(3)])
    for start, expected in ((place, [3]), ("committed", None), ("earliest", [1, 2, 3]), ("latest", None)):
        with topic.consumer("starts", start=start) as consumer:
            batch = consumer.poll("2 seconds" if expected is None else "20 seconds")
            assert (None if batch is None else batch.column("n").to_pylist()) == expected, start
            consumer.commit()


def test_a_commit_for_a_partition_that_went_away_is_refused(river: River) -> None:
    topic = river.topic("t", SCHEMA, partitions=2, key="user")
    topic.append([row(n, f"u{n}") for n in range(10)])
    first = topic.consumer("g")
    got = 0
    while got < 10:
        batch = first.poll("20 seconds")
        assert batch is not None
        got += batch.num_rows
    with topic.consumer("g") as second:  # which takes one of the two
        while not (first.assignment and second.assignment):
            first.poll("200 ms")
            second.poll("200 ms")
        with pytest.raises(Fenced, match="group g: partitions went to another member"):
            first.commit()
        first.commit()
    first.close()


def test_forks_have_clients_of_their_own(river: River) -> None:
    topic = river.topic("t", SCHEMA)
    topic.append(row(1))
    child = os.fork()
    if child == 0:
        try:
            topic.append(row(2))
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    topic.append(row(3))
    assert sorted(topic.read().column("n").to_pylist()) == [1, 2, 3]


REFUSED: dict[str, Callable[[River], Any]] = {
    "offsets_at": lambda river: river.topic("t", SCHEMA).offsets_at(AT),
    "queue": lambda river: river.topic("t", SCHEMA).queue("g"),
    "compact": lambda river: river.topic("k", SCHEMA, key="user").compact(),
    "enforce_retention": lambda river: river.topic("t", SCHEMA).enforce_retention(),
    "archive": lambda river: river.topic("a", SCHEMA, archive="old"),
    "versions": lambda river: river.topic("v", SCHEMA, key="user", versions=True),
    "fsync": lambda river: river.topic("f", SCHEMA, fsync="os"),
    "repair": lambda river: river.topic("t", SCHEMA).backend.repair(),
    "capture": lambda river: river.capture("sqlite:x.db", ["t"], "c"),
}


def test_what_kafka_cannot_do_is_refused_with_what_to_use_instead(river: River) -> None:
    assert REFUSED.keys() == REFUSALS.keys()
    for name, call in REFUSED.items():
        with pytest.raises(Unavailable) as raised:
            call(river)
        assert f"is on Kafka, and {name} is not there: {REFUSALS[name].why}" in str(raised.value)
        assert raised.value.hint == REFUSALS[name].instead


def test_the_page_has_the_table_of_what_is_refused() -> None:
    table = PAGE.read_text(encoding="utf-8").partition("## What is refused")[2]
    rows = re.findall(r"^\| `(\w+)` \| (.*?) \| (.*?) \|$", table, re.MULTILINE)
    assert {name: (why, instead) for name, why, instead in rows} == {n: tuple(found) for n, found in REFUSALS.items()}


def test_commands_obey_the_environment_and_the_file(
    riverrun: Riverrun, url: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("RIVERRUN_LOG", url)
    created = riverrun("topic", "create", "clicks", "--schema", "page string", "--key", "page").out
    assert created == f"created topic clicks in {url}\n"
    monkeypatch.delenv("RIVERRUN_LOG")
    assert riverrun("topic", "list", "--json").json == []
    (tmp_path / "riverrun.toml").write_text(f'log = "{url}"\n')
    assert [one["name"] for one in riverrun("topic", "list", "--json").json] == ["clicks"]
    assert "Kafka, messages are json" in riverrun("topic", "describe", "clicks").out
    (tmp_path / "rows.ndjson").write_text('{"page": "/"}\n')
    assert riverrun("topic", "append", "clicks", "rows.ndjson").code == 0
    assert riverrun("topic", "read", "clicks", "--json").lines[0]["page"] == "/"
    assert "enforce_retention is not there" in riverrun("topic", "retain", "clicks").error
    assert f"topics on {url}" in riverrun("doctor", "--river", "elsewhere").out.replace("\n", " ")
    with River.from_config(tmp_path / "riverrun.toml") as river:
        assert river.topics() == ["clicks"]


@pytest.mark.parametrize(
    "address",
    ["kafka:/host", "kafka://", "kafka://a b", "kafka://host?acks=0", "kafka://host/..", "rabbit://host", "host:9092"],
)
def test_what_is_no_address(address: str, tmp_path: Path) -> None:
    with pytest.raises(Invalid):
        River(tmp_path / "river", log=address)


def test_an_address_tells_no_secret() -> None:
    text = "kafka://h?sasl.username=ada&sasl.password=s3cret&ssl.key.password=${KEY}"
    address = KafkaAddress.parse(text)
    assert "s3cret" not in repr(address) + address.public
    assert address.public.endswith("sasl.password=…&ssl.key.password=${KEY}")
    assert address.client_options({"KEY": "k"})["ssl.key.password"] == "k"
    with pytest.raises(Unavailable, match="the environment has no KEY"):
        address.client_options({})


def test_names_that_are_taken(river: River, tmp_path: Path) -> None:
    with River(tmp_path / "plain", log=shared_kafka().url) as plain:
        for name in ("riverrun.catalog", "riverrun.markers", "__consumer_offsets"):
            with pytest.raises(Invalid, match="the name is taken"):
                plain.topic(name, SCHEMA)


def test_a_topic_that_was_deleted_is_no_empty_one(river: River, opens: Opens) -> None:
    topic = river.topic("t", SCHEMA)
    topic.append(row(1))
    connection = backend_of(topic).cluster.connection
    connection.ask(lambda: connection.admin.delete_topics([kafkas_name(topic)]), "delete")
    with pytest.raises(NotFound, match="topic t: Kafka at .* has no topic .* any more"):
        topic.read()
    with pytest.raises(NotFound, match="any more"):
        topic.append(row(2))
    with pytest.raises(Corrupt, match=r"topic t is in the catalogue, but Kafka .* Somebody has deleted it"):
        opens().topic("t", SCHEMA)
    again = opens()
    again.drop_topic("t")
    assert again.topic("t", SCHEMA).read().num_rows == 0


def test_a_mirror_copies_each_message_once(river: River, url: str, riverrun: Riverrun) -> None:
    source = river.topic("orders", SCHEMA, key="user", time="at", partitions=2)
    source.append([row(n, f"u{n % 9}") for n in range(100)])
    kcat("-P", "-t", kafkas_name(source), "-K:", given="u1:{broken\n")
    address = url.replace("?", "/orders?")
    first = riverrun("mirror", address, "copy", "--once", "--json").json
    assert (first["rows"], first["undecodable"]) == (100, 1)
    source.append([row(n, f"u{n % 9}") for n in range(100, 150)])
    source.delete("u3")
    assert riverrun("mirror", address, "copy", "--once").out.startswith("copied 51 rows into copy")
    assert riverrun("mirror", address, "copy", "--once", "--json").json["rows"] == 0
    with River("river") as here:
        copied = here.topic("copy").read()
        assert sorted(n for n in copied.column("n").to_pylist() if n is not None) == list(range(150))
        assert [r["user"] for r in copied.to_pylist() if r["_deleted"]] == ["u3"]
        columns = ["user", "n", "at", "_key", "_partition"]
        same = sorted(map(str, source.read().select(columns).to_pylist()))
        assert sorted(map(str, copied.select(columns).to_pylist())) == same
    assert "has no topic" in riverrun("mirror", url.replace("?", "/nothing?"), "copy", "--once").error


def test_a_mirror_that_is_overtaken_ends(river: River, url: str, tmp_path: Path) -> None:
    source = river.topic("orders", SCHEMA)
    source.append(row(1))
    with River(tmp_path / "copies") as here:
        made = [
            Mirror(url.replace("?", "/orders?"), TopicSpec("copy"), here.topic, here.settings, here.path)
            for _ in range(2)
        ]
        with pytest.raises(Fenced):
            made[0].step()
        made[1].step()
        assert here.topic("copy").read().num_rows == 1
        for one in made:
            one.close()
