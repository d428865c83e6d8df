"""What Spark forks its Python workers from: everything they need is loaded once, before the first fork.

Nothing is computed here, so no lock is held and no thread pool is there when a worker is forked.
"""

from __future__ import annotations

import gc
import os
from importlib import import_module

_NEEDED = (
    "pandas",  # Spark asks for it wherever Arrow is involved
    "pyspark.worker",
    "pyspark.sql.pandas.serializers",
    "pyspark.sql.worker.plan_data_source_read",
    "riverrun.runtime.host",
    "riverrun.runtime.operators",  # all kernels
    "riverrun.spark.source",
)


def main() -> None:
    """Load, then do as Spark's own daemon."""
    from pyspark.daemon import manager

    for library in ("POLARS_MAX_THREADS", "OPENBLAS_NUM_THREADS"):
        os.environ.setdefault(library, "1")
    for name in _NEEDED:
        import_module(name)
    # Workers collect garbage after every task. What was loaded is none, and looking through it took them longer than
    # a small epoch's work.
    gc.collect()
    gc.freeze()
    manager()


if __name__ == "__main__":
    main()
