"""Topics of tables whose columns change: a topic may grow, and anything else stops its table."""

from __future__ import annotations

from typing import TYPE_CHECKING

from riverrun import ddl
from riverrun.capture.changes import CapturedTable, TableTrouble
from riverrun.capture.forms import TopicForm
from riverrun.columns import POSITION, TRANSACTION
from riverrun.errors import Conflict, Invalid
from riverrun.log.spec import TopicSpec
from riverrun.log.topic import Topic

if TYPE_CHECKING:
    from riverrun.river import River


def opened_topic(river: River, form: TopicForm, capture: str, table: CapturedTable) -> Topic | TableTrouble:
    """The topic of a table, made, opened, or grown by the columns that are new; or why that cannot be."""
    try:
        spec = form.spec(capture, table)
    except Invalid as error:  # a long name in another alphabet is a longer one there
        return TableTrouble(table.id, error.message, f"{error.hint}. Rename the table")
    if spec.name not in river.topics():
        return river.topic(spec)
    there = river.topic(spec.name).spec
    trouble = _difference(spec, there.schema, there.key, table)
    if trouble is not None:
        return trouble
    assert isinstance(spec.schema, str)
    known = {column.name for column in ddl.parse(there.schema)}
    added = [column for column in ddl.parse(spec.schema) if column.name not in known]
    try:
        return (
            river.topic(spec.name, ddl.render([*ddl.parse(there.schema), *added])) if added else river.topic(spec.name)
        )
    except Conflict as error:
        return TableTrouble(table.id, error.message, error.hint)


def _difference(spec: TopicSpec, schema: str, key: tuple[str, ...], table: CapturedTable) -> TableTrouble | None:
    assert isinstance(spec.schema, str)
    mine = {column.name: column.type for column in ddl.parse(spec.schema)}
    theirs = {column.name: column.type for column in ddl.parse(schema)}
    begin_again = (
        f"Begin anew with it: riverrun topic drop {spec.name}, then riverrun capture … --resnapshot {table.id}"
    )
    if (POSITION in mine) != (POSITION in theirs) or (TRANSACTION in mine) != (TRANSACTION in theirs):
        return TableTrouble(table.id, f"topic {spec.name} is there in another form", begin_again)
    for name, kind in theirs.items():
        if name in mine and mine[name] != kind:
            return TableTrouble(
                table.id, f"column {name!r} of {table.id} was {kind} and is {mine[name]} now", begin_again
            )
    if tuple(spec.key) != key:  # type: ignore[arg-type]
        return TableTrouble(
            table.id, f"the key of {table.id} was ({', '.join(key)}) and is ({', '.join(table.key)}) now", begin_again
        )
    return None
