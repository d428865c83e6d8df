"""Where a journal ends, found from its bytes alone: after a power cut, or when the board cannot be believed."""

from __future__ import annotations

import logging
import mmap
import os
from typing import NamedTuple

import msgspec

from riverrun import durable
from riverrun.errors import Corrupt
from riverrun.log import frame as frames
from riverrun.log.board import Board, Ends
from riverrun.log.frame import MAGIC, NO_PRODUCER, SNAPSHOT, Header
from riverrun.log.segment import Segment, SegmentSnapshot, list_segments, read_index, segment_path

log = logging.getLogger("riverrun.log")


class _Scan(NamedTuple):
    """Whole commits of a segment, as far as they are undamaged."""

    ends: Ends
    size: int


def is_believed(directory: str, board: Board) -> bool:
    """Whether the board is of this boot and this file, and the last commit it names is there, undamaged."""
    return board.is_current and tail_is_good(directory, board.written())


def rebuild_board(directory: str, board: Board, partitions: int) -> None:
    """Let the board say what the bytes do. For somebody who has the topic's lock."""
    if board.is_current and list_segments(directory)[-1:] < [board.written().segment]:
        raise Corrupt(
            f"{segment_path(directory, board.written().segment)} is missing",
            hint="The topic's newest rows were in it; restore it from a copy",
        )
    ends = recover(directory, partitions)
    first = board.is_new and not ends.commit
    board.reset(ends)
    if not first:
        board.count_recovery()


def recover(directory: str, partitions: int) -> Ends:
    """The end of the last whole commit. A torn tail is cut off with one warning; damage in the middle is refused."""
    segments = list_segments(directory)
    if not segments:
        raise Corrupt(
            f"{directory} has no journal", hint="Restore the topic's directory from a copy, or drop the topic"
        )
    while len(segments) > 1 and _is_unborn(segment_path(directory, segments[-1])):
        # The roll was interrupted before its first frame was on disk; what it held was never acknowledged as durable.
        log.warning("%s: removed a segment that was never finished", segment_path(directory, segments[-1]))
        os.unlink(segment_path(directory, segments.pop()))
    for first_commit in segments[:-1]:
        try:
            _check_older(segment_path(directory, first_commit), partitions)
        except FileNotFoundError:
            continue  # retention or compaction, which take no part in the append lock, removed it meanwhile
    path = segment_path(directory, segments[-1])
    scan = _scan(path, segments[-1], partitions)
    if scan.size > scan.ends.end:
        log.warning("%s: cut %d bytes of an unfinished append", path, scan.size - scan.ends.end)
        os.truncate(path, scan.ends.end)
    # All of it will be called durable, and what was checked here may never have been synced.
    durable.sync_data(path)
    durable.sync_directory(directory)
    return scan.ends


def tail_is_good(directory: str, ends: Ends) -> bool:
    """Whether the last commit is there and undamaged. What lies after its end does not matter."""
    try:
        segment = Segment(directory, ends.segment)
    except (FileNotFoundError, Corrupt):
        return False
    size = ends.end - ends.begin
    if segment.size < ends.end:
        return False
    data = segment.bytes_at(ends.begin, size)
    checked = 0
    for at, header in frames.scan(data):
        if not frames.body_is_good(data, at, header):
            return False
        checked = at + header.frame_bytes
    return checked == size


def lies_behind(directory: str, ends: Ends) -> bool:
    """Whether there are bytes, or whole segments, behind an end."""
    return (
        list_segments(directory)[-1:] > [ends.segment]
        or os.path.getsize(segment_path(directory, ends.segment)) > ends.end
    )


def _check_older(path: str, partitions: int) -> None:
    """A segment that has no index yet was perhaps never synced: every byte of it must be good."""
    with open(path, "rb") as file:
        head = frames.parse(memoryview(file.read(1 << 16)), 0)
        size = os.fstat(file.fileno()).st_size
    if head is not None and read_index(path, head, size) is not None:
        return
    scan = _scan(path, int(os.path.basename(path).partition(".")[0]), partitions)
    if scan.size > scan.ends.end:
        raise _damaged(path, scan.ends.end)
    durable.sync_data(path)


def _is_unborn(path: str) -> bool:
    """Whether not even the snapshot at its begin is whole, and nothing that is whole follows."""
    with open(path, "rb") as file:
        data = file.read(1 << 20)
        head = frames.parse(memoryview(data), 0)
        if head is not None and head.frame_bytes > len(data):
            data += file.read(head.frame_bytes - len(data))
    view = memoryview(data)
    whole = head is not None and head.kind == SNAPSHOT and frames.body_is_good(view, 0, head)
    return not whole and not _good_frame_after(view, 0, None)


def _scan(path: str, first_commit: int, partitions: int) -> _Scan:
    size = os.path.getsize(path)
    with open(path, "rb") as file:
        mapped = mmap.mmap(file.fileno(), size, access=mmap.ACCESS_READ) if size else None
    data = memoryview(mapped) if mapped is not None else memoryview(b"")
    try:
        return _Scan(_last_whole_commit(data, path, first_commit, partitions), size)
    finally:
        data.release()
        if mapped is not None:
            mapped.close()


def _last_whole_commit(data: memoryview, path: str, first_commit: int, partitions: int) -> Ends:
    head = frames.parse(data, 0)
    if head is None or head.kind != SNAPSHOT or not frames.body_is_good(data, 0, head):
        raise _damaged(path, 0)
    snapshot = msgspec.msgpack.decode(
        data[head.header_bytes : head.header_bytes + head.body_bytes], type=SegmentSnapshot
    )
    if len(snapshot.offsets) != partitions:
        raise Corrupt(f"{path} has {len(snapshot.offsets)} partitions, its topic {partitions}")
    good = Ends(
        commit=max(first_commit - 1, snapshot.through),
        segment=first_commit,
        end=head.frame_bytes,
        begin=0,
        received=max(snapshot.received, head.received),
        producers=snapshot.appends,
        offsets=snapshot.offsets,
    )
    offsets, begin, at = list(good.offsets), good.end, good.end
    for at, header in frames.scan(data, good.end):
        if not frames.body_is_good(data, at, header):
            break
        if header.part == 0:
            begin = at
        if header.span:
            offsets[header.partition] = header.offset + header.span
        if header.part == header.parts - 1:
            good = Ends(
                commit=header.commit,
                segment=first_commit,
                end=at + header.frame_bytes,
                begin=begin,
                received=max(good.received, header.received),
                producers=good.producers + (header.producer != NO_PRODUCER),
                offsets=tuple(offsets),
            )
    if good.end < len(data) and _good_frame_after(data, good.end, good.commit + 1):
        raise _damaged(path, good.end)
    return good


def _good_frame_after(data: memoryview, at: int, unfinished: int | None) -> bool:
    """Whether a whole frame of another commit than the unfinished one follows: then this is damage, not a torn tail."""
    haystack = bytes(data[at:])
    place = haystack.find(MAGIC)
    while place >= 0:
        header: Header | None = frames.parse(memoryview(haystack), place)
        if header and header.commit != unfinished and frames.body_is_good(memoryview(haystack), place, header):
            return True
        place = haystack.find(MAGIC, place + 1)
    return False


def _damaged(path: str, at: int) -> Corrupt:
    return Corrupt(
        f"{path} is damaged at byte {at}, and good rows follow",
        hint="Restore the file from a copy; nothing was changed",
    )
