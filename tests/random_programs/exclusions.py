"""What the generator leaves out, and why."""

from __future__ import annotations

WITHOUT_ORACLE = {
    "event times at the end of the calendar": "what a window is that ends in the year 10000, nothing says yet",
    "as_of on computed tables": "its versions depend on epochs, in a way that is not written down yet",
    "event times of changes": "nothing says which time a deletion has, so no window comes behind changes()",
    "changes of full joins": "whether a row of one side follows one of the other as an update, nothing says",
    "order of equal times across partitions": "only rows of one partition have an order; times differ there instead",
}
"""What no program has, since the oracle has nothing to go by."""
