"""`riverrun group …`: who reads what, with what lag, and going on from elsewhere."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from riverrun import figures
from riverrun.cli.moments import parse_place
from riverrun.cli.options import DEFAULT_RIVER, JsonOption, RiverOption, YesOption, open_river
from riverrun.cli.output import print_json, print_line, print_table
from riverrun.position import Position

if TYPE_CHECKING:
    from riverrun.river import River

app = typer.Typer(help="Consumer groups and queues: list, lag, reset, drop.", rich_markup_mode=None)

GroupArgument = Annotated[str, typer.Argument(metavar="GROUP", help="The group.", show_default=False)]
ToOption = Annotated[
    str,
    typer.Option(
        "--to", metavar="WHERE", help='earliest, latest, "orders@0:17", a time, "1 hour ago".', show_default=False
    ),
]
ForceOption = Annotated[bool, typer.Option("--force", help="Even while members are alive; they are moved too.")]


@app.callback(invoke_without_command=True)
def _group(context: typer.Context) -> None:
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


@app.command("list")
def list_groups(json: JsonOption = False, river: RiverOption = DEFAULT_RIVER) -> None:
    """List the groups: their kind, topics and living members."""
    with open_river(river) as opened:
        groups = opened.groups.list()
    if json:
        print_json(groups)
    elif not groups:
        print_line("no groups")
    else:
        print_table(
            ["group", "kind", "members", "topics"],
            [[one["group"], one["kind"], str(one["members"]), ", ".join(one["topics"])] for one in groups],
            right=["members"],
        )


@app.command()
def lag(
    group: Annotated[str | None, typer.Argument(metavar="GROUP", help="The group; all of them if left out.")] = None,
    json: JsonOption = False,
    river: RiverOption = DEFAULT_RIVER,
) -> None:
    """Show how far groups are behind, in rows and in time, by topic and partition."""
    with open_river(river) as opened:
        names = [group] if group else [one["group"] for one in opened.groups.list()]
        lags = [opened.lag(name) for name in names]
    if json:
        print_json(lags[0] if group else lags)
    elif not lags:
        print_line("no groups")
    for one in () if json else lags:
        print_line(f"{one['group']}: {figures.behind(one['rows'], one['seconds'])}")
        rows = [
            _partition_row(t, p, part) for t, topic in one["topics"].items() for p, part in topic["partitions"].items()
        ]
        if rows:
            headers = ["topic", "partition", "committed", "latest", "behind", "lost"]
            print_table(headers, rows, right=["partition", "committed", "latest", "lost"])


@app.command()
def reset(
    group: GroupArgument,
    topic: Annotated[str, typer.Argument(metavar="TOPIC", help="The topic.", show_default=False)],
    to: ToOption,
    force: ForceOption = False,
    json: JsonOption = False,
    river: RiverOption = DEFAULT_RIVER,
) -> None:
    """Let a group go on from another place in a topic. Refused while its members are alive."""
    with open_river(river) as opened:
        print_resets([reset_group(opened, group, topic, to, force)], json)


@app.command()
def drop(
    group: GroupArgument, yes: YesOption = False, json: JsonOption = False, river: RiverOption = DEFAULT_RIVER
) -> None:
    """Forget a group and how far it was. Asks first when a person is there."""
    with open_river(river) as opened:
        groups = [one["group"] for one in opened.groups.list()]
        if not yes and sys.stdin.isatty() and group in groups:
            typer.confirm(f"Forget how far group {group} was?", abort=True, err=True)
        opened.groups.drop(group)
    if json:
        print_json({"dropped": group})
    else:
        print_line(f"dropped group {group}")


def find_readers(river: River, topic: str) -> list[str]:
    """The groups that read a topic."""
    return [one["group"] for one in river.groups.list() if topic in one["topics"]]


def reset_group(river: River, group: str, topic: str, to: str, force: bool) -> dict[str, Any]:
    """Move a group, and say where it is now."""
    offsets = river.groups.reset(group, topic, parse_place(to), force=force)
    return {"group": group, "topic": topic, "position": str(Position({topic: offsets}))}


def print_resets(resets: list[dict[str, Any]], json: bool) -> None:
    """What was moved, one line each."""
    if json:
        print_json(resets)
    for one in () if json else resets:
        print_line(f"{one['group']} goes on at {one['position']}")
    if not resets and not json:
        print_line("no group reads it")


def _partition_row(topic: str, partition: int, part: dict[str, Any]) -> list[str]:
    committed = "–" if part["committed"] is None else str(part["committed"])
    unfinished = f" ({part['unfinished']} handed out)" if part.get("unfinished") else ""
    behind = figures.behind(part["rows"], part["seconds"]) + unfinished
    return [
        topic,
        str(partition),
        committed,
        str(part["latest"]),
        behind,
        figures.count(part["lost"]) if part["lost"] else "–",
    ]
