"""Settling rows without a store."""

from __future__ import annotations

import pickle

import pyarrow as pa
import pytest

from riverrun.errors import Invalid
from riverrun.views import Settled, ViewSpec, settle
from riverrun.views.layout import DELETE, INSERT, NEW, OLD, OP, layout_of

SPEC = ViewSpec("v", "flow", "name string, n bigint, at timestamp, raw binary, tags array<string>", ("n", "name"))


def table(*rows: tuple) -> pa.Table:
    columns = list(zip(*rows, strict=True)) or [()] * 3
    names, ns, weights = columns
    empty = [None] * len(names)
    arrays = [
        pa.array(values, field.type) for values, field in zip((names, ns, empty, empty, empty), SPEC.arrow, strict=True)
    ]
    return pa.table([*arrays, pa.array(weights, pa.int8())], names=[*SPEC.names, "_weight"])


def test_keys_are_sorted_and_each_row_says_what_it_is():
    rows = [("b", 2, 1), ("a", 2, -1), ("z", 1, 1), ("z", 1, -1), (None, 1, 1), ("c", None, 1)]
    part = settle(SPEC, table(*rows))
    assert part.batch.select(["c1", "c0", OP]).to_pydict() == {
        "c1": [None, 1, 2, 2],
        "c0": ["c", None, "a", "b"],
        OP: [INSERT, INSERT, DELETE, INSERT],
    }


def test_an_update_has_its_old_row_next_to_the_new_one():
    spec = ViewSpec("v", "flow", "k bigint, x double", ("k",))
    rows = pa.table({"k": [1, 1, 0], "x": [0.5, 0.7, 0.1], "_weight": [-1, 1, 1]})
    assert settle(spec, rows).batch.to_pydict() == {"c0": [0, 1, 1], "c1": [0.1, 0.5, 0.7], OP: [INSERT, OLD, NEW]}


def test_a_view_without_a_key_has_one_that_is_always_the_same():
    spec = ViewSpec("v", "flow", "n bigint", ())
    rows = pa.table({"n": [1, 2], "_weight": [-1, 1]})
    assert settle(spec, rows).batch.to_pydict() == {"c0": [1, 2], "single": [0, 0], OP: [OLD, NEW]}


@pytest.mark.parametrize("rows", [(), (("a", 1, 1),), (("a", 1, 1), ("a", 1, -1))])
def test_it_has_the_layout_of_stores_whatever_is_in_it(rows):
    batch = settle(SPEC, table(*rows)).batch
    assert batch.schema.equals(layout_of(SPEC).changes, check_metadata=False)
    batch.validate(full=True)


def test_it_is_mapped_from_a_file_without_copies(tmp_path):
    part = settle(SPEC, table(*((f"name {n}", n, 1) for n in range(1000))))
    with pa.OSFile(str(tmp_path / "part"), "wb") as file, pa.ipc.new_file(file, part.batch.schema) as writer:
        writer.write_batch(part.batch)
    with pa.memory_map(str(tmp_path / "part")) as file:
        before = pa.total_allocated_bytes()
        mapped = Settled.from_batch(pa.ipc.open_file(file).get_batch(0))
        assert pa.total_allocated_bytes() == before
        assert mapped.batch.equals(part.batch)
        mapped.check(SPEC)
        numbers = mapped.to_frame()["c1"]
        assert numbers.to_arrow().buffers()[1].address == mapped.batch.column("c1").buffers()[1].address


def test_it_travels_as_a_pickle():
    part = settle(SPEC, table(("a", 1, 1)))
    assert pickle.loads(pickle.dumps(part)).batch.equals(part.batch)


def test_it_knows_which_columns_it_is_of():
    part = settle(SPEC, table(("a", 1, 1)))
    part.check(ViewSpec("other", "flow", SPEC.schema, SPEC.key, history="1 hour"))
    with pytest.raises(Invalid, match="changes of view 'v'.* were settled for"):
        part.check(ViewSpec("v", "flow", SPEC.schema, ("name", "n")))
    with pytest.raises(Invalid, match="not changes of a view: a batch of a"):
        Settled.from_batch(pa.record_batch({"a": [1]}))


def test_columns_that_are_missing_are_named():
    with pytest.raises(Invalid, match="changes of view 'v': no column 'raw'"):
        settle(SPEC, table(("a", 1, 1)).drop_columns(["raw"]))
