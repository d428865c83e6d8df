"""capture.py RIVER ADDRESS NAME TABLE… [--once]: captures tables until it is killed. Prints "runs" when it does."""

import argparse
import sys
from dataclasses import replace

from riverrun.errors import RiverrunError
from riverrun.river import River
from riverrun.settings import Settings

arguments = argparse.ArgumentParser()
arguments.add_argument("river")
arguments.add_argument("address")
arguments.add_argument("name")
arguments.add_argument("tables", nargs="+")
arguments.add_argument("--once", action="store_true")
arguments.add_argument("--chunk", type=int, default=50)
arguments.add_argument("--part", type=int, default=40)
arguments.add_argument("--segment", type=int, default=Settings().segment_bytes)
asked = arguments.parse_args()

settings = replace(
    Settings(),
    capture_chunk_rows=asked.chunk,
    capture_transaction_rows=asked.part,
    segment_bytes=asked.segment,
)
with River(asked.river, settings=settings) as river:
    capture = river.capture(asked.address, asked.tables, asked.name)
    told = []

    def tell(status: object) -> None:
        if not told:
            told.append(True)
            print("runs", flush=True)

    try:
        capture.run(once=asked.once, progress=tell)
    except RiverrunError as error:
        sys.exit(f"{type(error).__name__}: {error}")
