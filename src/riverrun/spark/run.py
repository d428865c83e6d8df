"""A running flow: started, resumed, restarted after failures, drained, stopped."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import msgspec

from riverrun.alerts.alerts import Alerts
from riverrun.calls import answering
from riverrun.durations import Duration, from_micros, seconds, wall_clock
from riverrun.errors import Closed, Conflict, Fenced, RiverrunError, TimedOut, Transient
from riverrun.flow import Flow
from riverrun.habits import RUN_METHODS
from riverrun.log.topic import Start
from riverrun.position import Position
from riverrun.river import River
from riverrun.runtime.admission import Admission, admitted, forgotten, refuse_drained
from riverrun.runtime.bucket_owner import claim
from riverrun.runtime.commit import Committer
from riverrun.runtime.compile.engines import engines_of
from riverrun.runtime.heritage import GONE, Heritage, refuse_place
from riverrun.runtime.home import make_home
from riverrun.runtime.incumbency import Incumbency, say_takeover
from riverrun.runtime.lag import measure_lag
from riverrun.runtime.manifest import Manifest, home_of
from riverrun.runtime.opening import check_written, mend_checkpoint, open_outputs, shut_out
from riverrun.runtime.outputs import declare_views
from riverrun.runtime.patience import Patience
from riverrun.runtime.rebuild import clean
from riverrun.runtime.status import EpochTimes, FlowState, FlowStatus
from riverrun.runtime.stored_status import read_status
from riverrun.runtime.transactions import WholeTransactions, find_transactions
from riverrun.spark import failures
from riverrun.spark.context import RunContext
from riverrun.spark.deployment import Deployment
from riverrun.spark.lifecycle import Lifecycle, Phase
from riverrun.spark.progress import RunProgress
from riverrun.spark.query import EpochQuery
from riverrun.spark.rebuild import Rebuild, Rebuilds
from riverrun.spark.session import cores
from riverrun.views import Last

log = logging.getLogger("riverrun.spark")

_LOOK = 2  # seconds between two looks whether a newer run has taken over
_ENDING = 30  # seconds until a run that was stopped is not waited for any more


@answering("run", RUN_METHODS)
class Run:
    """One run of a flow. Processes in the background until it is stopped or drained; a context manager stops it."""

    def __init__(
        self,
        river: River,
        flow: Flow,
        start: Start = None,
        suffix: str = "",
        max_rows: int | None = None,
        committer: Callable[..., Committer] = Committer,
        rebuild: bool = False,
        send: bool = True,
        alerts_from: Start = None,
    ) -> None:
        self.flow = flow
        self.name = flow.name + suffix
        self._alerts = Alerts(river, flow, suffix, send)
        self._store = river.store
        self._make_committer = committer
        self._lifecycle = Lifecycle()
        self._patience = Patience(f"flow {self.name}", self._lifecycle)
        self._incumbency = Incumbency(self.name, self._store)
        self._progress = RunProgress()
        self._fence = 0
        self._finishing = False
        self._next_try: int | None = None
        context = RunContext.open(river, flow, start, suffix, max_rows)
        admission = self._admit(context, rebuild)
        self._context = context.compile(admission.known)
        self._topics = open_outputs(river, flow, self._context.job, self._context.inputs, suffix)
        self._rebuilds = Rebuilds(self._context, self._check_going_on)
        heritage = self._find_heritage(admission.home, alerts_from)
        say_takeover(self.name, self._store, bool(admission.anew or heritage))
        claim(river.checkpoints, self._store)
        self._query: EpochQuery
        if admission.anew or heritage:
            why = admission.anew or (GONE if alerts_from is None else f"begins its topics and alerts at {alerts_from}")
            log.warning("flow %s %s: its views are computed from the log again", self.name, why)
            if names := forgotten(
                self._context.inputs, self._context.start
            ):  # of a store that is gone: there is no better
                log.warning("flow %s: the beginning of %s is gone, and not in its views", self.name, ", ".join(names))
            self._query = self._rebuilds.begin(self._progress, heritage).query
        else:
            self._take_over()
            self._go_live(self._resume(admission.home))
        self._watcher = threading.Thread(target=self._watch, name=f"riverrun-{self.name}", daemon=True)
        self._watcher.start()
        self._alerts.start(self)

    def __enter__(self) -> Run:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def process(self, timeout: Duration | None = None) -> None:
        """Wait until everything appended before this call has taken effect; of captured databases, every transaction that
        was there as a whole."""
        inputs, river = self._context.inputs, self._context.river
        whole = WholeTransactions(inputs, find_transactions(inputs, set(river.topics()), river.topic))
        wanted = Position(whole.ends())

        def done() -> bool:
            if not self._lifecycle.was_live:
                return False
            last = self._query.committer.last
            if wanted <= Position(last.positions):
                return True
            refuse_drained(self.name, last, self._context.inputs)
            return False

        self._wait(done, timeout, "process what was appended")

    def drain(self, timeout: Duration | None = None) -> None:
        """Treat the input as finished: close every window, commit, stop."""
        self._finishing = True
        self._query.deployment.finish(True)
        self._wait(lambda: self._lifecycle.was_live and self._is_final(), timeout, "drain")
        self.stop()

    def rebuild(self, timeout: Duration | None = None) -> None:
        """Compute the views from the log again while the run goes on, then put them in place of the ones there are, at
        once. No topic is written again. After `timeout`, or if it fails, everything is as it was."""
        limit = seconds(timeout)
        deadline = None if limit is None else time.monotonic() + limit
        self._wait(lambda: self._lifecycle.was_live, timeout, "rebuild its views")
        self._admit(self._context, rebuild=True)
        self._rebuilds.beside(self.name, deadline)

    def wait(self, timeout: Duration | None = None) -> bool:
        """Whether the run has ended, waiting so long for it. Raises what made it fail."""
        ended = self._lifecycle.wait_for(Phase.ENDED, seconds(timeout))
        if self._lifecycle.failure is not None:
            raise self._lifecycle.failure
        return ended

    def stop(self, patience: Duration | None = None) -> None:
        """Finish the epoch and stop. What was processed stays; the next run goes on from there.

        An epoch that takes longer than `patience` is given up, and done again by the next run.
        """
        if not self._lifecycle.has_ended:
            self._lifecycle.reach(Phase.STOPPING)
            # The epoch in progress is finished first, unless it waits for something that is away.
            self._query.halt(seconds(patience))
            if not self._lifecycle.was_live:
                self._lifecycle.wait_for(Phase.ENDED, _ENDING)  # a rebuild is given up
            self._query.stop()
            self._lifecycle.wait_for(Phase.ENDED, _ENDING)
        self._alerts.stop()

    def status(self) -> dict[str, Any]:
        """Where the run is, as plain data: what `observe` gives as JSON has it, times as strings."""
        return self.observe().plain()

    def observe(self) -> FlowStatus:
        """Where the run is, and how it got on; answers after the end, too."""
        query = self._query
        query.report()
        inputs = self._context.inputs
        last = replace(query.committer.last, fence=self._fence)
        lag = measure_lag(inputs, last.positions if last.epoch else self._context.start or {})
        return FlowStatus(
            **msgspec.structs.asdict(read_status(self.name, last, lag, query.deployment.home)),
            state=self._state(),
            reason=self._reason(),
            next_try=from_micros(at) if (at := self._next_try) else None,
            rebuild=self._rebuilds.progress,
            rows_per_second=self._progress.rate(),
            times=self._progress.times(inputs, cores()),
            exchange_bytes=self._progress.exchanged,
            nodes=self._progress.nodes(inputs),
            figures=dict(self._progress.figures),
            clocks={
                node: {device: offset / 1e6 for device, offset in offsets.items()}
                for node, offsets in dict(self._progress.clocks).items()
            },
            alerts=self._alerts.status(),
            expressions=tuple(engines_of(self._context.job)),
        )

    def epochs(self) -> list[EpochTimes]:
        """The last hundred epochs of this run, oldest first: when, how many rows, and what their time went to."""
        self._query.report()
        return self._progress.recent(self._context.inputs, cores())

    def ledger(self) -> list[dict[str, Any]]:
        """Where every row went, in total."""
        return [dict(entry) for entry in self._query.committer.last.ledger or []]

    def _state(self) -> FlowState:
        """running, rebuilding, waiting (for a store or a disk), failing (and trying again), drained, stopped, failed."""
        if self._lifecycle.failure is not None:
            return "failed"
        if self._lifecycle.was_live and self._is_final():
            return "drained"
        if self._lifecycle.has_ended:
            return "stopped"
        if self._patience.waiting is not None:
            return "waiting"
        if self._query.trouble is not None:
            return "failing"
        return "running" if self._rebuilds.current is None else "rebuilding"

    def _reason(self) -> str | None:
        if self._patience.waiting is not None:
            return self._patience.waiting
        error = self._lifecycle.failure or self._query.trouble
        if error is not None:
            return failures.cause(error)
        rebuild = self._rebuilds.progress
        return None if rebuild is None or self._lifecycle.has_ended else f"{rebuild.rows} of {rebuild.of} rows"

    def _is_final(self) -> bool:
        last = self._query.committer.last
        return bool(last.manifest and Manifest.decode(last.manifest).final)

    def _wait(self, done: Callable[[], bool], timeout: Duration | None, what: str) -> None:
        limit = seconds(timeout)
        deadline = None if limit is None else time.monotonic() + limit
        while not done():
            if self._lifecycle.failure is not None:
                raise self._lifecycle.failure
            if self._lifecycle.has_ended:
                raise Closed(f"flow {self.name} was stopped before it could {what}")
            if deadline is not None and time.monotonic() > deadline:
                raise TimedOut(f"flow {self.name} did not {what} in time")
            self._store.pause(0.02)

    def _take_over(self) -> int:
        self._fence = shut_out(self.name, self._store, self._topics.values())
        return self._fence

    def _admit(self, context: RunContext, rebuild: bool) -> Admission:
        parts = (self.name, self.flow, self._store, context.river.checkpoints, context.inputs, context.start)
        return admitted(*parts, rebuild, context.river.settings.shards)

    def _find_heritage(self, home: str, alerts_from: Start) -> Callable[[], Last] | None:
        """How far the topics of a flow are whose views are not there; None where the store knows it, and of a new flow."""
        last = self._store.last(self.name)
        if alerts_from is not None:
            refuse_place(self.name, last)
        if last.epoch:
            return None
        inputs, topics = self._context.inputs, list(self._topics.values())
        first = self._context.start or {name: topic.begins() for name, topic in inputs.items()}
        left = Heritage(self.name, self._store, self._context.river.checkpoints, inputs, topics, first)
        if alerts_from is not None:
            return left.begin_at(alerts_from)

        return left.recall() if left.is_there(home) else None

    def _resume(self, home: str) -> Deployment:
        """What a run goes on with that takes everything as it is. Views exist before the first epoch."""
        context = self._context
        now = self._store.last(self.name)  # of the run that was shut out just now
        if home_of(context.river.checkpoints, self.name, now) != home:
            raise Conflict(f"flow {self.name} was rebuilt while it was being started", hint="Run it again")
        refuse_drained(self.name, now, context.inputs)
        check_written(self.name, now, home, self._topics.values())
        mend_checkpoint(self.name, now, home, self._topics.values())
        declare_views(self._store, self.flow, context.job, self._fence, context.suffix)
        clean(context.river.checkpoints, self.name, self._store)
        return context.deploy(home)

    def _go_live(self, deployment: Deployment) -> None:
        """Take in what comes, from where the home store is."""
        context = self._context
        make_home(deployment.home)
        parts = (self.flow, context.job, self._store, self._topics, deployment.home, context.suffix, self._fence)
        committer = self._patience.through(lambda: self._make_committer(*parts))
        around = context.surroundings(f"flow {self.name}", self._patience, self._progress)
        self._query = EpochQuery(around, deployment, committer, self._check_fence)
        deployment.finish(self._finishing)
        self._query.start()
        self._incumbency.begin(self._fence)
        self._lifecycle.reach(Phase.LIVE)

    def _check_fence(self) -> None:
        if self._lifecycle.is_stopping:
            raise Closed(f"flow {self.name} is being stopped")
        self._patience.through(lambda: self._store.check_fence(self.name, self._fence))

    def _watch(self) -> None:
        """Until the run is stopped, shut out, or fails for good."""
        try:
            if not self._lifecycle.was_live:
                take_over = self._patience.through
                self._go_live(self._rebuilds.first(lambda: take_over(self._take_over), self._topics.values()))
            self._keep_running()
        except Exception as error:
            if not self._lifecycle.is_stopping:
                if isinstance(error, Fenced):
                    self._alerts.stop(patience=0)  # the newer run sends them
                self._lifecycle.fail(error)
        finally:
            self._incumbency.end()
            self._lifecycle.reach(Phase.ENDED)

    def _keep_running(self) -> None:
        again = False
        while not self._lifecycle.is_stopping:
            try:
                rebuilt = self._rebuilds.claim()
                if rebuilt is not None:
                    self._switch(rebuilt)
                elif again:
                    self._query.start()
                again = False
                if self._query.wait(_LOOK):
                    return
                self._look_for_a_newer_run()
            except Exception as error:
                if self._lifecycle.wait(0):
                    return
                self._pause_after(error)
                again = True

    def _check_going_on(self) -> None:
        if self._lifecycle.failure is not None:
            raise self._lifecycle.failure
        if self._lifecycle.is_stopping:
            raise Closed(f"flow {self.name} was stopped while its views were being rebuilt")

    def _switch(self, rebuild: Rebuild) -> None:
        """Between two epochs, go on with what was rebuilt; with what there was, if that cannot be done."""
        self._query.halt()
        self._query.stop()
        deployment = self._query.deployment
        try:
            deployment = rebuild.switch(self._fence, self._topics.values())
        except Exception as error:
            rebuild.failure = error
        try:
            self._go_live(deployment)
        finally:
            rebuild.over.set()

    def _look_for_a_newer_run(self) -> None:
        """An idle run, too, ends when a newer one has taken over."""
        self._incumbency.tell()
        try:
            self._store.check_fence(self.name, self._fence)
        except Transient:
            return  # the next epoch will wait for it
        except RiverrunError:
            self._query.stop()
            raise

    def _pause_after(self, error: Exception) -> None:
        """Pause before the query is started again, or raise what the run fails with."""
        self._query.trouble = error
        self._patience.through(lambda: self._store.check_fence(self.name, self._fence))
        pause = self._query.pause_after(error)
        self._next_try = wall_clock() + int(pause * 1_000_000)
        self._lifecycle.wait(pause)
        self._next_try = None
