"""What to compute, as data.

Read `flow.py` (what a user declares), then `relation.py`, `stream.py` and `table.py` (what follows from what), then
`operators/` (what a declaration becomes). `expressions.py` and `inference.py` understand Spark SQL; nothing here runs it.
"""

from riverrun.flow.flow import Flow
from riverrun.flow.stream import Stream
from riverrun.flow.table import Table

__all__ = ["Flow", "Stream", "Table"]
