"""What `s.match(…)` was given, checked: the node, and the measures after it."""

from __future__ import annotations

from collections.abc import Mapping

from riverrun.columns import check_name
from riverrun.errors import Invalid, did_you_mean
from riverrun.flow import names
from riverrun.flow.expressions import Expression, column, expression
from riverrun.flow.graph import Graph
from riverrun.flow.operators.match import ONE, Match, added_columns, skip_of
from riverrun.patterns.language import refuse_endless, unreadable
from riverrun.patterns.tree import ANY, MatchPattern

_AFTER = "skip past last, skip to next, skip to first X or skip to last X"


def defined(define: Mapping[str, str] | None, pattern: MatchPattern) -> tuple[tuple[str, str], ...]:
    """The conditions by variable, whose names are in lower case."""
    if define is not None and not isinstance(define, Mapping):
        raise Invalid(f"match: define is a dict of conditions, not {define!r}", hint='Write define={"a": "x > 1"}')
    found: dict[str, str] = {}
    for name, sql in (define or {}).items():
        known = str(name).lower()
        if known == ANY:
            raise Invalid("match: _ is every row, and has no condition", hint="Give the variable a name")
        if known not in pattern.variables:
            why = f"define has {name!r}, which the pattern does not use"
            raise unreadable(pattern.text, 0, why, did_you_mean(known, pattern.variables))
        if known in found:
            raise Invalid(f"match: define has {name!r} twice; case does not count")
        found[known] = sql
    return tuple(found.items())


def refuse_unmatched(node: Match) -> None:
    """Refuse what can be seen to go wrong before any row is there."""
    pattern = node.tree
    if node.within is None:
        refuse_endless(pattern, dict(node.define))
        if pattern.absent:
            at = pattern.text.rindex("!")
            raise unreadable(pattern.text, at, "! at the end needs within", 'Say for how long: within="30 seconds"')
        if node.on_timeout:
            raise unreadable(pattern.text, 0, "on_timeout needs within", 'Say when time is over: within="10 minutes"')
    skip, target = skip_of(node.after)
    if target is not None:
        if target not in pattern.matched:
            hint = did_you_mean(target, pattern.matched)
            raise Invalid(f"match: after names {target!r}, which no row of a match is", hint=hint)
        alone = node.automaton.beginnings == {target}
        if alone and (skip.name == "TO_FIRST" or target not in node.automaton.continuations):
            raise Invalid(
                f"match: after {node.after!r} would go on where the match began",
                hint="Write skip to next, or name a later variable",
            )
    node.matcher  # noqa: B018  # reads the conditions
    taken = [*(node.by if node.rows == ONE else node.inputs[0].schema)]
    added = [name for name, _ in added_columns(node.rows, node.on_timeout)]
    for name in taken:
        if name.lower() in added:
            where = "by" if node.rows == ONE else "rows"
            raise Invalid(
                f"match: {where} have a column {name!r}, and so would the matches",
                hint=f'Give it another name before: .select("{name} as other", …)',
            )
    taken += added
    for name, _ in node.measures:
        if names.made(name).lower() in (other.lower() for other in taken):
            raise Invalid(f"match: there is a column {name!r} already", hint="Give the measure another name")
    node.schema  # noqa: B018  # reads the measures


def name_match(graph: Graph, node: Match, name: str) -> None:
    """Gives a match a name, which the topic of what it puts aside has too."""
    if node.withholds:
        check_name(name, "match with a topic of that name for what it puts aside")
    graph.call(node, name)


def shown(node: Match) -> tuple[tuple[str, Expression], ...]:
    """The columns of a match as people see them: measures in the place of what they are computed from."""
    own = [(name, column(name, node.schema)) for name in node.handed_on]
    measures = [(name, expression(sql, node.schema, node.hidden)) for name, sql in node.expressions.items()]
    added = [(name, column(name, node.schema)) for name, _ in added_columns(node.rows, node.on_timeout)]
    if node.rows == ONE:
        return (*own, *measures, *added)
    return (*own, *added[:3], *measures, *added[3:])


def checked_after(after: str) -> str:
    """Where matching goes on after a match, in words."""
    words = after.lower().split() if isinstance(after, str) else []
    match words:
        case ["skip", "past", "last"] | ["skip", "to", "next"] | ["skip", "to", "first" | "last", _]:
            return " ".join(word.strip("`") for word in words)
    raise Invalid(f"match: after cannot be {after!r}", hint=f"There are: {_AFTER}")
