"""`riverrun topic …`: making, describing, keeping and dropping topics. Appending and reading have their own files."""

from __future__ import annotations

import os
import sys
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from riverrun import figures
from riverrun.cli import topic_append_command, topic_read_commands
from riverrun.cli.group_commands import ForceOption, ToOption, find_readers, print_resets, reset_group
from riverrun.cli.options import DEFAULT_RIVER, JsonOption, RiverOption, TopicArgument, YesOption, open_river
from riverrun.cli.output import print_fields, print_json, print_line, print_table
from riverrun.durations import show
from riverrun.errors import RiverrunError

if TYPE_CHECKING:
    from riverrun.river import River

app = typer.Typer(help="Topics: create, append, read, tail, describe, drop …", rich_markup_mode=None)


@app.callback(invoke_without_command=True)
def _topic(context: typer.Context) -> None:
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


@app.command("list")
def list_topics(
    pattern: Annotated[str, typer.Argument(metavar="PATTERN", help='Only names like this, as "shop.*".')] = "*",
    json: JsonOption = False,
    river: RiverOption = DEFAULT_RIVER,
) -> None:
    """List the topics with their sizes."""
    with open_river(river) as opened:
        topics = [_describe(opened, name) for name in opened.topics(pattern)]
    if json:
        print_json(topics)
    elif not topics:
        print_line("no topics" if pattern == "*" else f"no topics like {pattern}")
    else:
        print_table(
            ["topic", "partitions", "offsets", "size", "last append", "schema"],
            map(_row, topics),
            right=["partitions", "offsets", "size"],
        )


@app.command()
def create(
    name: TopicArgument,
    schema: Annotated[
        str,
        typer.Option(
            metavar="DDL", help='Its columns: "user string, amount double, at timestamp".', show_default=False
        ),
    ],
    key: Annotated[str | None, typer.Option(metavar="COLUMNS", help="Rows of one key keep their order: a,b.")] = None,
    time: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="When it happened (else: when it arrived).")
    ] = None,
    producers: Annotated[str | None, typer.Option(metavar="COLUMN", help="Who sent it, for watermarks.")] = None,
    partitions: Annotated[int | None, typer.Option(metavar="N", help="4 if left out.")] = None,
    retention: Annotated[
        str | None, typer.Option(metavar="DURATION", help='"7 days" if left out; "none" keeps for ever.')
    ] = None,
    retention_bytes: Annotated[str | None, typer.Option(metavar="SIZE", help='"10 GB"; no limit if left out.')] = None,
    compact: Annotated[bool | None, typer.Option("--compact", help="Keep the newest row of every key.")] = None,
    fsync: Annotated[
        str | None,
        typer.Option(
            metavar="WHEN", help='"batch" (if left out): an append returns when it is on disk; "os"; "200 ms".'
        ),
    ] = None,
    compression: Annotated[str | None, typer.Option(metavar="KIND", help='"lz4"; none if left out.')] = None,
    archive: Annotated[
        str | None, typer.Option(metavar="DIR", help="Retention moves rows here, where they can still be read.")
    ] = None,
    naive: Annotated[
        str | None, typer.Option(metavar="ZONE", help='"utc": times without a zone are UTC; refused if left out.')
    ] = None,
    times: Annotated[
        str | None,
        typer.Option(metavar="UNIT", help='"ms" or "s": numbers are times, counted from 1970; refused if left out.'),
    ] = None,
    versions: Annotated[
        bool | None,
        typer.Option("--versions", help="Count the rows of every key and find them by it; none is removed."),
    ] = None,
    format: Annotated[
        str | None, typer.Option(metavar="KIND", help='On Kafka: "json" (if left out), "avro" or "arrow" messages.')
    ] = None,
    json: JsonOption = False,
    river: RiverOption = DEFAULT_RIVER,
) -> None:
    """Create a topic, or check that it is as given. New nullable columns at the end of the schema are added."""
    given: dict[str, Any] = {
        "key": [part.strip() for part in key.split(",")] if key else None,
        "time": time,
        "producers": producers,
        "partitions": partitions,
        "retention": retention,
        "retention_bytes": retention_bytes,
        "compact": compact,
        "fsync": fsync,
        "compression": compression,
        "archive": os.path.abspath(archive) if archive else None,
        "naive": naive,
        "times": times,
        "versions": versions,
        "format": format,
    }
    options = {name: value for name, value in given.items() if value is not None}
    for option in ("retention", "retention_bytes", "compression"):
        if str(options.get(option, "")).lower() in ("none", "forever"):
            options[option] = None
    from riverrun.log.spec import TopicSpec

    spec = TopicSpec(name, schema, **options)  # a mistake in it must not leave an empty river behind
    with open_river(river, create=True) as opened:
        existed = name in opened.topics()
        topic = opened.topic(spec)
        if json:
            print_json({"created": not existed, **topic.describe()})
        else:
            where = opened.log_address or opened.path
            print_line(f"topic {name} is as given in {where}" if existed else f"created topic {name} in {where}")


