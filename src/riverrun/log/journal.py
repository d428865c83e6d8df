"""The journal of a topic: one file after the other, to which any process of the machine may append.

An append is one contiguous write under a short lock, then one notice on the board. What lies beyond the notice does not
exist: readers never look there, and whoever gets the lock after a holder died cuts it off.
"""

from __future__ import annotations

import fcntl
import os
import threading
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

from riverrun import durable
from riverrun.checksums import checksum
from riverrun.errors import Closed, Corrupt, from_system
from riverrun.failpoints import failpoint
from riverrun.log import frame as frames
from riverrun.log.board import Board, Ends
from riverrun.log.forking import finish_pandas
from riverrun.log.frame import FENCE, NO_PRODUCER, NO_SEQUENCE, Frame, Header, Stamp
from riverrun.log.group_commit import GroupCommit, IntervalSync
from riverrun.log.lock import Locked, refuse_replaced, try_lock
from riverrun.log.producers import Claim, Producers
from riverrun.log.receive_clock import ReceiveClock
from riverrun.log.recovery import is_believed, lies_behind, rebuild_board, recover
from riverrun.log.segment import Segment, SegmentSnapshot, list_segments, segment_path, snapshot_frame
from riverrun.log.segment_writer import SegmentWriter
from riverrun.log.segments import Entry, Segments
from riverrun.settings import Settings


