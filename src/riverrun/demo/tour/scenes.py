"""The story: each scene shows one promise of the log, and checks it."""

from __future__ import annotations

import os
import time
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from riverrun import figures
from riverrun.demo.tour.roles import ATTEMPTS, BATCH, LOST
from riverrun.demo.tour.stage import Actor, Stage
from riverrun.durations import to_micros
from riverrun.log.topic import Topic

ORDERS = "sender string, number bigint, user string, amount double, at timestamp"
PRODUCERS = 2
MEMBERS = 3


def producers_and_a_group(stage: Stage) -> None:
    """Producers send while a group reads; one member is killed, the others take over."""
    stage.scene("1  Producers and a consumer group", "Several processes append and read at once; no server in between.")
    orders = stage.river.topic("orders", ORDERS, key="user", time="at", partitions=6)
    enough, stop = stage.stop_file("senders"), stage.stop_file("billing")
    senders = [stage.start("produce", f"sender-{i}", enough) for i in range(1, PRODUCERS + 1)]
    members = [stage.start("consume", f"member-{i}", "billing", stop) for i in range(1, MEMBERS + 1)]
    begun = time.monotonic()

    def rows() -> int:
        return sum(orders.ends().values())

    def showing() -> str:
        lag = f", billing is {figures.rows(_lag(stage))} behind" if _owners(stage) else ""
        return f"{figures.rows(rows())} appended by {PRODUCERS} producers{lag}"

    def all_read() -> bool:
        return len(_owners(stage)) == MEMBERS and all(member.read_report() for member in members)

    stage.until(all_read, "all members of the group to read", showing)
    for process, partitions in sorted(_owners(stage).items()):
        stage.screen.say(f"process {process} reads partitions {_listed(partitions)}")
    _kill_a_member(stage, members)
    stage.until(lambda: time.monotonic() - begun > stage.seconds, "the producers to send enough", showing)
    spent = time.monotonic() - begun
    stage.tell_to_stop("senders")
    for sender in senders:
        sender.end()
    stage.until(lambda: _lag(stage) == 0, "the group to catch up", showing)
    stage.tell_to_stop("billing")
    for member in members:
        member.end()
    stage.screen.say(f"{figures.rows(rows())} sent one by one, {figures.rate(rows(), spent)}")
    _check_sent(stage, orders.read(), senders)
    _check_read(stage, orders, members)


def _kill_a_member(stage: Stage, members: list[Actor]) -> None:
    victim = members[0]
    lost = _owners(stage)[victim.process.pid]
    stage.until(lambda: "read" in victim.read_report()[-1], "a member to be in the middle of a batch")
    victim.kill()
    stage.screen.say(f"process {victim.process.pid} is killed (SIGKILL); it had partitions {_listed(lost)}")

    def taken_over() -> bool:
        owned = {
            p for process, partitions in _owners(stage).items() if process != victim.process.pid for p in partitions
        }
        return lost <= owned

    seconds = stage.until(taken_over, "the others to take over")
    stage.check("the others took over its partitions within 10 s", seconds < 10, f"{seconds:.1f} s")


def _check_sent(stage: Stage, rows: pa.Table, senders: list[Actor]) -> None:
    sent = {sender.name: sender.read_report()[-1]["sent"] for sender in senders}
    once, ordered = True, True
    for name, count in sent.items():
        mine = rows.filter(pc.equal(rows.column("sender"), name))
        numbers, partitions = mine.column("number").to_numpy(), mine.column("_partition").to_numpy()
        once &= len(numbers) == count and bool(np.array_equal(np.sort(numbers), np.arange(count)))
        ordered &= all(bool(np.all(np.diff(numbers[partitions == p]) > 0)) for p in np.unique(partitions))
    stage.check("every row that was sent is there, once", once, f"{sum(sent.values())} rows")
    stage.check("each producer's rows are in order in every partition", ordered)


