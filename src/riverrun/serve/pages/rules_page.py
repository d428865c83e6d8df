"""The rules of a river: what each looks for, what it has found, what it costs; and trying one before it is switched on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from riverrun.errors import RiverrunError
from riverrun.flow.operators.rule_match import RULE_ID, RuleMatch
from riverrun.flow.operators.source import Source
from riverrun.runtime.manifest import home_of
from riverrun.runtime.rule_topic import newest_rules, rule_errors
from riverrun.serve.pages.flow_health import BUSY, OK, STOPPED, badge
from riverrun.serve.pages.history import History
from riverrun.serve.pages.markup import Html, join, tag
from riverrun.serve.pages.quantities import number, share
from riverrun.serve.pages.rule_actions import OFF, ON, PUT, TRY, try_rule
from riverrun.serve.pages.shell import ROOT, Asked, Drawn, choose_flow, empty, notice, summary, table
from riverrun.serve.pages.table_cells import cell, heads

if TYPE_CHECKING:
    from riverrun.runtime.rule_figures import RuleFigures
    from riverrun.runtime.rule_trial import RuleTrial

RULES = f"{ROOT}/rules"
_EXAMPLE = "riverrun rules put FILE"
_NUMBERS = ["Matches", "Open attempts", "Share of work"]
_SHOWN = 50
_FRESH = 5.0  # seconds for which a topic has rules, or has none
_SKETCH = """{
  "rule_id": "abroad",
  "pattern": "abroad -> large",
  "define": {"abroad": "country <> prev(country)", "large": "amount > 500"},
  "within": "5 minutes",
  "measures": {"amount": "large.amount"}
}"""


def draw(history: History, asked: Asked) -> Drawn:
    regions = {"summary": summary(history, asked)}
    topics = _topics(history)
    if not topics:
        regions["rules"] = empty(
            "No topic has rules yet. s.match_rules(rules, by=…) uses them, and this adds some", _EXAMPLE
        )
    figures = _figures(history, asked)
    for name in topics:
        regions[f"rules-{name}"] = _rules(history, asked, name, figures)
    regions["try"] = _trial(history, asked, topics)
    return Drawn("Rules", regions, every=2.0, still=("try",))


def _topics(history: History) -> list[str]:
    """The topics that rules are in."""
    names = tuple(history.backend.river.topics())
    return history.remember(("rules", names), _FRESH, lambda: [name for name in names if _has_rules(history, name)])


def _has_rules(history: History, name: str) -> bool:
    with history.backend.river.briefly(name) as topic:
        return tuple(topic.spec.key) == (RULE_ID,) and "pattern" in topic.schema.names


def _figures(history: History, asked: Asked) -> dict[str, RuleFigures]:
    past = choose_flow(history, asked)
    if past is None or not history.backend.has_views():
        return {}
    from riverrun.runtime.rule_figures import read_figures  # with the kernels' packages: a server starts without them

    last = history.backend.store().last(past.name)
    home = home_of(history.backend.river.checkpoints, past.name, last)
    return {one.rule_id: one for one in read_figures(last, home)}


def _rules(history: History, asked: Asked, name: str, figures: dict[str, RuleFigures]) -> Html:
    rows = newest_rules(history.backend.topic(name))
    errors = rule_errors(history.backend.river, name, rows)
    ordered = sorted(rows.values(), key=lambda row: str(row[RULE_ID]))
    body = [_row(asked, name, row, figures.get(row[RULE_ID]), errors.get(row[RULE_ID])) for row in ordered]
    columns = ["Rule", "State", "Pattern", "Within", *_NUMBERS, "Last error", *(["Switch"] if asked.may_change else [])]
    caption = f"{len(rows)} rules in topic {name}; matches are counted since a rule was put as it is"
    return table(caption, heads(columns, _NUMBERS), body)


def _row(asked: Asked, topic: str, row: dict[str, Any], known: RuleFigures | None, error: str | None) -> Html:
    is_off = row.get("enabled") is False
    counted = not is_off and known is not None
    return tag(
        "tr",
        tag("th", str(row[RULE_ID]), scope="row", class_="wide"),
        tag("td", _state(is_off, known, error)),
        tag("td", tag("code", row.get("pattern") or "–"), class_="wide"),
        tag("td", row.get("within") or "–"),
        tag("td", number(known.hits) if counted and known else "–", class_="n", data_flash=True),
        tag("td", number(known.open) if counted and known else "–", class_="n"),
        tag("td", share(known.share, 1.0) if counted and known else "–", class_="n"),
        tag("td", error or "–", class_="wide"),
        tag("td", _switch(topic, str(row[RULE_ID]), is_off or bool(error))) if asked.may_change else None,
        id=f"rule-{topic}-{row[RULE_ID]}",
    )


def _state(is_off: bool, known: RuleFigures | None, error: str | None) -> Html:
    if is_off:
        return badge(BUSY, "off")
    if known is not None and known.off:
        return badge(STOPPED, "beyond its limits")
    if error:
        return badge(STOPPED, "refused") if known is None else badge(BUSY, "the version before")
    return badge(OK, "on") if known is not None else badge(BUSY, "not yet taken in")


def _switch(topic: str, rule: str, to_on: bool) -> Html:
    action = ON if to_on else OFF
    hidden = [tag("input", type="hidden", name=name, value=value) for name, value in _said(topic, rule, action).items()]
    return tag("form", *hidden, tag("button", action, type="submit"), method="post", action=RULES)


def _said(topic: str, rule: str, action: str) -> dict[str, str]:
    return {"rules": topic, "id": rule, "do": action}


def _trial(history: History, asked: Asked, topics: list[str]) -> Html:
    """The form, and what came of it."""
    if not asked.may_change:
        return tag("p", "Who may change the river can try rules here.", class_="note")
    topic, by = _looked_at(history, asked)
    names = [name for name in history.backend.river.topics() if name not in topics]
    chosen = asked.get("topic", topic)
    options = [tag("option", name, value=name, selected=name == chosen) for name in names]
    form = tag(
        "form",
        tag("label", "Rule", tag("textarea", asked.get("rule", _SKETCH), name="rule", rows=8, cols=70)),
        tag("label", "Rows of", tag("select", *options, name="topic")),
        tag("label", "By", tag("input", name="by", value=asked.get("by", by))),
        tag("label", "The last", tag("input", name="last", value=asked.get("last", "1 hour"))),
        tag("button", "Try it", type="submit", name="do", value=TRY),
        tag("button", "Put it", type="submit", name="do", value=PUT),
        tag("input", type="hidden", name="rules", value=topics[0] if topics else "rules"),
        method="post",
        action=RULES,
    )
    said = "Trying looks at the newest rows of a topic; nothing is written, and no flow is touched."
    answer = _answer(history, asked) if asked.is_posted else None
    return tag("section", tag("h2", "Try a rule"), tag("p", said, class_="note"), form, answer, class_="card")


def _looked_at(history: History, asked: Asked) -> tuple[str, str]:
    """The topic and the key that the rules of the flow are about, where that is known."""
    past = choose_flow(history, asked)
    graph = history.graph(past.name) if past else None
    for node in graph.nodes if graph else ():
        if isinstance(node, RuleMatch):
            below = node.left
            while below.inputs:
                below = below.inputs[0]
            return (below.topic if isinstance(below, Source) else ""), ", ".join(node.by)
    return "", ""


def _answer(history: History, asked: Asked) -> Html:
    try:
        trial = try_rule(history.backend.river, asked.query)
    except RiverrunError as error:
        return notice("stopped", "", error.message, tag("p", error.hint) if error.hint else None)
    return join(
        tag("p", f"Matches: {trial.hits.height}, in {trial.rows} rows", class_="said", role="status"),
        notice("busy", "", f"stopped, since they take too many steps: {', '.join(trial.stopped)}")
        if trial.stopped
        else None,
        _matches(trial) if trial.hits.height else None,
    )


def _matches(trial: RuleTrial) -> Html:
    names = trial.hits.columns
    body = [tag("tr", *(cell(row[name]) for name in names)) for row in trial.hits.head(_SHOWN).iter_rows(named=True)]
    return table(f"The first {len(body)} of {trial.hits.height}", heads(names), body)
