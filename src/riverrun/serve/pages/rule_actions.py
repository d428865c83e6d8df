"""What people may do to rules from their page: switch one on or off, put one, and try one before that.

Each is a form that works without scripts. Who may post is decided where all requests are looked at (`serve.guard`).
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from riverrun.durations import micros
from riverrun.errors import Invalid, NotFound
from riverrun.river import River
from riverrun.runtime.rule_topic import open_rules, put_rules, rule_columns, switch_rules

if TYPE_CHECKING:
    from riverrun.runtime.rule_trial import RuleTrial

TRY, PUT, ON, OFF = "try", "put", "on", "off"
_MOST = 2_000_000  # rows that a page looks at


def change_rules(river: River, form: Mapping[str, str]) -> None:
    """Put a rule, or switch one on or off."""
    from riverrun.rules.file import (
        read_rules,  # what reads rules is imported when one is there: a server starts without
    )

    name = form.get("rules") or "rules"
    action = form.get("do")
    if action == PUT:
        rows = read_rules(form.get("rule", ""), rule_columns(river, name))
        put_rules(open_rules(river, name), rows)
    elif action in (ON, OFF):
        switch_rules(river.topic(name), [form.get("id", "")], on=action == ON)
    else:
        raise NotFound(f"there is nothing called {action!r} that can be done to a rule")


def try_rule(river: River, form: Mapping[str, str]) -> RuleTrial:
    """What the rule of a form would have found."""
    from riverrun.rules.file import read_rules
    from riverrun.rules.rule import WrittenRule
    from riverrun.runtime.rule_trial import try_rules

    if not form.get("topic"):
        raise Invalid("it is not said which rows to look at", hint="Choose a topic")
    since = datetime.now(UTC) - timedelta(microseconds=micros(form.get("last") or "1 hour"))
    by = [part.strip() for part in form.get("by", "").split(",") if part.strip()]
    rules = [WrittenRule.of(row) for row in read_rules(form.get("rule", ""))]
    trial = try_rules(river.topic(form["topic"]), rules, by, since, _MOST)
    for name, why in trial.refused.items():
        raise Invalid(f"rule {name} cannot be read: {why}")
    return trial