def _check_read(stage: Stage, topic: Topic, members: list[Actor]) -> None:
    ends = topic.ends()
    seen = {p: np.zeros(end, np.int32) for p, end in ends.items()}
    doubtful = 0
    for member in members:
        told = member.read_report()
        for line in told:
            for partition, first, end in line.get("read", ()):
                seen[partition][first:end] += 1
        doubtful += sum(_size(line, "read") - _size(line, "committed") for line in told)
    missing = sum(int(np.sum(counts == 0)) for counts in seen.values())
    twice = sum(int(np.sum(counts - 1)) for counts in seen.values()) + missing
    stage.check("the group has read every row, none is missing", missing == 0, f"{sum(ends.values())} rows")
    stage.check("only what the killed member had not committed was read again", 0 <= twice <= doubtful, f"{twice} rows")


def a_writer_killed(stage: Stage) -> None:
    """A batch is whole or absent, and sending it again does not double it."""
    about = f"{BATCH} rows over all partitions in one append; its process is killed in the middle."
    stage.scene("2  A writer killed in the middle of an append", about)
    orders = stage.river.topic("orders")
    directory = f"{stage.river.path}/topics/orders"
    before, bytes_before = orders.latest, _journal_bytes(directory)

    def counted() -> int:
        return int(pc.sum(pc.equal(orders.read(before, columns=["sender"]).column("sender"), "importer")).as_py() or 0)

    writer = stage.start("append", "importer", 1, failpoints="append.written=kill")
    stage.until(lambda: writer.process.poll() is not None, "the writer to be killed")
    written = _journal_bytes(directory) - bytes_before
    stage.screen.say(f"killed when {figures.size(written)} were in the file, before they were published")
    stage.check("readers see nothing of it", written > 0 and orders.latest == before and not writer.read_report())
    writer = stage.start("append", "importer", 1, failpoints="append.published=kill")
    stage.until(lambda: writer.process.poll() is not None, "the second writer to be killed")
    stage.screen.say(
        "the next writer cut the torn end off; it is killed too, before it hears that its append succeeded"
    )
    writer = stage.start("append", "importer", 1)
    stage.until(lambda: writer.process.poll() is not None, "the third writer")
    stage.check("sent three times, the batch is there once and whole", counted() == BATCH, f"{counted()} rows")
    recoveries = orders.describe()["recoveries"]
    stage.check(
        "its acknowledgement came with the third", len(writer.read_report()) == 1, f"{recoveries} recoveries so far"
    )


def a_queue(stage: Stage) -> None:
    """Messages one by one: redelivered when a worker dies, put aside when they fail too often."""
    stage.scene(
        "3  A queue", "Each message is acknowledged by itself; workers die, and some messages can never succeed."
    )
    count, lost = 300, 7
    emails = stage.river.topic("emails", "id bigint, address string", partitions=2)
    hoarder = stage.start("hoard", "hoarder", "mailers")
    addresses = [f"{i}@{LOST if i < lost else 'ok.example'}" for i in range(count)]
    emails.append(pa.table({"id": range(count), "address": addresses}))
    stage.until(lambda: bool(hoarder.read_report()), "a worker to take a message")
    hoarder.kill()
    held = hoarder.read_report()[0]["taken"]
    stage.screen.say(f"a worker that held message {held} is killed; two others begin")
    stop = stage.stop_file("mailers")
    workers = [stage.start("work", f"worker-{i}", "mailers", stop) for i in (1, 2)]

    def done() -> int:
        return sum("done" in line for worker in workers for line in worker.read_report())

    def showing() -> str:
        return f"{done()} of {count} messages done"

    stage.until(lambda: _lag(stage, "mailers") == 0, "the queue to be empty", showing)
    stage.tell_to_stop("mailers")
    for worker in workers:
        worker.end()
    told = [line for worker in workers for line in worker.read_report()]
    finished = sorted(line["done"] for line in told if "done" in line)
    stage.check(
        "every message that can succeed was done, once", finished == list(range(lost, count)), f"{len(finished)}"
    )
    again = [line["attempt"] for line in told if line.get("taken") == held]
    stage.check("the killed worker's message came to another one", bool(again) and min(again) == 2, "attempt 2")
    dead = stage.river.topic("emails.dead.mailers").read()
    ids = sorted(dead.column("id").to_pylist())
    reasons = set(zip(dead.column("dead_reason").to_pylist(), dead.column("dead_attempts").to_pylist(), strict=True))
    aside = ids == list(range(lost)) and reasons == {("no such address", ATTEMPTS)}
    stage.check(
        f"what failed {ATTEMPTS} times is a dead letter, with the reason", aside, f"{len(ids)}: no such address"
    )


