"""What can be wrong with a flow file: always one line that names the file and, where there is one, the line."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import Any

import pytest

GOOD = """
import riverrun as rr

flow = rr.Flow("shop")
orders = flow.stream("orders", "user string, amount double, at timestamp", key="user", time="at")
flow.view("totals", orders.group("user").agg(n=rr.count()))
"""


def write(text: str, name: str = "shop.py") -> str:
    Path(name).write_text(textwrap.dedent(text))
    return name


@pytest.mark.parametrize("command", ["run", "plan"])
@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("import riverrun as rr\nflow = rr.Flow('shop'\n", "shop.py:2: '(' was never closed"),
        ("import riverrun as rr\n\nshop = rr.Flow('shop')\n", "shop.py has no `flow`. Call it so: flow = shop"),
        ("x = 1\n", 'shop.py has no `flow`. Write: flow = rr.Flow("name")'),
        ("flow = 'shop'\n", "shop.py: `flow` is a str, not a flow"),
        ("import riverrun\nimport a_module_that_is_not_there\n", "shop.py:2: No module named 'a_module_that_is"),
        ("import riverun as rr\n", "shop.py:1: No module named 'riverun'. Did you mean riverrun?"),
        ("def broken():\n    return 1 / 0\n\nbroken()\n", "shop.py:2: ZeroDivisionError: division by zero"),
        ("import sys\nsys.exit(3)\n", "shop.py:2: the file ends the program when it is loaded"),
        (
            "import riverrun as rr\nrr.River('x', checkpoints='y://')\n",
            "shop.py:2: checkpoints: y://… is no place that all machines see",
        ),
        (GOOD + "orders.where('amuont > 1')\n", "shop.py:7: "),
    ],
)
def test_a_file_that_cannot_be_used(riverrun: Any, command: str, text: str, why: str) -> None:
    error = riverrun(command, write(text)).error
    assert why in error
    assert error.startswith("shop.py")
    assert not Path("river").exists()


def test_of_a_file_with_two_flows_one_has_to_be_chosen(riverrun: Any) -> None:
    error = riverrun("run", write("import riverrun as rr\nf1, f2 = rr.Flow('a'), rr.Flow('b')\n")).error
    assert error.startswith("shop.py has 2 flows (f1, f2), and none is called `flow`. A run takes one. Say which: ")


@pytest.mark.parametrize(
    ("name", "why"), [("nothing.py", "there is no file nothing.py"), (".", ". is not a Python file")]
)
def test_a_file_that_is_none(riverrun: Any, name: str, why: str) -> None:
    assert why in riverrun("plan", name).error


def test_an_error_in_a_module_beside_it_names_that_module_and_who_loads_it(riverrun: Any) -> None:
    write("def rate():\n    return {}['eur']\n", "rates_of_the_day.py")
    assert "shop.py:2: KeyError: 'eur'" in riverrun("plan", write("import rates_of_the_day as r\nr.rate()\n")).error


def test_modules_beside_it_can_be_imported_from_anywhere(riverrun: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("flows").mkdir()
    write("NAME = 'from-beside'\n", "flows/names_beside.py")
    write(GOOD.replace('"shop"', "names_beside.NAME") + "\n", "flows/shop.py")
    text = Path("flows/shop.py").read_text()
    Path("flows/shop.py").write_text("import names_beside\n" + text)
    assert riverrun("plan", "flows/shop.py", "--json").json["flow"] == "from-beside"
