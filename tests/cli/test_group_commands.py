"""Groups from the command line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from riverrun.river import River


@pytest.fixture
def read(orders: Any, tmp_path: Path) -> Any:
    """20 rows, of which the group `billing` has read and committed 10."""
    line = '{"id":%d,"user":"ada","at":"2026-01-01T10:%02d:00Z"}\n'
    (tmp_path / "a.ndjson").write_text("".join(line % (i, i) for i in range(10)))
    orders("topic", "append", "orders", "a.ndjson")
    with River(tmp_path / "river") as river, river.topic("orders").consumer("billing", timeout=0.05) as consumer:
        assert sum(batch.num_rows for batch in consumer) == 10
        consumer.commit()
    (tmp_path / "a.ndjson").write_text("".join(line % (i, i) for i in range(10, 20)))
    orders("topic", "append", "orders", "a.ndjson")
    return orders


def test_list_and_lag(read: Any) -> None:
    assert read("group", "list", "--json").json == [
        {"group": "billing", "kind": "consumer", "topics": ["orders"], "members": 0}
    ]
    assert "billing   consumer" in read("group", "list").out
    assert read("group", "lag", "billing", "--json").json["rows"] == 10
    assert [one["rows"] for one in read("group", "lag", "--json").json] == [10]
    assert "billing: 10 rows, " in read("group", "lag").out
    assert "Did you mean 'billing'?" in read("group", "lag", "biling").error


@pytest.mark.parametrize(
    ("to", "left"), [("earliest", 20), ("latest", 0), ("2026-01-01 10:05", 15), ("1 hour ago", 0), ("orders@0:0", 20)]
)
def test_reset(read: Any, to: str, left: int) -> None:
    assert read("group", "reset", "billing", "orders", "--to", to).out.startswith("billing goes on at orders@0:")
    assert read("group", "lag", "billing", "--json").json["rows"] == left


def test_reset_from_the_topics_side(read: Any) -> None:
    assert [one["group"] for one in read("topic", "reset", "orders", "--to", "latest", "--json").json] == ["billing"]
    assert read("group", "lag", "billing", "--json").json["rows"] == 0
    read("topic", "create", "other", "--schema", "a int")
    assert read("topic", "reset", "other", "--to", "latest").out == "no group reads it\n"


def test_a_group_in_use_is_left_alone(read: Any, tmp_path: Path) -> None:
    with River(tmp_path / "river") as river, river.topic("orders").consumer("billing"):
        result = read("group", "reset", "billing", "orders", "--to", "earliest")
        assert (result.code, result.err.count("\n")) == (1, 1)
        assert "in use by process" in result.err
        assert read("group", "reset", "billing", "orders", "--to", "earliest", "--force").code == 0
        assert read("group", "drop", "billing").code == 1


def test_drop(read: Any) -> None:
    assert read("group", "drop", "billing", "--json").json == {"dropped": "billing"}
    assert read("group", "list").out == "no groups\n"
    assert "there is no group 'billing'" in read("group", "drop", "billing").error
