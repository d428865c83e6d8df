"""Names and texts in the SQL that is made for Spark. No session is needed to see the SQL."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from riverrun.flow.composition import Item

NAMES = ["it's", "a`b", "a\\b", "a b", "select"]


class Listening:
    """Stands for a DataFrame, and keeps what it is asked to select."""

    schema = None

    def selectExpr(self, *sql: str) -> Any:
        self.asked = sql
        return self


@pytest.mark.parametrize("name", NAMES)
def test_columns_of_a_transform(name: str) -> None:
    from riverrun.spark import transform

    rows: Any = Listening()
    transform.as_struct(rows, "s", pa.schema([(name, pa.int32())]), ["nothing"])
    literal = "'" + name.replace("\\", "\\\\").replace("'", "\\'") + "'"
    quoted = "`" + name.replace("`", "``") + "`"
    assert rows.asked[1].startswith(f"named_struct({literal}, CAST({quoted} AS int), '_time', ")


@pytest.mark.parametrize("name", NAMES)
def test_expressions_that_spark_is_asked_about(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from riverrun.spark import analyst

    rows: Any = Listening()
    monkeypatch.setattr(analyst.SparkAnalyst, "_empty", lambda *_: rows)
    monkeypatch.setattr(analyst, "arrow_schema", lambda _: pa.schema([(name, pa.int32())]))
    found = analyst.SparkAnalyst(rows).types("a", pa.schema([]), [Item(name, None, "f(1)")])
    assert found == {name: pa.int32()}
    quoted = "`" + name.replace("`", "``") + "`" if name != "select" else name
    assert rows.asked == (f"f(1) AS {quoted}",)
