"""Every `>>>` in a docstring of the package or of the benchmarks gives what it says."""

from __future__ import annotations

import doctest
import re
from importlib import import_module
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PLACES = {"riverrun": ROOT / "src", "bench": ROOT}


def count_examples() -> dict[str, int]:
    """How many there are, by the name of the module."""
    counts = {}
    for package, folder in PLACES.items():
        for path in sorted((folder / package).rglob("*.py")):
            name = ".".join(path.relative_to(folder).with_suffix("").parts).removesuffix(".__init__")
            counts[name] = len(re.findall(r"^\s*>>> ", path.read_text(encoding="utf-8"), re.MULTILINE))
    return {name: count for name, count in counts.items() if count}


EXAMPLES = count_examples()


@pytest.mark.parametrize("module", EXAMPLES)
def test_the_examples_of_a_module(module: str) -> None:
    """All of them: one that stands where doctest does not look would be no test."""
    assert doctest.testmod(import_module(module)) == (0, EXAMPLES[module])


def test_they_are_found() -> None:
    assert {"riverrun.durations", "riverrun.testing", "riverrun.alerts.retry", "bench.report"} <= set(EXAMPLES)
