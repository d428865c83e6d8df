"""The reference of the Python API: complete, as the docstrings say, and its examples run."""

from __future__ import annotations

import doctest
import importlib.util
import re
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "python.md"
EXAMPLES = ROOT / "docs" / "python_examples.txt"


@pytest.fixture(scope="module")
def reference() -> ModuleType:
    spec = importlib.util.spec_from_file_location("python_reference", ROOT / "docs" / "python_reference.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)


def test_it_is_current(reference: ModuleType) -> None:
    written = reference.page(EXAMPLES.read_text(encoding="utf-8"))
    assert PAGE.read_text(encoding="utf-8") == written, "Write it again: python docs/python_reference.py"


def test_every_public_name_has_a_docstring_and_an_example(reference: ModuleType) -> None:
    sections = re.split(r"^## ", EXAMPLES.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]
    named = [name for section in sections for name in section.partition("\n")[0].split(", ")]
    assert sorted(named) == sorted(reference.public_names())
    assert [section.partition("\n")[0] for section in sections if "```py" not in section] == []
    plain = {"testing.END", "Producer.stats"}  # a value, and one of a few numbers
    undescribed = [name for name in named if not getattr(reference.find(name), "__doc__", None)]
    assert set(undescribed) <= plain


def test_its_examples_give_what_they_say(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One after the other, as a reader would."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("RIVERRUN_RIVER", raising=False)
    names: dict[str, Any] = {}
    runner = doctest.DocTestRunner(verbose=False)
    for number, block in enumerate(blocks("pycon")):
        test = doctest.DocTestParser().get_doctest(block, names, f"example {number}", PAGE.name, 0)
        runner.run(test, clear_globs=False)
        names.update(test.globs)
    assert runner.tries > 100
    assert runner.failures == 0


@pytest.mark.spark
def test_its_runs_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    exec(compile("\n".join(blocks("python")), PAGE.name, "exec"), {"__name__": "__main__"})


def test_hints_name_what_can_be_installed() -> None:
    """A package index may have a stranger's package of that name."""
    wrong = re.compile(r"pip install [\"']?riverrun")
    written = [*(ROOT / "src").rglob("*.py"), *(ROOT / "docs").glob("*.md"), ROOT / "README.md"]
    assert [path.name for path in written if wrong.search(path.read_text(encoding="utf-8"))] == []
