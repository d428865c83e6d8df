"""The search itself: programs are text that runs, what fails is made small, and a broken kernel is noticed."""

from __future__ import annotations

from types import ModuleType

import pytest

from random_programs.comparison import Difference, check, differences
from random_programs.generator import generate
from random_programs.nodes import WEIGHTS
from random_programs.program import Program
from random_programs.shrinker import shrink
from riverrun.kernels import dedupe, join_streams, match


def test_a_seed_is_one_program() -> None:
    assert generate(3).text() == generate(3).text() != generate(4).text()


def test_the_text_of_a_program_can_be_pasted() -> None:
    names: dict[str, object] = {}
    exec(generate(5).text(), names)
    assert names["result"].views  # type: ignore[attr-defined]


def test_a_program_is_made_small_as_long_as_it_fails() -> None:
    def fails(program: Program) -> str | None:
        tombstones = [step for step in program.script if type(step).__name__ == "Delete"]
        return "joined" if tombstones and any(one.kind == "join_tables" for one in program.operations) else None

    program = next(one for one in map(generate, range(1000)) if fails(one))
    small = shrink(program, fails)
    assert [one.kind for one in small.operations][-1] == "join_tables"
    assert len(small.outlets) == len(small.script) == 1
    assert len(small.text()) < len(program.text())


@pytest.mark.parametrize(("kernel", "seed"), [(join_streams, 91), (dedupe, 39), (match, 2)])
def test_a_kernel_with_one_comparison_wrong_is_noticed(
    monkeypatch: pytest.MonkeyPatch, kernel: ModuleType, seed: int
) -> None:
    """A row exactly as old as the watermark is not late. When programs of seeds change, look for other seeds."""
    monkeypatch.setattr(kernel, "in_time", lambda time, clock, horizon=0: time > clock.start - horizon)
    with pytest.raises(Difference, match="the ledger of"):
        check(generate(seed))


def test_rows_are_compared_as_sets_with_floats_that_are_close() -> None:
    rows = [{"k": None, "x": float("nan")}, {"k": 1, "x": 0.1 + 0.2}]
    assert differences(rows, [{"k": 1, "x": 0.3}, {"k": None, "x": float("nan")}]) == []
    assert differences(rows, [{"k": 1, "x": 0.31}, {"k": None, "x": float("nan")}]) == [
        "missing: {'k': 1, 'x': 0.31}",
        f"not expected: {rows[1]}",
    ]
    assert differences(rows[:1], []) == ["not expected: {'k': None, 'x': nan}"]


def test_every_operator_is_among_the_programs_of_a_seeded_hundred() -> None:
    kinds = {one.kind for seed in range(100) for one in generate(seed).operations}
    assert kinds == set(WEIGHTS)
    options = [one for seed in range(100) for one in generate(seed).operations]
    late = {policy[0] for one in options if one.kind == "join_streams" for policy in one.options["late"]}
    assert late == {"drop", "side", "correct"}
    assert any(one.options.get("rename") for one in options)
    assert any(one.options.get("keep") for one in options)
