"""Generated expressions over hostile rows: the same type, and in every row the same value or an error in both."""

from __future__ import annotations

import re
from itertools import chain
from typing import Any

import pytest

from oracles.expression_fuzz import Comparison
from oracles.expression_trees import APPROXIMATE, ATOM, TEMPLATES, Expr, template
from riverrun.expressions import forms
from riverrun.expressions.casts import argument
from riverrun.expressions.forms import Given
from riverrun.expressions.term import Term, strict
from riverrun.flow.schema import STRING

pytestmark = pytest.mark.spark


def test_a_few_hundred_expressions_are_computed_as_spark_computes_them(spark_session: Any) -> None:
    outcome = Comparison(spark_session, seed=1, rows=40).run(seed=1, count=200)
    assert outcome.differences == []
    assert outcome.compared == 200
    assert outcome.refused < outcome.compared  # most of what is generated is in the set


def test_every_function_that_tasks_compute_is_generated() -> None:
    templates = [*chain.from_iterable(TEMPLATES.values()), *APPROXIMATE]
    generated = {word for one in templates for piece in one.pieces for word in re.findall("[a-z_0-9]+", piece)}
    functions = {name for name in forms.FORMS if name.isidentifier()}
    assert functions - generated == set()


@pytest.mark.recovery
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("seed", range(2, 10))
def test_many_expressions_are_computed_as_spark_computes_them(spark_session: Any, seed: int) -> None:
    assert Comparison(spark_session, seed, rows=60).run(seed, count=2500).differences == []


def test_a_wrong_translation_is_noticed_and_shown_as_small_as_it_gets(
    spark_session: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def wrong(given: Given) -> Term:
        return strict(STRING, [argument(given, 0, STRING)], lambda value: f"upper({value})")  # ß stays ß

    monkeypatch.setitem(forms.FORMS, "upper", wrong)
    comparison = Comparison(spark_session, seed=1, rows=40)
    column = Expr(template("string", ATOM, "`r`.`s`"))
    upper = Expr(template("string", ATOM, "upper({text})"), (column,))
    whole = Expr(template("string", ATOM, "concat({text}, '-', {text})"), (column, upper))
    same, difference = comparison.differences([column, whole])
    assert same is None
    assert difference is not None
    assert comparison.smallest(whole, difference).startswith("upper(`r`.`s`)\n    row ")
