"""A capture: the changes of a database as topics, until it is stopped. The shell around everything else here.

One thread does everything in turn: it reads the stream, appends, confirms, reads a chunk of a snapshot, reports. Another one
reports, too, so that it is seen how far the source is ahead of a capture that is busy or stuck.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, Self

from riverrun.capture.captured import Captured, CaptureRequest
from riverrun.capture.lag_watch import LagWatch
from riverrun.capture.sources import check_address, check_keys, open_database
from riverrun.capture.status import CaptureStatus
from riverrun.capture.topics import check_capture_name
from riverrun.errors import Fenced, Invalid, RiverrunError, Transient
from riverrun.log.captures import Captures

if TYPE_CHECKING:
    from riverrun.river import River

_log = logging.getLogger("riverrun.capture")
_PAUSES = (0.2, 0.5, 1.0, 2.0, 5.0)  # seconds before the source is tried again
FORMS = ("rows", "debezium")
SNAPSHOTS = ("initial", "never", "always")


class Capture:
    """Captures tables of a database. `run` does it here, until `stop`; as a context manager it runs in the background."""

    def __init__(
        self,
        river: River,
        captures: Captures,
        address: str,
        tables: Sequence[str],
        name: str,
        *,
        snapshot: Literal["initial", "never", "always"] = "initial",
        form: Literal["rows", "debezium"] = "rows",
        keys: Mapping[str, Sequence[str]] | None = None,
        publication: str | None = None,
        decimal: str | None = None,
        resnapshot: Sequence[str] = (),
    ) -> None:
        self.name = check_capture_name(name)
        if isinstance(tables, str) or not tables or not all(isinstance(table, str) and table for table in tables):
            raise Invalid(f"capture {name}: tables must be a list of names", hint='Write tables=["public.orders"]')
        for option, value, known in (("snapshot", snapshot, SNAPSHOTS), ("form", form, FORMS)):
            if value not in known:
                raise Invalid(f"capture {name}: {option} is {' or '.join(known)}, not {value!r}")
        wanted = {table: [key] if isinstance(key, str) else list(key) for table, key in (keys or {}).items()}
        check_keys(check_address(address), tables, wanted)
        self._request = CaptureRequest(
            address,
            tuple(dict.fromkeys(tables)),
            self.name,
            snapshot,
            form,
            wanted,
            publication,
            decimal,
        )
        self._again = tuple(resnapshot)
        self._river = river
        self._captures = captures
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None
        self._failed: BaseException | None = None
        self._status = CaptureStatus(self.name, "")
        self._target: int | None = None
        self._fence = 0
        self._running = threading.Event()

    def __enter__(self) -> Self:
        if self._thread is not None:
            raise Invalid(f"capture {self.name} runs already")
        self._thread = threading.Thread(target=self._run_kept, name=f"riverrun-capture-{self.name}", daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def run(self, once: bool = False, progress: Callable[[CaptureStatus], None] | None = None) -> None:
        """Capture until `stop` is called; with `once`, up to where the source is now. What may pass is waited for: a server
        that restarts, a network that is cut. Raises what will not pass, with what to do about it."""
        attempt = 0
        try:
            while not self._stopping.is_set():
                begun = time.monotonic()
                try:
                    if self._work(once, progress):
                        break
                except Transient as error:
                    attempt = 0 if time.monotonic() - begun > 60 else attempt
                    self._wait(error, _PAUSES[min(attempt, len(_PAUSES) - 1)], progress)
                    attempt += 1
        except Fenced:
            self._status.state, self._status.reason = "stopped", "another capture of this name has taken over"
            raise
        except RiverrunError as error:
            self._status.state, self._status.reason = "failed", str(error)
            self._report(alive=False)
            raise
        self._status.state = "stopped"
        self._report(alive=False)

    def stop(self, timeout: float | None = 30.0) -> None:
        """End: what was read is appended and confirmed. A second call does nothing."""
        self._stopping.set()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(timeout)

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until a capture in the background has ended; whether it has. Raises what it ended with."""
        if self._thread is not None:
            self._thread.join(timeout)
            if self._thread.is_alive():
                return False
        if self._failed is not None:
            raise self._failed
        return True

    def wait_until_it_runs(self, timeout: float | None = None) -> bool:
        """Wait until a capture in the background has its topics and reads; whether it does. Raises what it ended with."""
        deadline = None if timeout is None else time.monotonic() + timeout
        while not self._running.wait(0.05):
            if self.wait(0) or (deadline is not None and time.monotonic() > deadline):
                return False
        return True

    def status(self) -> dict[str, Any]:
        """State, position, lag, and of each table its state, snapshot and rate."""
        return self._status.plain()

    def _run_kept(self) -> None:
        try:
            self.run()
        except BaseException as error:
            self._failed = error
            if not isinstance(error, RiverrunError):
                self._status.state, self._status.reason = "failed", f"{type(error).__name__}: {error}"
            _log.warning("capture %s has ended: %s", self.name, error)

    def _work(self, once: bool, progress: Callable[[CaptureStatus], None] | None) -> bool:
        """One connection: True when what `once` asked for is done, or it was stopped."""
        request = self._request
        database = open_database(request.address, self.name, request.keys, request.publication, request.decimal)
        try:
            with Captured(self._river, self._captures, database, request, self._again) as captured:
                self._status, self._fence = captured.status, captured.fence
                captured.start(self._stopping.is_set)
                self._running.set()
                self._again = ()
                if request.snapshot == "always":  # once for this call, not whenever the source comes back
                    self._request = replace(request, snapshot="initial")
                with LagWatch(self.name, captured.tell_if_due):
                    while not self._stopping.is_set():
                        captured.step()
                        if progress is not None:
                            progress(self._status)
                        if once and captured.has_all(self._reach):
                            break
                captured.finish()
                return True
        finally:
            database.close()

    def _reach(self, now: int) -> int:
        """Where `once` ends: where the source was when it was first asked."""
        self._target = now if self._target is None else self._target
        return self._target

    def _wait(self, error: Transient, pause: float, progress: Callable[[CaptureStatus], None] | None) -> None:
        self._status.state, self._status.reason = "waiting", str(error)
        self._report()
        if progress is not None:
            progress(self._status)
        self._stopping.wait(pause)

    def _report(self, alive: bool = True) -> None:
        if self._fence:
            self._captures.report(self.name, self._fence, self._status.plain(), alive)
