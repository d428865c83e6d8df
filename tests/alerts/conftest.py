from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from alert_receiver import Receiver
from riverrun import River
from riverrun.settings import Settings


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    receiver = Receiver()
    yield receiver
    receiver.close()


@pytest.fixture
def settings() -> dict[str, Any]:
    """Settings of the test's river; a test may override them."""
    return {"alert_private_addresses": True, "alert_timeout": "1 s"}


@pytest.fixture
def river(tmp_path: Path, settings: dict[str, Any]) -> Iterator[River]:
    with River(tmp_path / "river", settings=Settings.load(environ={}, **settings)) as river:
        yield river
