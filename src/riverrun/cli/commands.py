"""All commands put together, and what happens when one fails."""

from __future__ import annotations

import os
import platform
import traceback
from importlib import metadata
from typing import Annotated, Any

import typer
from typer.main import get_command

from riverrun.cli import (
    capture_command,
    dead_commands,
    demo_commands,
    doctor_command,
    group_commands,
    mirror_command,
    new_command,
    pack_command,
    plan_command,
    rule_commands,
    run_command,
    serve_command,
    topic_commands,
    view_commands,
    worker_command,
)
from riverrun.cli.interruption import Interrupted
from riverrun.cli.options import DEFAULT_RIVER, JsonOption, RiverOption
from riverrun.cli.output import note, print_json, print_line
from riverrun.errors import Corrupt, RiverrunError, Transient, not_installed

# click's ClickException; which package it lives in depends on the version of typer.
_Misuse: Any = typer.BadParameter.__mro__[2]

# Of the system's errors, those that name a wrong file.
_MISTAKES = (FileNotFoundError, IsADirectoryError, NotADirectoryError, PermissionError)

app = typer.Typer(
    help="A durable, partitioned log in a directory, flows on Spark, and the views they keep up to date.",
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    add_completion=False,
)
app.add_typer(topic_commands.app, name="topic")
app.add_typer(group_commands.app, name="group")
app.add_typer(view_commands.app, name="view")
app.add_typer(dead_commands.app, name="dead")
app.add_typer(rule_commands.app, name="rules")
app.add_typer(demo_commands.app, name="demo")
app.command("new")(new_command.new)
app.command("run")(run_command.run)
app.command("serve")(serve_command.serve)
app.command("capture")(capture_command.capture)
app.command("mirror")(mirror_command.mirror)
app.command("worker")(worker_command.worker)
app.command("plan")(plan_command.plan)
app.command("pack")(pack_command.pack)
app.command("doctor")(doctor_command.doctor)


@app.command()
def version(json: JsonOption = False, river: RiverOption = DEFAULT_RIVER) -> None:
    """Print the version."""
    versions = {"riverrun": metadata.version("riverrun"), "python": platform.python_version()}
    if json:
        print_json(versions)
    else:
        print_line(f"riverrun {versions['riverrun']} (Python {versions['python']})")


@app.callback(invoke_without_command=True)
def _root(
    context: typer.Context,
    show_version: Annotated[bool, typer.Option("--version", help="Print the version and stop.")] = False,
) -> None:
    if show_version:
        version()
    elif context.invoked_subcommand is None:
        typer.echo(context.get_help())
    else:
        return
    raise typer.Exit


def run(args: list[str]) -> int:
    """Run one command; every failure but Ctrl-C and a closed pipe becomes one line on stderr and an exit code."""
    command = get_command(app)
    try:
        with command.make_context("riverrun", args) as context:
            command.invoke(context)
    except typer.Exit as exit_:
        return exit_.exit_code
    except typer.Abort:
        return 130
    except Interrupted:
        return 0  # it was ending already
    except _Misuse as error:
        return _fail(_usage(error), 2)
    except (Corrupt, Transient) as error:
        return _fail(str(error), 1)  # nobody's mistake
    except RiverrunError as error:
        return _fail(str(error), 2)
    except BrokenPipeError:
        raise
    except OSError as error:
        return _fail(_system(error), 2 if isinstance(error, _MISTAKES) else 1)
    except ModuleNotFoundError as error:
        return _fail(str(not_installed("this command", error, "spark,serve")), 2)
    except Exception as error:
        # Not the user's mistake, but a traceback would help them no more than this line.
        return _fail(f"{type(error).__name__}: {error}. This is a defect; RIVERRUN_DEBUG=1 shows where", 1)
    return 0


def _usage(error: Any) -> str:
    path = error.ctx.command_path if getattr(error, "ctx", None) else "riverrun"
    message = error.format_message().strip()
    return f"{message if message.endswith(('.', '?', '!')) else message + '.'} See: {path} --help"


def _system(error: OSError) -> str:
    what = error.strerror or str(error)
    return f"{error.filename}: {what}" if error.filename else what


def _fail(message: str, code: int) -> int:
    if os.environ.get("RIVERRUN_DEBUG") == "1":
        traceback.print_exc()
    note("riverrun: " + " ".join(message.split()))
    return code
