"""What has to be over before a process is forked."""

from __future__ import annotations

import importlib
import sys
from contextlib import suppress


def finish_pandas() -> None:
    """Wait for the import of pandas, if another thread is at it.

    pyarrow begins it with the first values that it converts. A child that is forked meanwhile would wait for ever for a
    thread that only its parent has.
    """
    if "pandas" in sys.modules:
        with suppress(ImportError):
            importlib.import_module("pandas")
