"""What has to be over before a process is forked."""

from __future__ import annotations

# pandas imports the first one: what it does around forks must not be registered in the middle of one.
import concurrent.futures.thread  # noqa: F401
import importlib
import sys
from contextlib import suppress

import pyarrow as pa


def finish_pandas() -> None:
    """Wait for the import of pandas, if another thread is at it, and for what pyarrow looks up in it.

    pyarrow begins both with the first values that it converts. A child that is forked meanwhile would wait for ever for a
    thread that only its parent has.
    """
    if "pandas" in sys.modules:
        with suppress(ImportError):
            importlib.import_module("pandas")
        pa.array([0])
