"""The replication connection: messages in, confirmations out."""

from __future__ import annotations

import select
import time
from collections.abc import Callable

import psycopg2

from riverrun.capture.changes import ChangeBatch
from riverrun.capture.postgres.assembly import Assembly
from riverrun.capture.postgres.session import connect, explained
from riverrun.errors import Conflict, RiverrunError, Unavailable

_BATCH_ROWS = 20_000
_BATCH_SECONDS = 0.25
_COMMIT = ord("C")
_SLOT_PATIENCE = 15.0  # seconds; a connection that was closed holds its slot for up to a second, a server for longer


class ReplicationStream:
    """Reads one slot."""

    def __init__(self, url: str, slot: str, publication: str) -> None:
        self._connection = connect(url, replication=True)
        self._cursor = self._connection.cursor()
        self._slot = slot
        self._publication = publication
        self._assembly: Assembly | None = None
        self._batches: list[ChangeBatch] = []
        self.reached = 0

    def start(self, assembly: Assembly, position: int, stopping: Callable[[], bool]) -> None:
        """Begin. A slot that is in use is waited for a little: whoever had it may be letting go of it."""
        deadline = time.monotonic() + _SLOT_PATIENCE
        while True:
            try:
                self._cursor.start_replication(
                    slot_name=self._slot,
                    decode=False,
                    start_lsn=position,
                    options={"proto_version": "1", "publication_names": _quoted(self._publication)},
                )
                break
            except psycopg2.errors.ObjectInUse as error:
                if time.monotonic() > deadline or stopping():
                    raise Unavailable(
                        f"replication slot {self._slot} is in use elsewhere ({_line(error)})",
                        hint="Stop the other capture, or give this one another name",
                    ) from None
                time.sleep(0.2)
            except psycopg2.Error as error:
                raise self._refused(error) from error
        self._assembly, self._batches, self.reached = assembly, [], position

    def read(self, timeout: float) -> ChangeBatch | None:
        """The next batch, waited for a little."""
        if self._batches:
            return self._batches.pop(0)
        try:
            return self._read(timeout)
        except psycopg2.Error as error:
            raise self._refused(error) from error

    def _read(self, timeout: float) -> ChangeBatch | None:
        assembly = self._assembly
        assert assembly is not None
        next_message, feed = self._cursor.read_message, assembly.feed
        begun = time.monotonic()
        while True:
            message = next_message()
            if message is None:
                batch = assembly.take()
                if batch is not None:
                    return self._given(batch)
                if assembly.is_between:
                    self.reached = max(self.reached, self._cursor.wal_end)
                left = begun + timeout - time.monotonic()
                if left <= 0 or not select.select([self._connection], [], [], left)[0]:
                    return None
                continue
            payload = message.payload
            if feed(payload):
                whole = assembly.take()
                part = assembly.take_part()
                if whole is None:
                    return part
                self._batches.append(part)
                return self._given(whole)
            if payload[0] == _COMMIT and (len(assembly) >= _BATCH_ROWS or time.monotonic() - begun > _BATCH_SECONDS):
                batch = assembly.take()
                assert batch is not None
                return self._given(batch)

    def _given(self, batch: ChangeBatch) -> ChangeBatch:
        self.reached = max(self.reached, batch.confirm)
        return batch

    @property
    def sent(self) -> int:
        """What the server may take for confirmed at most, whoever told it."""
        return max(self.reached, int(self._cursor.wal_end or 0))

    def confirm(self, position: int) -> None:
        """Tell the server what it may forget; it also learns that somebody is there."""
        try:
            self._cursor.send_feedback(
                write_lsn=position, flush_lsn=position, apply_lsn=position, reply=True, force=True
            )
        except psycopg2.Error as error:
            raise self._refused(error) from error

    def close(self) -> None:
        try:
            self._connection.close()
        except psycopg2.Error:
            pass

    def _refused(self, error: psycopg2.Error) -> RiverrunError:
        line = _line(error)
        if isinstance(error, psycopg2.errors.ObjectNotInPrerequisiteState) or "no longer" in line:
            return Conflict(
                f"replication slot {self._slot} is no longer usable ({line})",
                hint="The server gave up on it (max_slot_wal_keep_size). Read everything again: --resnapshot all",
            )
        if isinstance(error, psycopg2.errors.UndefinedObject) and "publication" in line:
            return Conflict(
                f"publication {self._publication} was missing when something was written ({line})",
                hint="What was written meanwhile is lost to the capture. Read everything again: --resnapshot all",
            )
        if isinstance(error, psycopg2.errors.UndefinedObject):
            return Conflict(
                f"replication slot {self._slot} is gone ({line})",
                hint="What was written since is lost to the capture. Read everything again: --resnapshot all",
            )
        return explained(error, "the stream of changes has ended")


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _line(error: psycopg2.Error) -> str:
    text = str(error).strip()
    return text.splitlines()[0] if text else type(error).__name__
