"""Expressions that Spark cannot read are refused when a run starts, with their line and what was perhaps meant."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from riverrun.errors import Invalid
from riverrun.flow import Flow
from riverrun.river import River

pytestmark = pytest.mark.spark


@pytest.mark.parametrize(
    ("condition", "said"),
    [
        ("uper(page) = 'X'", r"test_analyst\.py:\d+: uper\(page\) = 'X': there is no function 'uper'\. Did you mean 'upper'\?"),
        ("zzqqy(page) is null", r"there is no function 'zzqqy'\. Functions are those of Spark SQL"),
        ("n = 5 || n = 2", r"test_analyst\.py:\d+: n = 5 \|\| n = 2: .*Cannot resolve \"\(\(n = concat"),
    ],
)  # fmt: skip
def test_a_condition(tmp_path: Path, spark_session: Any, condition: str, said: str) -> None:
    flow = Flow("site")
    flow.view("hits", flow.stream("hits", "page string, n bigint").where(condition))
    with River(tmp_path / "river") as river, pytest.raises(Invalid, match=said):
        river.run(flow)


def test_a_column_whose_type_only_spark_knows(tmp_path: Path, spark_session: Any) -> None:
    flow = Flow("site")
    flow.view("hits", flow.stream("hits", "page string").select("uper(page) as title"))
    with River(tmp_path / "river") as river, pytest.raises(Invalid, match="there is no function 'uper'"):
        river.run(flow)
