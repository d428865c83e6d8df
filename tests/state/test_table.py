import polars as pl
import pytest

from riverrun.errors import Invalid
from riverrun.state.table import TableSpec

SCHEMA = {"key": pl.String(), "start": pl.Int64(), "item": pl.Int64()}


def test_spec_names_unknown_columns():
    with pytest.raises(Invalid, match="nope"):
        TableSpec(SCHEMA, ("nope",), ("key",))


def test_key_is_identity_at_an_address():
    spec = TableSpec(SCHEMA, ("item",), ("key",), "start")
    assert spec.address == ("key", "start")
    assert spec.key == ("key", "start", "item")
