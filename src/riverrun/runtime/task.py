"""What the tasks of a job share in one process: workers serve one epoch after the other, and keep what is costly."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from riverrun.runtime.compile.job import Branch, Job, sql_fields
from riverrun.runtime.failing_row import Whereabouts
from riverrun.runtime.projection import Projection
from riverrun.runtime.settling import settle_rows
from riverrun.state.directory import CACHE_BYTES, StateDirectory


class Tasks:
    """A job with the prepared projections of its origins and with its open state."""

    def __init__(self, job: Job, cache_bytes: int = CACHE_BYTES) -> None:
        self.job = job
        self._cache_bytes = cache_bytes
        operators = {operator.id: operator.output for stage in job.stages for operator in stage}
        self._origins = {**{name: (fields, False) for name, fields in operators.items()}}
        self._origins |= {name: (fields, True) for name, fields in job.sources.items()}
        self._projections: dict[str, Projection] = {}
        self._state: StateDirectory | None = None

    def state(self, location: str) -> StateDirectory:
        """The state files at a place; what was opened for an epoch is there for the next."""
        if self._state is None or self._state.files.location != location:
            self._state = StateDirectory(location, cache_bytes=self._cache_bytes)
        return self._state

    def project(self, origin: str, rows: pa.RecordBatch) -> Iterator[tuple[Branch, pa.RecordBatch]]:
        """The rows of each branch that is computed here, as they leave the task."""
        if origin not in self._projections:
            fields, is_source = self._origins[origin]
            at = Whereabouts.of(self.job, origin)
            self._projections[origin] = Projection(self.job.in_arrow(origin), sql_fields(fields, is_source), at)
        for branch, projected in self._projections[origin].rows(rows):
            if projected.num_rows:
                yield branch, settle_rows(self.job, branch, projected)
