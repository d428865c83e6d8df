"""`riverrun rules …`: rules of `s.match_rules` put, listed, switched off, and tried on what is in the log."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from riverrun import figures
from riverrun.cli.options import DEFAULT_RIVER, JsonOption, RiverOption, has_river, open_river
from riverrun.cli.output import note, print_json, print_line, print_table
from riverrun.durations import micros, show
from riverrun.errors import Invalid

if TYPE_CHECKING:
    from riverrun.river import River

app = typer.Typer(help="Rules that flows match rows against: put, list, off, try.", rich_markup_mode=None)

FileArgument = Annotated[
    Path, typer.Argument(metavar="FILE", help="JSON: a rule, a list of rules, or one in each line.", show_default=False)
]
RulesOption = Annotated[str, typer.Option("--rules", metavar="TOPIC", help="The topic that has the rules.")]
_RULES = "rules"
_SHOWN = 50


@app.callback(invoke_without_command=True)
def _rules(context: typer.Context) -> None:
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


@app.command()
def put(
    file: FileArgument, rules: RulesOption = _RULES, json: JsonOption = False, river: RiverOption = DEFAULT_RIVER
) -> None:
    """Add rules, or put them in the place of those of the same name. Flows that run take them in with their next epoch.

    What can be seen to be wrong without a flow is refused, and nothing is put. The topic is made where there is none.
    """
    from riverrun.rules.file import read_rules
    from riverrun.runtime.rule_topic import open_rules, put_rules, rule_columns

    text = _text(file)
    if not has_river(river):
        read_rules(text)  # before a river is made for it
    with open_river(river, create=True) as opened:
        rows = read_rules(text, rule_columns(opened, rules))
        position = put_rules(open_rules(opened, rules), rows)
    if json:
        print_json({"put": [row["rule_id"] for row in rows], "position": str(position)})
    else:
        print_line(f"put {figures.plural(len(rows), 'rule')} into {rules}: {', '.join(row['rule_id'] for row in rows)}")


@app.command("list")
def list_rules(rules: RulesOption = _RULES, json: JsonOption = False, river: RiverOption = DEFAULT_RIVER) -> None:
    """List the rules: what each looks for, whether it is on, and why it is not in force."""
    with open_river(river) as opened:
        found = _stored(opened, rules)
    if json:
        print_json(found)
    elif not found:
        print_line(f"no rules in {rules}")
    else:
        print_table(
            ["rule", "state", "pattern", "within", "why"],
            [
                [one["rule_id"], one["state"], one["pattern"] or "–", one["within"] or "–", one["error"] or ""]
                for one in found
            ],
        )


@app.command()
def off(
    names: Annotated[list[str], typer.Argument(metavar="ID…", help="The rules.", show_default=False)],
    rules: RulesOption = _RULES,
    json: JsonOption = False,
    river: RiverOption = DEFAULT_RIVER,
) -> None:
    """Switch rules off. What they had begun is forgotten; `riverrun rules put` switches them on again."""
    from riverrun.runtime.rule_topic import switch_rules

    with open_river(river) as opened:
        position = switch_rules(opened.topic(rules), names, on=False)
    if json:
        print_json({"off": names, "position": str(position)})
    else:
        print_line(f"switched off {', '.join(names)}")


@app.command("try")
def try_file(
    file: FileArgument,
    topic: Annotated[str, typer.Option("--topic", metavar="TOPIC", help="The rows to look at.", show_default=False)],
    last: Annotated[str, typer.Option("--last", metavar="DURATION", help="How far back.")] = "7 days",
    by: Annotated[str, typer.Option("--by", metavar="COLUMNS", help="Rows equal in these are one sequence: a,b.")] = "",
    json: JsonOption = False,
    river: RiverOption = DEFAULT_RIVER,
) -> None:
    """Show what rules would have found in the newest rows of a topic. Nothing is written, no flow is touched."""
    from riverrun.rules.file import read_rules
    from riverrun.rules.rule import WrittenRule
    from riverrun.runtime.rule_trial import try_rules

    since = datetime.now(UTC) - timedelta(microseconds=micros(last))
    keys = [part.strip() for part in by.split(",") if part.strip()]
    with open_river(river) as opened:
        rows = read_rules(_text(file))
        trial = try_rules(opened.topic(topic), [WrittenRule.of(row) for row in rows], keys, since)
    if trial.refused:
        name, why = next(iter(trial.refused.items()))
        raise Invalid(f"rule {name} cannot be used: {why}")
    found = trial.hits.to_dicts()
    if json:
        print_json({"rows": trial.rows, "matches": found, "stopped": list(trial.stopped)})
        return
    for name in trial.stopped:
        note(f"rule {name} was stopped: it takes too many steps")
    if found:
        headers = list(trial.hits.columns)
        print_table(headers, [[_cell(row[name]) for name in headers] for row in found[:_SHOWN]])
    more = f", of which {_SHOWN} are shown; --json has all" if len(found) > _SHOWN else ""
    print_line(f"{_matches(len(found))} in {figures.rows(trial.rows)} of {topic}, the last {show(micros(last))}{more}")


def _cell(value: Any) -> str:
    if isinstance(value, datetime):
        return value.strftime("%Y-%m-%d %H:%M:%S")
    return "–" if value is None else str(value)


def _text(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise Invalid(f"{file} is not text in UTF-8") from None


def _stored(river: River, rules: str) -> list[dict[str, Any]]:
    from riverrun.runtime.rule_topic import newest_rules, rule_errors

    rows = newest_rules(river.topic(rules))
    errors = rule_errors(river, rules, rows)
    found = []
    for name, row in sorted(rows.items(), key=lambda pair: str(pair[0])):
        error = errors.get(name)
        state = "off" if row.get("enabled") is False else "refused" if error else "on"
        texts = {column: row.get(column) for column in ("pattern", "define", "within", "measures", "after")}
        found.append({"rule_id": name, "state": state, **texts, "error": error if state == "refused" else None})
    return found


def _matches(many: int) -> str:
    return "1 match" if many == 1 else f"{figures.count(many)} matches"