def replay(stage: Stage) -> None:
    """Read again from a time, beside the group that goes on."""
    stage.scene("4  Replay", "The log keeps what happened; a new reader starts at any time, and disturbs nobody.")
    orders = stage.river.topic("orders")
    everything = orders.read()
    times = everything.column("at").cast(pa.int64()).to_numpy()
    moment = everything.column("at")[int(np.argsort(times)[len(times) // 2])].as_py()
    billing = _lag(stage)
    begun = time.perf_counter()
    start = orders.offsets_at(moment)
    took = time.perf_counter() - begun
    stage.screen.say(f"{figures.clock(moment)} is {start} (found in {took * 1e3:.1f} ms)")
    read = sum(batch.num_rows for batch in _group_from(stage, "audit", moment))
    partitions = everything.column("_partition").to_numpy()
    expected = 0
    for p in np.unique(partitions):
        mine = times[partitions == p]
        first = int(np.argmax(mine >= to_micros(moment))) if np.any(mine >= to_micros(moment)) else len(mine)
        expected += len(mine) - first
    stage.check("a new group has read all rows from that time on", read == expected, f"{read} of {len(times)} rows")
    stage.check("the group that reads anyway was not moved", _lag(stage) == billing)


def compaction(stage: Stage) -> None:
    """Of every key the newest row stays, at its offset."""
    stage.scene("5  Compaction", "A topic of current values: old ones go, deleted keys go, offsets stay.")
    prices = stage.river.topic("prices", "sku string, price double", key="sku", compact=True, fsync="os")
    keys, rounds = 1_000, 50
    for i in range(rounds):
        prices.append(pa.table({"sku": [f"sku-{k}" for k in range(keys)], "price": np.arange(keys) + i / 100}))
        stage.screen.moving(f"{i + 1} of {rounds} rounds of prices")
    for k in range(10):
        prices.delete(f"sku-{k}")
    before, size = _current(prices), prices.describe()["bytes"]
    told = prices.compact()
    after, left = _current(prices), prices.describe()["bytes"]
    stage.screen.say(f"{figures.size(size)} → {figures.size(left)}; {told}")
    stage.check("it is smaller", left < size / 5, f"{figures.size(size)} → {figures.size(left)}")
    stage.check("the newest row of every key is the same, at the same offset", after == before, f"{len(after)} keys")
    stage.check("deleted keys stay deleted", len(after) == keys - 10)


SCENES = (producers_and_a_group, a_writer_killed, a_queue, replay, compaction)


def _group_from(stage: Stage, group: str, start: Any) -> Any:
    with stage.river.topic("orders").consumer(group, start=start, timeout=0.5) as consumer:
        for batch in consumer:
            yield batch
            consumer.commit()


def _owners(stage: Stage) -> dict[int, set[int]]:
    """Process → partitions of `orders` that it reads for the group."""
    if not any(one["group"] == "billing" for one in stage.river.groups.list()):
        return {}
    members = stage.river.groups.describe("billing")["members"]
    owners = {one["process"]: set(one["partitions"].get("orders", ())) for one in members}
    return {process: partitions for process, partitions in owners.items() if partitions}


def _lag(stage: Stage, group: str = "billing") -> int:
    groups = [one["group"] for one in stage.river.groups.list()]
    return int(stage.river.lag(group)["rows"]) if group in groups else 1


def _size(line: dict[str, Any], what: str) -> int:
    return sum(end - first for _, first, end in line.get(what, ()))


def _journal_bytes(directory: str) -> int:
    return sum(os.path.getsize(e.path) for e in os.scandir(directory) if e.name.endswith(".journal"))


def _current(topic: Topic) -> dict[str, tuple[float, int]]:
    """Key → (value, offset) after all changes, the slow and certain way."""
    rows = topic.read().sort_by([("_partition", "ascending"), ("_offset", "ascending")])
    current: dict[str, tuple[float, int]] = {}
    for sku, price, offset, deleted in zip(
        *(rows.column(name).to_pylist() for name in ("sku", "price", "_offset", "_deleted")), strict=True
    ):
        if deleted:
            current.pop(sku, None)
        else:
            current[sku] = (price, offset)
    return current


def _listed(partitions: set[int]) -> str:
    return ", ".join(map(str, sorted(partitions)))
