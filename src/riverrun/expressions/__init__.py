"""Expressions of Spark SQL, computed by DuckDB exactly as Spark computes them, or not at all.

`translate` gives the SQL for a database of `connect`, the type of the result, and whether a row may make it fail. What it
does not know to be the same is `Unverified`, and left to Spark.
"""

from riverrun.expressions.connection import connect
from riverrun.expressions.forms import Unverified
from riverrun.expressions.translation import Translated, translate

__all__ = ["Translated", "Unverified", "connect", "translate"]