@app.command()
def describe(name: TopicArgument, json: JsonOption = False, river: RiverOption = DEFAULT_RIVER) -> None:
    """Show a topic's schema, partitions, sizes and how it is kept."""
    with open_river(river) as opened:
        topic = opened.topic(name).describe()
    if json:
        print_json(topic)
        return
    print_fields(
        [
            ("topic", topic["name"]),
            ("schema", f"{topic['schema']}  (version {topic['schema_version']})"),
            ("key", ", ".join(topic["key"]) or "none: batches go round the partitions"),
            ("time", _time_shown(topic)),
            *([("producers", topic["producers"])] if topic["producers"] else []),
            *_sizes(topic),
            ("last append", figures.ago(_moment(topic["received"]))),
            ("rate", f"{figures.rate(topic['rows_per_second'], 1)} over the last minute"),
            ("kept", _kept(topic)),
            *_kept_by(topic),
        ]
    )
    print_line()
    print_table(
        ["partition", "earliest", "latest"],
        [[str(p), str(ends["earliest"]), str(ends["latest"])] for p, ends in topic["partitions"].items()],
        right=["partition", "earliest", "latest"],
    )


app.command("append")(topic_append_command.append)
app.command("read")(topic_read_commands.read)
app.command("tail")(topic_read_commands.tail)


@app.command()
def reset(
    name: TopicArgument,
    to: ToOption,
    group: Annotated[
        str | None, typer.Option(metavar="GROUP", help="Only this group; every group that reads the topic if left out.")
    ] = None,
    force: ForceOption = False,
    json: JsonOption = False,
    river: RiverOption = DEFAULT_RIVER,
) -> None:
    """Let the groups that read a topic go on from another place in it. Refused while their members are alive."""
    with open_river(river) as opened:
        opened.topic(name)
        groups = [group] if group else find_readers(opened, name)
        print_resets([reset_group(opened, one, name, to, force) for one in groups], json)


@app.command()
def compact(name: TopicArgument, json: JsonOption = False, river: RiverOption = DEFAULT_RIVER) -> None:
    """Keep the newest row of every key; offsets stay as they are."""
    with open_river(river) as opened:
        before = opened.topic(name).describe()["bytes"]
        done = opened.topic(name).compact()
        after = opened.topic(name).describe()["bytes"]
    if json:
        print_json({"topic": name, **done, "bytes_before": before, "bytes_after": after})
    else:
        print_line(f"compacted {name}: {_counts(done)}; {figures.size(before)} → {figures.size(after)}")


@app.command()
def retain(
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="The topic; all of them if left out.")] = None,
    json: JsonOption = False,
    river: RiverOption = DEFAULT_RIVER,
) -> None:
    """Remove or archive what is older, or more, than a topic keeps."""
    with open_river(river) as opened:
        done = {}
        for one in [name] if name else opened.topics():
            with opened.briefly(one) as topic:
                done[one] = topic.enforce_retention()
    if json:
        print_json([{"topic": one, **counts} for one, counts in done.items()])
    for one, counts in () if json else done.items():
        print_line(f"{one}: {_counts(counts)}")


