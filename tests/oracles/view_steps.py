"""Random steps for a view with the key (a, b), for `ViewOracle.weighted`."""

from __future__ import annotations

from datetime import UTC, datetime

from hypothesis import strategies as st


def steps() -> st.SearchStrategy:
    """One step: what to do, to which key, and the values."""
    key = st.tuples(st.sampled_from([None, "", "x", "é\"'"]), st.sampled_from([None, 0, -5]))
    values = st.fixed_dictionaries(
        {
            "x": st.none() | st.sampled_from([0.5, -1e300, 0.1, float("inf")]),
            "at": st.none()
            | st.datetimes(datetime(1900, 1, 1), datetime(2100, 1, 1)).map(lambda t: t.replace(tzinfo=UTC)),
            "price": st.none() | st.decimals(-1000, 1000, places=2),
            "tags": st.none() | st.lists(st.none() | st.text('aé"\\', max_size=3), max_size=2),
        }
    )
    return st.tuples(st.sampled_from(["update", "upsert", "delete", "flicker", "nothing"]), key, values)
