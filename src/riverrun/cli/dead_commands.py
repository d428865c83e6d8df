"""`riverrun dead …`: dead letters of queues and alerts: how many wait, and sending them again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from riverrun import figures
from riverrun.cli.options import DEFAULT_RIVER, JsonOption, RiverOption, open_river
from riverrun.cli.output import note, print_json, print_line, print_table
from riverrun.errors import Invalid, RiverrunError

if TYPE_CHECKING:
    from riverrun.log.redelivery import DeadLetterTopic, Resent

app = typer.Typer(help="Dead letters of queues and alerts: list, resend.", rich_markup_mode=None)


@app.callback(invoke_without_command=True)
def _dead(context: typer.Context) -> None:
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


@app.command("list")
def list_dead(json: JsonOption = False, river: RiverOption = DEFAULT_RIVER) -> None:
    """List the topics of dead letters: how many wait, of how many in all. `riverrun topic read` shows them."""
    with open_river(river) as opened:
        found = opened.dead_letters.topics()
    if json:
        print_json([asdict(one) for one in found])
    elif not found:
        print_line("no dead letters")
    else:
        print_table(
            ["topic", "kind", "waiting", "in all"],
            [[one.topic, one.kind, figures.count(one.waiting), figures.count(one.rows)] for one in found],
            right=["waiting", "in all"],
        )


@app.command()
def resend(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="TOPIC…", help="Topics of dead letters.", show_default=False)
    ] = None,
    every: Annotated[bool, typer.Option("--all", help="Of all queues and alerts.")] = False,
    json: JsonOption = False,
    river: RiverOption = DEFAULT_RIVER,
) -> None:
    """Send the dead letters that wait again, once: to the workers of their queue, or to the address of their alert.

    What fails once more is a dead letter once more. Those of an alert are sent by the run of their flow, or by its next
    one: it has the addresses. A topic whose letters cannot be sent is named, and does not keep the others from it.
    """
    if bool(names) == every:
        raise Invalid("say which", hint="Give topics of dead letters, or --all; riverrun dead list has them")
    with open_river(river) as opened:
        letters = opened.dead_letters
        chosen = names or [one.topic for one in letters.topics() if one.waiting]
        found: list[tuple[DeadLetterTopic, Resent]] = []
        failed: dict[str, RiverrunError] = {}
        for name in chosen:
            try:
                found.append((letters.describe(name), letters.send_again(name)))
            except RiverrunError as error:
                if len(chosen) == 1:
                    raise
                failed[name] = error
    if json:
        print_json([asdict(resent) for _, resent in found])
    else:
        _print_resent(found)
        if not chosen:
            print_line("no dead letters wait")
    for name, reason in failed.items():
        note(f"riverrun: {name}: {reason}")
    if failed:
        note(f"riverrun: of {len(chosen)} topics {len(failed)} failed; the others were sent again")
        raise typer.Exit(1)


def _print_resent(found: Sequence[tuple[DeadLetterTopic, Resent]]) -> None:
    for about, resent in found:
        who = f"group {about.group}" if about.kind == "queue" else "the run of the flow, or its next one,"
        does = "gets" if about.kind == "queue" else "sends"
        gone = (
            f"; {figures.rows(resent.gone)} cannot be, retention removed them from {about.source}"
            if resent.gone
            else ""
        )
        print_line(f"{resent.topic}: {who} {does} {figures.rows(resent.rows)} again{gone}")
