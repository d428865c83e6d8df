from __future__ import annotations

from typing import Any

import pytest


@pytest.fixture
def orders(riverrun: Any) -> Any:
    """A river with the topic `orders`."""
    schema = "id bigint, user string, amount double, price decimal(8,2), at timestamp, tags array<string>"
    made = riverrun("topic", "create", "orders", "--schema", schema, "--key", "user", "--time", "at")
    assert made.code == 0, made
    return riverrun