class Journal:
    """One topic's journal in one process. Threads may share it; it survives a fork."""

    def __init__(
        self, directory: str, partitions: int, fsync: str | int, settings: Settings, archive: str | None = None
    ) -> None:
        self.directory = directory
        self.topic = os.path.basename(directory)
        self.fsync = fsync
        self.segments = Segments(directory, archive)
        self.rolled = False  # a new segment was begun since the older ones were looked after
        self._clock = ReceiveClock(self.topic)
        self._partitions = partitions
        self._settings = settings
        self._open_files()
        try:
            self._verify()
        except BaseException:
            self._close_files()
            raise
        _journals.add(self)

    @classmethod
    def create(cls, directory: str, partitions: int) -> None:
        """Write the first segment of a new topic into its directory."""
        snapshot = SegmentSnapshot(offsets=(0,) * partitions, producers={}, appends=0, received=0)
        with durable.new_file(segment_path(directory, 1)) as file:
            file.writelines(frames.encode(snapshot_frame(snapshot), Stamp(0, 1), 0, 0, 0, 0))

    def append(
        self, batch: Sequence[Frame], claim: Claim | None = None, condition: Callable[[Ends], None] | None = None
    ) -> tuple[tuple[int, ...], int]:
        """Append the frames as one commit. Gives the ends of all partitions after it, and its number.

        With fsync="batch" it returns when the commit is on disk. A repeated sequence gives the ends of the first time; its
        fence counts all the same. `condition` is asked what it says of the journal just before; if it raises, nothing
        was appended.
        """
        producer = frames.producer_id(claim.name) if claim else NO_PRODUCER
        with self._section() as ends:
            repeated = self._check(claim, producer, ends)
            if repeated is None:
                if condition is not None:
                    condition(ends)
                commit = ends.commit + 1
                stamp = Stamp(commit, len(batch))
                if claim:
                    stamp = stamp._replace(producer=producer, fence=claim.fence, sequence=claim.sequence)
                result = self._commit(ends, batch, stamp).offsets
            else:
                result, commit = repeated, ends.commit
                if claim and self._track(ends).is_raised(producer, claim.fence):
                    commit += 1
                    self._commit(ends, [_fence_mark()], Stamp(commit, 1, producer, claim.fence))
        self._settle(commit)
        return result, commit

    def _settle(self, commit: int) -> None:
        """Outside the section: make the commit durable as the topic wants it, and tell readers."""
        if self.fsync == "batch":
            self.sync(commit)
            return
        self.wake()
        if self._syncer is not None:
            self._syncer.start()

    def raise_fence(self, claim: Claim) -> None:
        """From now on, older fences of this producer are refused; no row is written."""
        self.append([_fence_mark()], claim)

    def take_over(self, name: str) -> Claim:
        """Raise the producer's fence by one and give it, with the last sequence; no two callers get the same."""
        producer = frames.producer_id(name)
        with self._section() as ends:
            claim = self._track(ends).successor(name, producer)
            commit = ends.commit + 1
            self._commit(ends, [_fence_mark()], Stamp(commit, 1, producer, claim.fence))
        self._settle(commit)
        return claim

    def fence(self, name: str) -> int:
        """The newest fence of this producer, 0 when it has none."""
        with self._section() as ends:
            memory = self._track(ends).memories.get(frames.producer_id(name))
            return memory.fence if memory else 0

    def last_sequence(self, name: str) -> int:
        """The newest sequence of this producer, NO_SEQUENCE when it has none."""
        with self._section() as ends:
            memory = self._track(ends).memories.get(frames.producer_id(name))
            return memory.last_sequence if memory else NO_SEQUENCE

    @property
    def is_open(self) -> bool:
        """Whether it can be used: neither closed here nor dropped by anybody."""
        return not self._closed and not self.board.dropped

    def ends(self) -> Ends:
        """How far readers may look."""
        self._check_open()
        return self.board.durable() if self.fsync == "batch" else self.board.written()

    def written(self) -> Ends:
        """How far the journal is written, which may not be on the disk yet."""
        self._check_open()
        return self.board.written()

    def extent(self, written: bool = False) -> tuple[Ends, list[Entry]]:
        """How far readers may look, or writers, and the segments up to there; at least one."""
        look = self.written if written else self.ends
        while True:
            ends = look()
            try:
                entries = self.segments.entries(ends.segment)
            except Corrupt:
                if look().segment == ends.segment:
                    raise
                continue  # rolled meanwhile, and already removed by retention
            entries = [entry for entry in entries if entry.first_commit <= ends.segment]
            if entries:
                return ends, entries

    def sync(self, commit: int | None = None) -> None:
        """Return when everything up to `commit` is on disk. One process syncs for all that wait."""
        self._group.sync(self.board.written().commit if commit is None else commit)

    def wake(self) -> None:
        """Tell waiting readers; a store into the mapped board raises no event."""
        self._check_open()
        os.pwrite(self._wake_fd, b"\0", 0)

    @contextmanager
    def exclusive(self) -> Iterator[Ends]:
        """The append section without an append: nobody writes meanwhile."""
        with self._section() as ends:
            yield ends

    def roll(self) -> bool:
        """Begin a new segment if the active one has rows, so that all of them can be sealed."""
        with self._section() as ends:
            if self._opened(ends.segment).snapshot.offsets == ends.offsets:
                return False
            self._commit(ends, [_fence_mark()], Stamp(ends.commit + 1, 1), roll=True)
        if self.fsync == "batch":
            self.sync()
        return True

    def repair(self) -> Ends:
        """Look at the bytes again, cut a torn tail, and accept writes again."""
        with self._threads, Locked(self._lock_fd, self.board, self._settings.lock_timeout, self.topic):
            self.board.holder = os.getpid()
            ends = recover(self.directory, self._partitions)
            self.board.reset(ends)
            return ends

    def close(self) -> None:
        """Sync what is written and let go. A second close does nothing."""
        if self._closed:
            return
        if self._syncer is not None:
            self._syncer.stop()
        try:
            if self.fsync != "os" and not self.board.failed and not self.board.dropped:
                self.sync()
        finally:
            _journals.discard(self)
            self._close_files()

    def _open_files(self) -> None:
        self._closed = False
        self._threads = threading.Lock()
        self._writer: SegmentWriter | None = None
        self._tracked: Producers | None = None
        self._tracked_at = (0, 0)
        self._head = (0, 0)  # the active segment, and the size of its first frame
        self._syncer = IntervalSync(self.sync, self.fsync) if isinstance(self.fsync, int) else None
        with ExitStack() as opened:  # closed again when one of the others cannot be opened
            self._lock_fd = durable.open_file(f"{self.directory}/lock", os.O_RDWR | os.O_CREAT)
            opened.callback(os.close, self._lock_fd)
            self._wake_fd = durable.open_file(f"{self.directory}/wake", os.O_RDWR | os.O_CREAT)
            opened.callback(os.close, self._wake_fd)
            self.board = Board(f"{self.directory}/state", self._partitions)
            opened.callback(self.board.close)
            self._group = GroupCommit(self.directory, self.board, self._publish_durable, lambda: self._writer)
            opened.pop_all()

    def _close_files(self) -> None:
        self._closed = True
        for fd in (self._lock_fd, self._wake_fd):
            os.close(fd)
        self._writer = None
        self._group.close()
        self.board.close()
        self.segments.close()

    def after_fork(self) -> None:
        """In the child: open everything anew. Unlocking an inherited descriptor would free the parent's lock."""
        if not self._closed:
            archive = self.segments.archive
            self._close_files()
            self.segments = Segments(self.directory, archive)
            self._open_files()

    def _verify(self) -> None:
        """Let the board say what is there."""
        if is_believed(self.directory, self.board):
            if lies_behind(self.directory, self.board.written()) and try_lock(self._lock_fd):
                # Nobody is appending, so the board is older than the journal: somebody has put a copy of it back.
                try:
                    if lies_behind(self.directory, self.board.written()):
                        rebuild_board(self.directory, self.board, self._partitions)
                finally:
                    fcntl.flock(self._lock_fd, fcntl.LOCK_UN)
            return
        with self._threads, Locked(self._lock_fd, self.board, self._settings.lock_timeout, self.topic):
            if not is_believed(self.directory, self.board):
                rebuild_board(self.directory, self.board, self._partitions)

    @contextmanager
    def _section(self) -> Iterator[Ends]:
        self._check_open()
        board = self.board
        with self._threads, Locked(self._lock_fd, board, self._settings.lock_timeout, self.topic):
            try:
                refuse_replaced(self._lock_fd, f"{self.directory}/lock", self.topic)
                if board.holder:  # it died in here
                    self._cut_back()
                    board.count_recovery()
                board.holder = os.getpid()
                failpoint("append.locked")
                try:
                    self.board.refuse_failed(self.topic)
                    yield board.written()
                except BaseException:
                    self._cut_back()  # if this fails too, the holder stays marked and the next one cuts
                    board.holder = 0
                    raise
                board.holder = 0
            except OSError as error:
                raise from_system(error, f"topic {self.topic}: nothing was appended") from error

    def _check_open(self) -> None:
        if self._closed:
            raise Closed(f"topic {self.topic} is closed")
        self.board.refuse_dropped(self.topic)

    def _cut_back(self) -> None:
        """Remove whatever lies beyond the published end."""
        ends = self.board.written()
        for first_commit in list_segments(self.directory):
            path = segment_path(self.directory, first_commit)
            if first_commit > ends.segment:
                os.unlink(path)
            elif first_commit == ends.segment and os.path.getsize(path) > ends.end:
                os.truncate(path, ends.end)
        if self._writer is not None and self._writer.first_commit > ends.segment:
            self._writer = None

    def _check(self, claim: Claim | None, producer: bytes, ends: Ends) -> tuple[int, ...] | None:
        if claim is None:
            return None
        producers = self._track(ends)
        producers.admit(self.topic, claim, producer, self._settings)
        return producers.check(self.topic, claim.name, producer, claim.fence, claim.sequence)

    def _track(self, ends: Ends) -> Producers:
        """The producers as of `ends`: headers that other processes appended since the last look are read."""
        segment_of, at = self._tracked_at
        if self._tracked is None or segment_of != ends.segment:
            segment = self._opened(ends.segment)
            self._tracked, at = Producers(segment.snapshot), segment.data_begin
        if at < ends.end:
            for _, header in frames.scan(self._opened(ends.segment).bytes_at(at, ends.end - at)):
                self._tracked.observe(header)
        self._tracked_at = (ends.segment, ends.end)
        return self._tracked

    def _opened(self, segment: int) -> Segment:
        return self.segments.open(self.segments.entries(segment)[-1])

    def _commit(self, ends: Ends, batch: Sequence[Frame], stamp: Stamp, roll: bool = False) -> Ends:
        received = self._clock.next(ends.received)
        segment, at = ends.segment, ends.end
        buffers: list[Any] = []
        roll = roll or at - self._head_bytes(segment) >= self._settings.segment_bytes
        if roll:
            buffers, segment = self._first_frame(ends, stamp.commit, received), stamp.commit
            at = sum(map(len, buffers))
        begin, offsets, headers = at, list(ends.offsets), []
        for part, frame in enumerate(batch):
            encoded = frames.encode(frame, stamp, part, offsets[frame.partition], received, received)
            headers.append(encoded[0])
            buffers += encoded
            at += frame.frame_bytes
            offsets[frame.partition] += frame.span
        writer = self._opened_writer(segment, create=roll)
        failpoint("append.begin")
        durable.write_all(writer.fd, buffers, 0 if roll else ends.end)
        failpoint("append.written")
        after = Ends(
            commit=stamp.commit,
            segment=segment,
            end=at,
            begin=begin,
            received=received,
            producers=ends.producers + (stamp.producer != NO_PRODUCER),
            offsets=tuple(offsets),
        )
        self.board.publish_written(after)
        if roll:
            self.rolled, self._head = True, (segment, begin)
        failpoint("append.published")
        if self._tracked is not None and not roll and self._tracked_at == (ends.segment, ends.end):
            for header in headers:
                parsed = frames.parse(memoryview(header), 0)
                assert isinstance(parsed, Header)
                self._tracked.observe(parsed)
            self._tracked_at = (after.segment, after.end)
        return after

    def _head_bytes(self, segment: int) -> int:
        """What a segment begins with: all that was known of producers, which may be much."""
        if self._head[0] != segment:
            self._head = (segment, Segment(self.directory, segment).data_begin)
        return self._head[1]

    def _first_frame(self, ends: Ends, commit: int, received: int) -> list[Any]:
        """What the new segment begins with. Without producers there is nothing to look up."""
        producers = self._track(ends).snapshot(received, self._settings.producer_expiry) if ends.producers else {}
        snapshot = SegmentSnapshot(
            offsets=ends.offsets,
            producers=producers,
            appends=ends.producers,
            received=received,
            previous=ends.segment,
        )
        failpoint("roll.begin")
        return frames.encode(snapshot_frame(snapshot), Stamp(commit, 1), 0, 0, received, received)

    def _opened_writer(self, segment: int, create: bool) -> SegmentWriter:
        writer = self._writer
        if writer is None or writer.first_commit != segment:
            writer = self._writer = SegmentWriter(self.directory, segment, create)
            if create:
                failpoint("roll.created")
        return writer

    def _publish_durable(self, written: Ends) -> None:
        with self._section():
            if self.board.durable().commit < written.commit:
                self.board.publish_durable(written)
        self.wake()


def _fence_mark() -> Frame:
    return Frame(partition=0, rows=0, body=b"", body_crc=checksum(b""), kind=FENCE)


_journals: weakref.WeakSet[Journal] = weakref.WeakSet()


def _after_fork() -> None:
    for journal in list(_journals):
        journal.after_fork()


os.register_at_fork(before=finish_pandas, after_in_child=_after_fork)
