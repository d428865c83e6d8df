"""Declarations of views."""

from __future__ import annotations

import pyarrow as pa
import pytest

from riverrun.errors import Invalid, NotFound
from riverrun.views import ViewSpec


def test_a_schema_is_ddl_or_arrow():
    arrow = pa.schema([pa.field("user", pa.string(), nullable=False), ("at", pa.timestamp("us", "UTC"))])
    assert ViewSpec("v", "f", arrow, ("user",)) == ViewSpec("v", "f", "user string, at timestamp not null", ("user",))


def test_it_survives_as_plain_data():
    spec = ViewSpec(
        "v", "f", "_id string, `odd name` map<string,decimal(5,2)>", ("_id",), ("b", "a"), "1 hour", ("_id",)
    )
    assert ViewSpec.from_dict(spec.as_dict()).as_dict() == spec.as_dict()
    assert (spec.topics, spec.visible, spec.history_micros) == (("a", "b"), ["odd name"], 3_600_000_000)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"key": ("usr",)}, "has no column 'usr'. Did you mean 'user'?"),
        ({"hidden": ("nope",)}, "has no column 'nope'"),
        ({"schema": "user string, tags array<string>", "key": ("tags",)}, "cannot be a key"),
        ({"schema": "user string, _weight int"}, "belongs to the store"),
        ({"schema": "user string, User int"}, "case does not count"),
        ({"schema": pa.schema([("user", pa.string()), ("User", pa.string())])}, "differ in case only"),
    ],
)
def test_what_cannot_be_is_refused(change, says):
    with pytest.raises((Invalid, NotFound)) as refused:
        ViewSpec(**{"name": "v", "flow": "f", "schema": "user string", "key": ("user",), **change})
    assert says in str(refused.value)
