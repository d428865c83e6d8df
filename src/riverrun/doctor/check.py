"""One thing that was looked at."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Check:
    """One thing that was looked at. Only `failed` makes the doctor unhappy; `fix` says what to do."""

    name: str
    status: Literal["ok", "warning", "failed"]
    found: str
    fix: str | None = None
