"""What an epoch does to a Delta table: rows that are only new are appended; else one merge by key does everything."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable, write_deltalake

from riverrun.errors import Invalid
from riverrun.views.layout import DELETE, INSERT, OLD, OP, layout_of
from riverrun.views.settled import Settled
from riverrun.views.spec import ViewSpec

FILE_SIZE = 32 << 20  # of the files of a table; a merge writes whole files again
_GONE = "riverrun_gone"  # no column of a view: those that begin so belong to stores
_NAMES = re.compile(r"[ ,;{}()\n\t=]")


def check_names(spec: ViewSpec) -> None:
    """`Invalid` for columns that a Delta table cannot have."""
    for name in spec.names:
        if _NAMES.search(name) or name == _GONE:
            raise Invalid(
                f"view {spec.name!r}: a Delta table cannot have a column {name!r}",
                hint='Give it another name: with_columns(better="`…`")',
            )


def create(uri: str, spec: ViewSpec, properties: Any) -> DeltaTable:
    """An empty table for a view. Hidden columns are in it: rows are told apart by them."""
    return DeltaTable.create(
        uri,
        spec.arrow,
        mode="error",
        partition_by=list(spec.partition_by) or None,
        configuration={"delta.targetFileSize": str(FILE_SIZE)},
        commit_properties=properties,
    )


def append_nothing(table: DeltaTable, properties: Any) -> None:
    """A commit for the sake of what it carries."""
    nothing = pa.schema(table.schema().to_arrow()).empty_table()
    write_deltalake(table, nothing, mode="append", commit_properties=properties)


def apply(table: DeltaTable, spec: ViewSpec, parts: Sequence[Settled], whole: bool, properties: Any) -> None:
    """One commit with all changes of an epoch, on the table as it was loaded."""
    changes = pa.Table.from_batches([part.batch for part in parts]) if parts else None
    if changes is not None:
        changes = changes.filter(pc.not_equal(changes.column(OP), OLD))
    if changes is None or not changes.num_rows:
        append_nothing(table, properties)
    elif whole and pc.all(pc.equal(changes.column(OP), INSERT)).as_py():
        rows = _given_back(spec, changes)
        write_deltalake(table, rows, mode="append", target_file_size=FILE_SIZE, commit_properties=properties)
    else:
        _merge(table, spec, changes, properties)


def _merge(table: DeltaTable, spec: ViewSpec, changes: pa.Table, properties: Any) -> None:
    gone = pc.equal(changes.column(OP), DELETE)
    source = _given_back(spec, changes).append_column(_GONE, gone)
    # Nulls are equal in keys.
    equal = " and ".join(f"(t.{quoted(name)} is not distinct from s.{quoted(name)})" for name in spec.key) or "1 = 1"
    before = table.version()
    merging = table.merge(source, equal, source_alias="s", target_alias="t", commit_properties=properties)
    merging = merging.when_matched_delete(predicate=f"s.{_GONE}")
    merging = merging.when_matched_update_all(predicate=f"not s.{_GONE}", except_cols=[_GONE])
    merging.when_not_matched_insert_all(predicate=f"not s.{_GONE}", except_cols=[_GONE]).execute()
    if table.version() == before:  # there was nothing to change, and no commit
        append_nothing(table, properties)


def overwrite(table: DeltaTable, spec: ViewSpec, staged: DeltaTable, properties: Any) -> None:
    """One commit that puts the rows and the columns of another table in place of those of this one."""
    rows = staged.scan()
    write_deltalake(
        table,
        rows,
        mode="overwrite",
        schema_mode="overwrite",
        partition_by=list(spec.partition_by),  # None would leave it as it was
        target_file_size=FILE_SIZE,
        commit_properties=properties,
    )


def _given_back(spec: ViewSpec, kept: pa.Table) -> pa.Table:
    """Kept rows with every column, hidden ones too."""
    every = ViewSpec(spec.name, spec.flow, spec.schema, spec.key)
    return layout_of(every).give_back(kept)


def quoted(name: str) -> str:
    """A name as DataFusion reads it."""
    return '"' + name.replace('"', '""') + '"'
