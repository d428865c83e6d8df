"""One connection of a capture: from what topics and source say about the past to the loop that goes on from there."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from riverrun.capture.appending import Appender, Destination
from riverrun.capture.changes import (
    BookmarkedSource,
    CapturedTable,
    CaptureSource,
    ChangeBatch,
    LogEnd,
    LogGauge,
    RememberingSource,
    TableTrouble,
)
from riverrun.capture.debezium import Envelopes
from riverrun.capture.forms import TableRows, TopicForm
from riverrun.capture.growth import opened_topic
from riverrun.capture.lag import LagClock
from riverrun.capture.progress import ProgressFile, TableProgress
from riverrun.capture.snapshots import Snapshots
from riverrun.capture.status import CaptureStatus, Rates, TableStatus
from riverrun.capture.topics import renamed_columns, transactions_spec
from riverrun.durations import wall_clock
from riverrun.errors import Conflict, Fenced
from riverrun.failpoints import failpoint
from riverrun.log.captures import Captures

if TYPE_CHECKING:
    from riverrun.river import River

_log = logging.getLogger("riverrun.capture")
_CONFIRM = 1.0  # seconds between two confirmations
_REPORT = 0.5
_HEALTH = 1.0
_IDLE = 0.2  # how long the stream is waited for
ALL = "all"


@dataclass(frozen=True)
class CaptureRequest:
    """What was asked for."""

    address: str
    tables: tuple[str, ...]
    name: str
    snapshot: str
    form: str
    keys: Mapping[str, Sequence[str]]
    publication: str | None
    decimal: str | None


class Captured:
    """The work of a capture while its source is there."""

    def __init__(
        self, river: River, captures: Captures, database: CaptureSource, request: CaptureRequest, again: Sequence[str]
    ) -> None:
        self._river = river
        self._captures = captures
        self._database = database
        self._request = request
        self._again = frozenset(again)
        self._directory = f"{river.path}/captures/{request.name}"
        self._form: TopicForm = Envelopes(request.name, database) if request.form == "debezium" else TableRows()
        self.fence = captures.register(request.name, database.address)
        self._file = ProgressFile(self._directory)
        self._destinations: dict[str, Destination] = {}
        self.status = CaptureStatus(request.name, database.address)
        self._rates = Rates()
        self._confirmed = 0  # durable here
        self._commit_time = 0  # of the last transaction that is durable here
        self._gauge: LogGauge | None = None
        self._telling = threading.RLock()
        self._suspected: tuple[int, Sequence[TableTrouble]] = (0, ())
        self._due = {"confirm": 0.0, "report": 0.0, "health": 0.0}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._gauge is not None:
            self._gauge.close()
        for destination in self._destinations.values():
            destination.save()
        if self._confirmed:
            self._note_confirmed()  # also when the source is gone: it may have been told more than was noted

    def start(self, stopping: Callable[[], bool]) -> None:
        """Look at what is there, and begin to read."""
        progress = self._file.value
        self._check_identity()
        found, troubles = self._database.describe(self._request.tables)
        begun = progress.confirmed is not None
        named = {*(table.id for table in found), *(trouble.table for trouble in troubles)}
        going_on = [name for name, one in progress.tables.items() if one.state not in ("stopped", "left out")]
        known = [name for name in going_on if name in named and begun]
        ending = self._ending(troubles, known)
        if not found and not ending:
            raise Conflict(f"capture {self._request.name} has no table to capture: {'; '.join(map(str, troubles))}")
        self._refuse_unknown([*found, *ending])
        self._leave_out([name for name in going_on if name not in named])
        if isinstance(self._database, BookmarkedSource) and progress.bookmark is not None:
            self._database.recall(progress.bookmark)
        position, lost = self._database.prepare(known, progress.confirmed)
        ending += self._ending(lost, known)
        if not begun:
            progress.confirmed = position
            self._note_bookmark(position)
            progress.generation += 1
            self._file.save()
        lost_ones = {trouble.table for trouble in lost}
        tables = [table for table in found if table.id not in lost_ones and self._open(table)]
        ending = [table for table in ending if self._open(table)]
        self._plan_snapshots(tables, ending, begun)
        producer = self._producer()
        transactions = self._river.topic(transactions_spec(self._request.name))
        for topic in [transactions, *(one.topic for one in self._destinations.values())]:
            for name in (producer, f"{producer}:snapshot"):
                topic.raise_fence(name, self.fence)
        for one in self._destinations.values():
            one.sequence = one.topic.last_sequence(producer) or 0
        failpoint("capture.fenced")
        self._appender = Appender(producer, self.fence, self._form, transactions, self._destinations)
        self._snapshots = Snapshots(
            self._file, self._database, self._appender, self._destinations, self._river.settings.capture_chunk_rows
        )
        self._lag = LagClock(self._appender.last_time() or wall_clock())
        self._appender.record_rest(self._database.show(position))
        self._confirmed = position
        self._database.start(
            [one.table for one in self._destinations.values() if not one.stopped], self._part_rows, stopping
        )
        self._gauge = self._database.gauge()
        self._health()
        self.tell()

    def _leave_out(self, tables: Sequence[str]) -> None:
        """Tables of earlier runs that are not asked for now: what is written to them passes, and nobody keeps it. Noted
        before the source is told of it, and not by a run that is refused."""
        for table in tables:
            self._file.value.tables[table].state = "left out"
            _log.warning(
                "capture %s leaves out %s, which it had captured; its topic stays as it is", self._request.name, table
            )
        if tables:
            self._file.save()

    def _refuse_unknown(self, tables: Sequence[CapturedTable]) -> None:
        """`Conflict` where a table is to be read again that is none of these."""
        unknown = self._again - {name for table in tables for name in (table.id, table.parts[-1])} - {ALL}
        if unknown:
            raise Conflict(f"capture {self._request.name} has no table {', '.join(sorted(unknown))} to read again")

    def _ending(self, troubles: Sequence[TableTrouble], known: Sequence[str]) -> list[CapturedTable]:
        """Tables in trouble whose last changes are still to be read, as they were. The others stop now."""
        source = self._database
        kept = source.remembered(troubles, known) if isinstance(source, RememberingSource) else {}
        for trouble in troubles:
            if trouble.table not in kept:
                self._stopped(trouble)
        return list(kept.values())

    def _producer(self) -> str:
        generation = self._file.value.generation
        return f"capture:{self._request.name}" + (f":{generation}" if generation > 1 else "")

    def _check_identity(self) -> None:
        """The source must be the one it was. Who asks for everything again may begin with another one."""
        progress, identity = self._file.value, self._database.identity()
        if ALL in self._again:
            if self._database.has_slot():
                self._database.forget()
            failpoint("capture.forgotten")
            progress.confirmed, progress.identity = None, identity
            for one in progress.tables.values():
                one.state, one.reason = "waiting", None
            self._file.save()
        elif progress.identity is None:
            if self._database.has_slot():
                raise Conflict(
                    f"the source keeps its changes for a capture named {self._request.name} already, and it is not of this"
                    " river",
                    hint="Give the capture another name, or, if nobody uses it, begin with: --resnapshot all",
                )
            progress.identity = identity
            self._file.save()
        elif progress.identity != identity:
            was = {key: value for key, value in progress.identity.items() if value != identity.get(key)}
            now = {key: identity.get(key) for key in was}
            raise Conflict(
                f"the source is not the one that capture {self._request.name} has read: {was} was, {now} is",
                hint="If it was restored or replaced, read everything again: riverrun capture … --resnapshot all",
            )

    def _open(self, table: CapturedTable) -> bool:
        """Open a table's topic, or note why it cannot go on."""
        topic = opened_topic(self._river, self._form, self._request.name, table)
        if isinstance(topic, TableTrouble):
            self._stopped(topic)
            return False
        before = self._file.value.tables.get(table.id)
        directory = f"{self._directory}/{topic.name}"
        self._destinations[table.id] = Destination(table, topic, 0, directory)
        if before is not None and before.state == "stopped" and not any(topic.ends().values()):
            del self._file.value.tables[table.id]  # it has never been captured, and can be now
        elif before is not None and before.state == "stopped" and not self._is_asked(table):
            self._stopped(TableTrouble(table.id, _advised(before.reason or "It was stopped", table.id)))
            return False
        described = {"table": table.id, "source": self._database.address, "columns": renamed_columns(table)}
        self._captures.describe_topic(topic.name, self._request.name, described)
        self.status.tables[table.id] = TableStatus(topic.name)
        return True

    def _plan_snapshots(self, tables: Sequence[CapturedTable], ending: Sequence[CapturedTable], begun: bool) -> None:
        progress, request = self._file.value, self._request
        self._refuse_unknown([*tables, *ending])
        for table in tables:
            one = progress.tables.get(table.id)
            if one is None:
                state = "done" if request.snapshot == "never" else "waiting"
                progress.tables[table.id] = TableProgress(state=state)
            elif self._is_asked(table) or (request.snapshot == "always" and begun):
                progress.tables[table.id] = TableProgress(state="waiting")
            elif one.state == "left out":
                self._take_in(table, one)
        self._file.save()

    def _take_in(self, table: CapturedTable, one: TableProgress) -> None:
        """A table that was left out of a run, and is asked for again: only its rows say what was written meanwhile."""
        if self._request.snapshot != "never":
            one.state = "waiting"
        elif not any(self._destinations[table.id].topic.ends().values()):
            one.state = "done"  # it begins with what comes, as it would have
        else:
            reason = f"{table.id} was left out of an earlier run, and what was written then is not known"
            self._stopped(TableTrouble(table.id, reason, f"Read it: riverrun capture … --resnapshot {table.id}"))

    def _is_asked(self, table: CapturedTable) -> bool:
        """Whether a table is to be read again."""
        return bool({table.id, table.parts[-1], ALL} & self._again)

    def _part_rows(self, sequence: int) -> int:
        """How many changes make a part of a large transaction: of one that was cut before, as many as then."""
        splitting = self._file.value.splitting
        if splitting is not None and splitting[0] == sequence:
            return splitting[1]
        return self._river.settings.capture_transaction_rows

    def step(self) -> None:
        """A round: what the stream has, a chunk, and what is due."""
        busy = not self._snapshots.are_done
        batch = self._database.read(0.0 if busy else _IDLE)
        if batch is not None:
            self._take(batch)
        elif self._database.reached > self._confirmed:
            self._confirmed = self._database.reached
        if busy and not self._snapshots.step() and batch is None:
            time.sleep(0.02)
        for trouble in self._appender.take_troubles():
            self._stopped(trouble)
        now = time.monotonic()
        if now >= self._due["confirm"]:
            self._due["confirm"] = now + _CONFIRM
            self._note_confirmed()
            failpoint("capture.confirm")
            self._database.confirm(self._confirmed)
        if now >= self._due["health"]:
            self._due["health"] = now + _HEALTH
            self._health()
        self._judge()
        self.tell_if_due()

    def finish(self) -> None:
        """In order: the source is told what it may forget, and everybody how far it came."""
        self._note_confirmed()
        self._database.confirm(self._confirmed)
        self.tell()

    def _take(self, batch: ChangeBatch) -> None:
        if batch.part_of is not None and (self._file.value.splitting or (0, 0))[0] != batch.part_of:
            self._file.value.splitting = (batch.part_of, self._part_rows(batch.part_of))
            self._file.save()
        for table in batch.tables:
            self._grow(table)
        self._appender.append(batch)  # also what a table had before it had to stop
        for trouble in [*batch.troubles, *self._appender.take_troubles()]:
            self._stopped(trouble)
        if not batch.is_part:
            self._confirmed = max(self._confirmed, batch.confirm)
            self._commit_time = int(batch.transactions.times[-1])

    def _grow(self, table: CapturedTable) -> None:
        destination = self._destinations.get(table.id)
        if destination is None:
            return
        topic = opened_topic(self._river, self._form, self._request.name, table)
        if isinstance(topic, TableTrouble):
            self._stopped(topic)
        else:
            destination.grown(table, topic)

    def _stopped(self, trouble: TableTrouble) -> None:
        """A table that cannot go on; the others do."""
        one = self._file.value.tables.setdefault(trouble.table, TableProgress())
        one.state, one.reason = "stopped", str(trouble)
        self._file.save()
        known = self.status.tables.setdefault(trouble.table, TableStatus(""))
        known.state, known.reason = "stopped", str(trouble)
        if trouble.table in self._destinations:
            self._destinations[trouble.table].save()
            self._destinations[trouble.table].stopped = True  # its end is still that of whole transactions

    def has_all(self, target: Callable[[int], int]) -> bool:
        """Whether everything up to a position that the source had is in the topics."""
        if not self._snapshots.are_done:
            return False
        goal = target(self._database.health([]).position)
        return self._database.reached >= goal and self._appender.is_whole

    def _note_confirmed(self) -> None:
        """The source is told nothing that is not on the disk here: also not what a client might say for us."""
        most = max(self._confirmed, self._database.sent)
        if most > (self._file.value.confirmed or 0):
            self._file.value.confirmed = most
            self._note_bookmark(most)
            self._file.save()

    def _note_bookmark(self, position: int) -> None:
        if isinstance(self._database, BookmarkedSource):
            self._file.value.bookmark = self._database.bookmark(position)

    def _health(self) -> None:
        health = self._database.health([one.table for one in self._destinations.values() if not one.stopped])
        self.status.held_bytes = health.held_bytes
        if not self._suspected[1]:
            self._suspected = (health.position, health.troubles)

    def _judge(self) -> None:
        """Tables that a look at the source found in trouble stop when the stream has come to where it was then: it may tell
        more exactly why, and has rows of before."""
        position, troubles = self._suspected
        if self._database.reached < position:
            return
        for trouble in troubles:
            destination = self._destinations.get(trouble.table)
            if destination is None or not destination.stopped:
                self._stopped(trouble)
        self._suspected = (0, ())

    def tell_if_due(self) -> None:
        """As `tell`, now and then. Another thread may: then it is seen how far the source is while this one appends."""
        with self._telling:
            if time.monotonic() >= self._due["report"]:
                self.tell()

    def tell(self) -> None:
        """Look at how far the source is, and tell everybody how far this is."""
        assert self._gauge is not None
        with self._telling:
            confirmed, looked = self._confirmed, wall_clock()
            end = self._gauge.measure(confirmed)
            self._lag.note(end.position, looked)
            self._report(confirmed, end)
            # What fails stays due: the capture's own thread must meet it, whoever came first.
            self._due["report"] = time.monotonic() + _REPORT

    def _report(self, confirmed: int, end: LogEnd) -> None:
        status, progress = self.status, self._file.value
        status.state = "streaming" if self._snapshots.are_done else "snapshot"
        status.reason = None
        status.position = self._database.show(confirmed)
        since = max(self._lag.since(confirmed), self._commit_time)
        status.lag_bytes = end.behind_bytes if end.position > confirmed else 0
        status.lag_seconds = max(wall_clock() - since, 0) / 1e6 if status.lag_bytes else 0.0
        rates = self._rates.note({name: one.rows for name, one in self._destinations.items()})
        for name, destination in self._destinations.items():
            one, table = progress.tables[name], status.tables[name]
            table.state = {"done": "streaming", "stopped": "stopped"}.get(one.state, "snapshot")
            table.reason = one.reason
            table.snapshot_rows, table.snapshot_of = one.rows, one.of
            table.rows, table.rows_per_second = destination.rows, rates[name]
        if not self._captures.report(self._request.name, self.fence, status.plain()):
            raise Fenced(
                f"capture {self._request.name} was taken over by another one of the same name",
                hint="Stop one of them",
            )


def _advised(reason: str, table: str) -> str:
    """Why a table stopped that could go on now, and what it waits for."""
    advice = f"--resnapshot {table}"
    return reason if advice in reason else f"{reason.rstrip('.')}. Once that is mended: riverrun capture … {advice}"
