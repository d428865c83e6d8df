"""What windows and groups compute.

Read `agg` (one aggregate as a node is told), `parts` (what is kept and how it is added), `scalars` (count, sum, avg,
stddev, and min, max, first, last of rows that stay), `sketches`, `items` (distinct, quantile, collect, top), then
`aggregates`, which puts them together, and `tallies` and `cells`, which keep them in state.
"""

from riverrun.kernels.aggregates.agg import Agg
from riverrun.kernels.aggregates.aggregates import Aggregates

__all__ = ["Agg", "Aggregates"]
