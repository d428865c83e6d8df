"""A view as a Delta table, which any Delta reader reads.

Guarantee: an epoch is one commit of the table, with its number and fence in it as application transactions. Readers see whole
epochs. A rebuild is a table beside it (`PATH.FLOW~17`), and one commit puts its rows in place. Small files are put together
now and then; versions older than a week are removed.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable
from deltalake.exceptions import TableNotFoundError

from riverrun.errors import Conflict, Invalid, NotFound, TimedOut, Unavailable
from riverrun.failpoints import failpoint
from riverrun.store_address import StoreAddress
from riverrun.views.columns import equal_to, rows_of
from riverrun.views.derived.delta import files, writing
from riverrun.views.derived.delta.files import noticing
from riverrun.views.derived.delta.marker_versions import commit_properties, has_marker, read_marker
from riverrun.views.derived.delta.writing import quoted
from riverrun.views.derived.marker import DerivedEpoch, Marker, digest
from riverrun.views.derived.reading import in_key_order
from riverrun.views.derived.store import DerivedStore, not_there
from riverrun.views.epoch import Positions, this_run
from riverrun.views.settled import settled_parts
from riverrun.views.spec import ViewSpec

log = logging.getLogger("riverrun.views")

_COMPACT, _VACUUM = 50, 500  # every so many epochs
_KEPT = 168  # hours that versions can be read for


class DeltaStore(DerivedStore):
    """One table, of one view."""

    def __init__(self, address: StoreAddress) -> None:
        super().__init__(address)
        self._uri = address.path
        self._declared: ViewSpec | None = None

    def ping(self) -> None:
        self._load(self._uri)

    def last(self, flow: str) -> Marker | None:
        table = self._load(self._uri)
        return None if table is None else self._marker(table, flow)

    def raise_fence(self, flow: str, fence: int) -> None:
        table = self._load(self._uri)
        with noticing(self.place):
            if table is None:
                after = Marker().fenced(flow, fence)
                writing.create(self._uri, self._known(), commit_properties(after, flow))
                return
            if not has_marker(table, flow):
                raise Conflict(
                    f"{self.place} is there, and flow {flow!r} did not write it", hint="Give the view a path of its own"
                )
            there = self._need_marker(table, flow)
            after = there.fenced(flow, fence)
            if after != there:
                writing.append_nothing(table, commit_properties(after, flow))

    def declare(self, spec: ViewSpec) -> None:
        writing.check_names(spec)
        self._declared = spec

    def commit(self, epoch: DerivedEpoch) -> bool:
        (spec,) = epoch.specs.values()
        uri = self._uri if epoch.token is None else self._staged(epoch.token)
        table = self._load(uri)
        if table is None and epoch.token is not None and self._load(self._uri) is not None:
            raise NotFound(f"{self.place} has no rebuild {epoch.token}; it was switched or abandoned")
        if table is None:
            raise not_there(self.place)
        after = epoch.after(self._need_marker(table, epoch.flow), self.place)
        if after is None:
            return False
        parts = settled_parts(spec, epoch.changes[spec.name])
        failpoint("delta.settled")
        try:
            with noticing(self.place):
                writing.apply(table, spec, parts, spec.name in epoch.whole, commit_properties(after, epoch.flow))
        except Unavailable:
            if self._load(uri) is None:  # it went meanwhile, whatever it is that failed
                raise not_there(self.place) from None
            raise
        failpoint("delta.committed")
        if epoch.token is None:
            self._tidy(table, epoch.sequence)
        return True

    def begin(self, flow: str, token: str, specs: Sequence[ViewSpec]) -> None:
        (spec,) = specs
        self.ping()
        with noticing(self.place):
            for old in files.beside(self._uri):
                if old.startswith(f"{self._uri}.{flow}~"):
                    files.remove(old)
            writing.create(self._staged(token), spec, commit_properties(Marker(generation=token), flow))

    def switch(
        self, flow: str, token: str, fence: int, sequence: int, positions: Positions, specs: Sequence[ViewSpec]
    ) -> None:
        (spec,) = specs
        table = self._load(self._uri)
        if table is None:
            raise not_there(self.place)
        there = self._need_marker(table, flow)
        there.refuse_older(flow, fence)
        staged = self._load(self._staged(token))
        if staged is None:
            if there.generation == token:
                return
            raise NotFound(f"{self.place} has no rebuild {token}; it was switched or abandoned")
        done = Marker(fence, this_run(), token, sequence, digest(positions))
        with noticing(self.place):
            if there.generation != token or there.sequence != sequence:
                writing.overwrite(table, spec, staged, commit_properties(done, flow))
            failpoint("delta.switched")
            files.remove(self._staged(token))

    def abandon(self, flow: str, token: str) -> None:
        self.ping()
        with noticing(self.place):
            files.remove(self._staged(token))

    def drop(self, spec: ViewSpec) -> None:
        table = self._load(self._uri)
        if table is not None:
            with noticing(self.place):
                table.delete()

    def count(self, spec: ViewSpec) -> int:
        table = self._load(self._uri)
        with noticing(self.place):
            return 0 if table is None else int(table.count())

    def scan(self, spec: ViewSpec) -> pa.Table:
        return in_key_order(spec, self._read(spec, None))

    def lookup(self, spec: ViewSpec, key: Sequence[pa.Array]) -> pa.Table:
        given = dict(zip(spec.key, (part[0] for part in key), strict=True))
        told = [_literal(name, value) for name, value in given.items()]
        rows = self._read(spec, " and ".join(filter(None, told)) or None)
        for name, value in given.items():
            rows = rows.filter(equal_to(rows.column(name), value))
        return rows

    def query(
        self, spec: ViewSpec, sql: str, parameters: Sequence[Any] | Mapping[str, Any], timeout: float | None
    ) -> list[dict[str, Any]]:
        """In the SQL of DuckDB, which can see the view and nothing else."""
        import duckdb

        rows = self._read(spec, None)
        with duckdb.connect(config={"enable_external_access": False, "lock_configuration": True}) as connection:
            connection.register(spec.name, rows)
            alarm = threading.Timer(timeout, connection.interrupt) if timeout is not None else None
            try:
                if alarm is not None:
                    alarm.start()
                given = dict(parameters) if isinstance(parameters, Mapping) else list(parameters)
                answer = connection.sql(sql, params=given)
                return [] if answer is None else rows_of(answer.to_arrow_table())
            except duckdb.InterruptException:
                raise TimedOut(f"{self.place} did not answer a query in time") from None
            except duckdb.Error as error:
                raise Invalid(f"view {spec.name!r}: {str(error).splitlines()[0]}") from None
            finally:
                if alarm is not None:
                    alarm.cancel()

    def close(self) -> None:
        pass  # nothing is open between two calls

    def _read(self, spec: ViewSpec, met: str | None) -> pa.Table:
        table = self._load(self._uri)
        if table is None:
            return spec.arrow.empty_table()
        with noticing(self.place):
            rows = pa.table(table.scan(predicate=met).read_all())
            missing = [name for name in spec.names if name not in rows.column_names]
            if missing:
                raise Unavailable(f"{self.place} has no column {missing[0]!r}", hint="Rebuild the view")
            return rows.select(spec.names).cast(spec.arrow)

    def _load(self, uri: str) -> DeltaTable | None:
        with noticing(self.place):
            try:
                return DeltaTable(uri)
            except TableNotFoundError:
                return None

    def _marker(self, table: DeltaTable, flow: str) -> Marker | None:
        with noticing(self.place):
            return read_marker(table, flow)

    def _need_marker(self, table: DeltaTable, flow: str) -> Marker:
        return self._marker(table, flow) or Marker()

    def _known(self) -> ViewSpec:
        if self._declared is None:
            raise NotFound(f"{self.place} is not there")
        return self._declared

    def _staged(self, token: str) -> str:
        return f"{self._uri}.{token}"

    def _tidy(self, table: DeltaTable, sequence: int) -> None:
        """Now and then; what does not work now works later."""
        try:
            if sequence % _COMPACT == 0:
                table.optimize.compact(target_size=writing.FILE_SIZE)
            if sequence % _VACUUM == 0:
                table.vacuum(_KEPT, dry_run=False)
        except Exception as error:
            log.warning("%s could not be tidied up: %s", self.place, error)


def _literal(name: str, value: pa.Scalar) -> str | None:
    """A condition by which Delta need not read every file; None for a value that is not easily written in SQL."""
    plain = value.as_py()
    if plain is None:
        return f"{quoted(name)} is null"
    if isinstance(plain, int):
        return f"{quoted(name)} = {str(plain).lower()}"
    if isinstance(plain, str) and "\0" not in plain:
        return f"{quoted(name)} = '{plain.replace(chr(39), chr(39) * 2)}'"
    return None
