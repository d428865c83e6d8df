"""What the generator leaves out, and why."""

from __future__ import annotations

EXCLUDED = {
    "full joins of tables on parts of both keys": "unmatched rows of both sides have the same key, and one is lost",
    "joins of longs with doubles beyond 2^53": "the conversion of the key to double fails instead of rounding",
    "order behind nodes that hold rows back": "newest and first go by when rows came out of as_of(late=rr.drop())",
    "doubles near the end of their range": "sums of tables stay inf or NaN when such a row is deleted",
    "tables with a column _op in topics": "the topic's own _op is written over it",
    "upper and lower of odd text": "DuckDB has other rules than Spark for some letters",
}
"""Known faults. An entry that is taken out is generated from then on."""

WITHOUT_ORACLE = {
    "event times at the end of the calendar": "what a window is that ends in the year 10000, nothing says yet",
    "as_of on computed tables": "its versions depend on epochs, in a way that is not written down yet",
    "event times of changes": "nothing says which time a deletion has, so no window comes behind changes()",
    "changes of full joins": "whether a row of one side follows one of the other as an update, nothing says",
    "order of equal times across partitions": "only rows of one partition have an order; times differ there instead",
}
"""What no program has, since the oracle has nothing to go by."""