@app.command()
def repair(name: TopicArgument, json: JsonOption = False, river: RiverOption = DEFAULT_RIVER) -> None:
    """Look at a topic's bytes again, cut a torn tail, and accept writes again (after a failed fsync)."""
    with open_river(river) as opened:
        topic = opened.topic(name)
        topic.backend.repair()
        latest = topic.latest
    if json:
        print_json({"topic": name, "latest": str(latest)})
    else:
        print_line(f"{name} is whole up to {latest} and accepts writes")


@app.command()
def drop(
    name: TopicArgument, yes: YesOption = False, json: JsonOption = False, river: RiverOption = DEFAULT_RIVER
) -> None:
    """Remove a topic, all its rows, and what groups remember of it. Asks first when a person is there."""
    with open_river(river) as opened:
        if not yes and sys.stdin.isatty() and name in opened.topics():
            typer.confirm(f"Remove topic {name} and all its rows?", abort=True, err=True)
        opened.drop_topic(name)
    if json:
        print_json({"dropped": name})
    else:
        print_line(f"dropped topic {name}")


def _sizes(topic: dict[str, Any]) -> list[tuple[str, str]]:
    """How much there is; Kafka counts offsets, and nothing else."""
    offsets = figures.count(topic["offsets"])
    if topic["bytes"] is None:
        return [("offsets", offsets)]
    return [
        ("offsets", f"{offsets} in {figures.plural(topic['appends'], 'append')}"),
        ("size", f"{figures.size(topic['bytes'])} in {figures.plural(topic['segments'], 'segment')}"),
    ]


def _kept_by(topic: dict[str, Any]) -> list[tuple[str, str]]:
    """Who keeps the rows, and how."""
    if "format" in topic:
        passed = [("passed over", f"{topic['undecodable']} messages that are no rows")] if topic["undecodable"] else []
        return [("log", f"Kafka, messages are {topic['format']}"), *passed]
    return [
        ("durable", _durable(topic["fsync"])),
        *([("archive", topic["archive"])] if topic["archive"] else []),
        ("recoveries", f"{topic['recoveries']} (writers that died, torn tails)"),
    ]


def _describe(river: River, name: str) -> dict[str, Any]:
    """A topic, or what is wrong with it: one that is damaged must not hide the others."""
    try:
        with river.briefly(name) as topic:
            return topic.describe()
    except RiverrunError as error:
        return {"name": name, "error": error.message, "hint": error.hint}


def _row(one: dict[str, Any]) -> list[str]:
    if "error" in one:
        return [one["name"], "–", "–", "–", "–", one["error"]]
    partitions, last = str(len(one["partitions"])), figures.ago(_moment(one["received"]))
    return [one["name"], partitions, figures.count(one["offsets"]), _size(one["bytes"]), last, one["schema"]]


def _size(count: int | None) -> str:
    return "–" if count is None else figures.size(count)


def _moment(text: str | None) -> datetime | None:
    return datetime.fromisoformat(text) if text else None


def _counts(done: dict[str, int]) -> str:
    return ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in done.items()) or "nothing to do"


def _time_shown(topic: dict[str, Any]) -> str:
    parts = [topic["time"] or "when a row arrives"]
    if topic["naive"]:
        parts.append(f"times without a zone are {topic['naive'].upper()}")
    if topic["times"]:
        parts.append(f"numbers are {topic['times']} since 1970")
    return "; ".join(parts)


def _kept(topic: dict[str, Any]) -> str:
    limits = []
    if topic["retention"] is not None:
        limits.append(show(round(topic["retention"] * 1_000_000)))
    if topic["retention_bytes"] is not None:
        limits.append(f"at most {figures.size(topic['retention_bytes'])}")
    text = ", ".join(limits) or "for ever"
    if topic["versions"]:
        return f"{text}; rows are counted and found by key (versions)"
    return f"the newest row of every key, {text}" if topic["compact"] else text


def _durable(fsync: str | float) -> str:
    if fsync == "batch":
        return "an append returns when it is on disk (fsync batch)"
    if fsync == "os":
        return "when the operating system writes it (fsync os): a power cut may lose the newest rows"
    return f"within {show(round(float(fsync) * 1_000_000))} (fsync): a power cut may lose what is newer"
