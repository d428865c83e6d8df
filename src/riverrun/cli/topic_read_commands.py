"""`riverrun topic read` and `riverrun topic tail`: rows on stdout, as lines for people or JSON for programs."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from riverrun import figures
from riverrun.cli.moments import parse_place
from riverrun.cli.options import DEFAULT_RIVER, JsonOption, RiverOption, TopicArgument, open_river
from riverrun.cli.output import note
from riverrun.errors import Invalid

if TYPE_CHECKING:
    import pyarrow as pa

    from riverrun.log.topic import Topic

_ORDER = [("_received", "ascending"), ("_partition", "ascending"), ("_offset", "ascending")]
_WIDEST = 60  # characters of one value in a line for people


def read(
    name: TopicArgument,
    start: Annotated[
        str, typer.Option(metavar="WHERE", help='earliest, latest, "orders@0:17", a time, "1 hour ago".')
    ] = "earliest",
    end: Annotated[str, typer.Option(metavar="WHERE", help="Where to stop, the same way.")] = "latest",
    columns: Annotated[str | None, typer.Option(metavar="NAMES", help="Only these: user,amount,_offset.")] = None,
    key: Annotated[
        str | None,
        typer.Option(metavar="KEY", help="Only rows of this key, of a topic with versions; several values: JSON."),
    ] = None,
    limit: Annotated[int | None, typer.Option(metavar="N", min=0, help="Stop after this many rows.")] = None,
    bare: Annotated[bool, typer.Option("--bare", help="With --json: without the columns that begin with _.")] = False,
    json: JsonOption = False,
    river: RiverOption = DEFAULT_RIVER,
) -> None:
    """Print the rows of a topic, partition by partition; with --json one object per line."""
    with open_river(river) as opened:
        topic = opened.topic(name)
        wanted = [part.strip() for part in columns.split(",")] if columns else None
        if bare and wanted is None:
            wanted = topic.schema.names
        first, last = parse_place(start), parse_place(end)
        shown = wanted if json or wanted is None else [*wanted, *(c for c in _MARGIN if c not in wanted)]
        if key is None:
            found = topic.batches(topic.offsets(first), topic.offsets(last, "latest"), shown)
        else:
            found = iter(topic.read(first, last, shown, key=_parse_key(topic, key)).to_batches())
        batches = _first(found, limit)
        printed = sum(_print_json(batch) if json else _print_lines(batch, topic, wanted) for batch in batches)
    if not json and sys.stdout.isatty():
        note(figures.rows(printed))


def tail(
    name: TopicArgument,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on with what arrives, until Ctrl-C.")] = False,
    number: Annotated[int, typer.Option("--number", "-n", metavar="N", min=0, help="How many of the last rows.")] = 10,
    json: JsonOption = False,
    river: RiverOption = DEFAULT_RIVER,
) -> None:
    """Print the last rows of a topic in the order they arrived, and follow it with -f."""
    with open_river(river) as opened:
        topic = opened.topic(name)
        seen = topic.latest
        _print(_last(topic, seen[name], number), topic, json)
        while follow:
            sys.stdout.flush()
            topic.wait(seen)
            now = topic.latest
            _print(topic.read(seen, now), topic, json)
            seen = now


def _parse_key(topic: Topic, text: str) -> Any:
    """A key as it is typed: a string as it is, what else it may be as in JSON, several values as an array."""
    import msgspec
    import pyarrow as pa

    kinds = [topic.schema.field(name).type for name in topic.spec.key]
    if len(kinds) == 1 and pa.types.is_string(kinds[0]):
        return text
    try:
        return msgspec.json.decode(text)
    except msgspec.MsgspecError:
        return text


def _last(topic: Topic, end: Mapping[int, int], number: int) -> pa.Table:
    """The last rows by arrival. Offsets may have gaps (promises, compaction), so look back until it is enough."""
    first, reach = topic.begins(), number
    while True:
        start = {p: max(first[p], end[p] - reach) for p in end}
        rows = topic.read({topic.name: start}, {topic.name: end})
        if rows.num_rows >= number or start == first:
            return rows.sort_by(_ORDER).slice(max(0, rows.num_rows - number))
        reach *= 4


def _first(batches: Iterator[pa.RecordBatch], limit: int | None) -> Iterator[pa.RecordBatch]:
    left = limit
    for batch in batches if limit != 0 else ():
        yield batch if left is None else batch.slice(0, left)
        if left is not None:
            left -= batch.num_rows
            if left <= 0:
                return


def _print(rows: pa.Table, topic: Topic, json: bool) -> None:
    for batch in rows.sort_by(_ORDER).to_batches():
        if json:
            _print_json(batch)
        else:
            _print_lines(batch, topic, None)


def _print_json(batch: pa.RecordBatch) -> int:
    import msgspec

    from riverrun.log.json_rows import plain_rows

    encoder = msgspec.json.Encoder()
    sys.stdout.flush()
    sys.stdout.buffer.write(encoder.encode_lines(plain_rows(batch)))
    return int(batch.num_rows)


_MARGIN = ("_time", "_partition", "_offset", "_key", "_deleted")


def _print_lines(batch: pa.RecordBatch, topic: Topic, columns: Sequence[str] | None) -> int:
    from riverrun.log.json_rows import plain_rows

    values = columns if columns is not None else [n for n in topic.schema.names if n != topic.spec.time]
    missing = [name for name in values if name not in batch.schema.names]
    if missing:
        raise Invalid(f"topic {topic.name} has no column {missing[0]!r}")
    sys.stdout.write("".join(_line(row, topic, values) + "\n" for row in plain_rows(batch)))
    return int(batch.num_rows)


def _line(row: dict[str, Any], topic: Topic, values: Sequence[str]) -> str:
    margin = f"{_clock(row['_time'])}  {row['_partition']}:{row['_offset']:<8}"
    if topic.spec.key:
        margin += f" {_short(row['_key']):<16}"
    if row["_deleted"]:
        return f"{margin} (deleted)"
    shown = [name for name in values if list(topic.spec.key) != [name] or len(values) == 1]
    return f"{margin} " + "  ".join(f"{name}={_short(row[name])}" for name in shown)


def _clock(text: str) -> str:
    """To the millisecond, always as wide."""
    day, _, rest = text.rstrip("Z").partition("T")
    seconds, _, fraction = rest.partition(".")
    return f"{day} {seconds}.{fraction[:3]:0<3}"


def _short(value: Any) -> str:
    text = "null" if value is None else value if isinstance(value, str) else str(value)
    text = text if len(text) <= _WIDEST else text[: _WIDEST - 1] + "…"
    return figures.safe(text)
