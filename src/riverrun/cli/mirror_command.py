"""`riverrun mirror kafka://…/topic TOPIC`: a copy of a Kafka topic in the river's directory, until it is stopped."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from riverrun import figures
from riverrun.cli.capture_command import address_of
from riverrun.cli.interruption import Interrupted, interruptible
from riverrun.cli.options import DEFAULT_RIVER, JsonOption, RiverOption, open_river
from riverrun.cli.output import print_json, print_line
from riverrun.errors import Invalid


def mirror(
    source: Annotated[
        str,
        typer.Argument(
            metavar="ADDRESS|$VARIABLE",
            help="kafka://HOST:9092/TOPIC, or a variable of the environment that holds it.",
            show_default=False,
        ),
    ],
    topic: Annotated[str, typer.Argument(metavar="NAME", help="The topic of this river.", show_default=False)],
    schema: Annotated[
        str | None, typer.Option(metavar="DDL", help="Its columns, where Riverrun did not make the topic on Kafka.")
    ] = None,
    key: Annotated[str | None, typer.Option(metavar="COLUMNS", help="Its key: a,b.")] = None,
    time: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="When it happened (else: when it arrived).")
    ] = None,
    format: Annotated[str | None, typer.Option(metavar="KIND", help='"json" (if left out), "avro" or "arrow".')] = None,
    once: Annotated[bool, typer.Option("--once", help="Copy what is there now, then stop.")] = False,
    json: JsonOption = False,
    river: RiverOption = DEFAULT_RIVER,
) -> None:
    """Copy a topic of a Kafka cluster into a topic of this river, exactly once, from where it stopped.

    It goes on until Ctrl-C or SIGTERM. Messages that are no rows are passed over and counted.
    """
    from riverrun.log.kafka.mirror import Mirror
    from riverrun.log.spec import TopicSpec

    keys = [part.strip() for part in key.split(",")] if key else None
    options: dict[str, Any] = {"schema": schema, "key": keys, "time": time, "format": format}
    spec = TopicSpec(topic, **{name: value for name, value in options.items() if value is not None})
    with interruptible(), open_river(river, create=True) as opened:
        if opened.log_address is not None:
            raise Invalid(
                "a mirror copies into a river's directory", hint="Give a river without log=, and no RIVERRUN_LOG"
            )
        made = Mirror(address_of(source), spec, opened.topic, opened.settings, opened.path)
        try:
            made.step()
            while not once:
                made.wait(5.0)
                made.step()
        except Interrupted:
            pass
        finally:
            made.close()
        told = {"topic": topic, "rows": made.rows, "undecodable": made.undecodable, "latest": str(made.topic.latest)}
    if json:
        print_json(told)
    else:
        bad = f", {made.undecodable} messages that are no rows passed over" if made.undecodable else ""
        print_line(f"copied {figures.rows(made.rows)} into {topic}{bad}")
