"""Generated expressions, each computed by DuckDB and by Spark; a difference is made as small as it gets."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

import pyarrow as pa

from oracles.expression_trees import Expr, Generator, approximate
from oracles.hostile_rows import DDL, hostile_rows
from oracles.spark_expressions import Computed, DuckSide, SparkSide
from riverrun import ddl
from riverrun.expressions import Unverified

_AT_ONCE = 250  # expressions in one job of Spark
_LAST = 40  # steps in which a difference is made smaller


@dataclass
class Outcome:
    """How many expressions were compared, how many are left to Spark, and what was not the same."""

    compared: int = 0
    refused: int = 0
    differences: list[str] = field(default_factory=list)


class Comparison:
    """Both engines over the same rows."""

    def __init__(self, spark: Any, seed: int, rows: int) -> None:
        table = hostile_rows(seed, rows, pa.schema([(c.name, ddl.to_arrow(c.type)) for c in ddl.parse(DDL)]))
        self._spark = SparkSide(spark, table)
        self._duck = DuckSide(table)

    def run(self, seed: int, count: int, most: int = 5) -> Outcome:
        """Compares so many expressions, up to the first few that differ."""
        outcome, generated = Outcome(), self._translatable(seed)
        while outcome.compared < count and len(outcome.differences) < most:
            chosen = []
            for expression, is_verified in generated:
                outcome.refused += not is_verified
                if is_verified:
                    chosen.append(expression)
                if len(chosen) == min(_AT_ONCE, count - outcome.compared):
                    break
            for expression, difference in zip(chosen, self.differences(chosen), strict=True):
                if difference is not None and len(outcome.differences) < most:
                    outcome.differences.append(self.smallest(expression, difference))
            outcome.compared += len(chosen)
        return outcome

    def _translatable(self, seed: int) -> Iterator[tuple[Expr, bool]]:
        generator = Generator(seed)
        while True:
            expression = generator.expression()
            yield expression, self._is_verified(expression)

    def _is_verified(self, expression: Expr) -> bool:
        try:
            self._duck.translate(expression.sql())
        except Unverified:
            return False
        return True

    def differences(self, expressions: Sequence[Expr]) -> list[str | None]:
        """Of each expression of the set, what is not as Spark has it."""
        computed = self._spark.computed([expression.sql() for expression in expressions])
        return [self._difference(one, other) for one, other in zip(expressions, computed, strict=True)]

    def _difference(self, expression: Expr, computed: Computed | str | None) -> str | None:
        if not isinstance(computed, Computed):
            return f"Spark does not accept it: {computed}" if computed else "Spark fails before it has seen a row"
        return self._duck.difference(self._duck.translate(expression.sql()), computed, approximate(expression))

    def smallest(self, expression: Expr, difference: str) -> str:
        """A simpler expression that differs as well, what differs, and how it was translated."""
        for _ in range(_LAST):
            simpler = islice((less for less in expression.smaller() if less.size <= expression.size), _AT_ONCE)
            candidates = [less for less in simpler if less != expression and self._is_verified(less)]
            differing = zip(candidates, self.differences(candidates), strict=True) if candidates else ()
            one = next(((less, why) for less, why in differing if why is not None), None)
            if one is None or one[0].sql() == expression.sql():
                break
            expression, difference = one
        translated = self._duck.translate(expression.sql())
        return f"{expression.sql()}\n    {difference}\n    {translated.sql}"
