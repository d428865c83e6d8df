"""What the demo's processes tell each other: small JSON files, replaced whole, so that a kill never leaves half of one."""

from __future__ import annotations

import json
import os
from typing import Any

SENT, PROCESSING, DEMO, BREAK = "demo.sent.json", "demo.processing.json", "demo.json", "demo.break"


def tell(path: str, document: Any) -> None:
    """Write a document in the place of the one before."""
    partial = f"{path}.{os.getpid()}"
    with open(partial, "w", encoding="utf-8") as file:
        json.dump(document, file, default=str)
    os.rename(partial, path)


def told(path: str) -> dict[str, Any]:
    """The document; empty before the first."""
    try:
        with open(path, encoding="utf-8") as file:
            found: dict[str, Any] = json.load(file)
            return found
    except FileNotFoundError:
        return {}
