"""Any changes in any epochs: a view is the sum of them."""

from __future__ import annotations

import itertools

import pyarrow as pa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from contracts.view_flow import ViewFlow
from oracles.view_steps import steps
from oracles.views import ViewOracle
from riverrun.views import View, ViewSpec

_numbers = itertools.count()


@settings(
    max_examples=35,
    deadline=None,
    # Each example has a flow and a view of its own; each backend runs the test for itself.
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.differing_executors],
)
@given(data=st.data())
def test_a_view_is_the_sum_of_its_changes(store, data):
    number = next(_numbers)
    schema = "a string, b bigint, x double, at timestamp, price decimal(12,2), tags array<string>"
    spec = ViewSpec(f"v{number}", f"flow{number}", schema, ("a", "b"), history="1 hour")
    flow = ViewFlow(store, spec, name=f"flow{number}")
    view = View(store, spec.name)
    model = ViewOracle(("a", "b"))
    versions = []
    for epoch in range(1, data.draw(st.integers(1, 5), "epochs") + 1):
        changes = data.draw(st.lists(steps(), max_size=12), f"epoch {epoch}")
        batch = model.weighted(changes)
        table = pa.Table.from_pylist([row for row, _ in batch], spec.arrow)
        flow.commit({spec.name: table.append_column("_weight", pa.array([w for _, w in batch], pa.int8()))})
        model.apply(batch)
        assert _by_key(view.rows()) == _by_key(model.rows())
        for row in model.rows():
            assert view.get({"a": row["a"], "b": row["b"]}) == row
        versions.append((flow.epoch, model.rows()))
    replayed = ViewOracle(("a", "b"))
    for change in view.changes(timeout=0):
        replayed.follow(change)
    assert _by_key(replayed.rows()) == _by_key(model.rows())
    for epoch, expected in versions:
        assert _by_key(view.as_of({"orders": {0: epoch * 10}}).rows()) == _by_key(expected)


def _by_key(given: list[dict]) -> dict:
    return {(row["a"], row["b"]): row for row in given}
