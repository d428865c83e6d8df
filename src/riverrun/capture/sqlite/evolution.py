"""What becomes of a captured table whose schema has changed."""

from __future__ import annotations

from riverrun.capture.changes import CapturedTable, TableTrouble
from riverrun.capture.sqlite.catalog import SqliteTable
from riverrun.capture.sqlite.installation import ChangeLayout, Installation, brought_up_to_date


def evolved(
    installation: Installation,
    told: CapturedTable,
    now: SqliteTable | None,
    trouble: TableTrouble | None,
    reached: int,
) -> ChangeLayout | TableTrouble:
    """New triggers where a table needs them, or why it cannot go on. `told` is how the capture knows it."""
    if now is None:
        renamed = _other_name(installation, told.id)
        if renamed is not None:
            return TableTrouble(
                told.id,
                f"table {told.id} was renamed to {renamed}",
                f"Capture {renamed} instead, or rename it back and read it again: --resnapshot {told.id}",
            )
        return trouble or TableTrouble(told.id, f"there is no table {told.id}")  # but perhaps in another case
    begin_again = f"Drop its topic (riverrun topic drop) and read it again: riverrun capture … --resnapshot {told.id}"
    if now.captured.key != told.key:
        was, is_now = ", ".join(told.key), ", ".join(now.captured.key)
        return TableTrouble(told.id, f"the key of {told.id} was ({was}) and is ({is_now}) now", begin_again)
    known = {column.name: column.type for column in told.columns}
    for column in now.captured.columns:
        if known.get(column.name, column.type) != column.type:
            return TableTrouble(
                told.id,
                f"column {column.name!r} of {told.id} was {known[column.name]} and is {column.type} now",
                begin_again,
            )
    return brought_up_to_date(installation, now, {told.id}, reached, told)


def _other_name(installation: Installation, table: str) -> str | None:
    """What a table is called now: its triggers have gone with it."""
    layouts = installation.layouts()
    for number, names in installation.installed().items():
        if number in layouts and layouts[number].table == table:
            return next((name for name in names if name != table), None)
    return None
