"""run_declared.py RIVER FLOW [--views PLACE] [--max-rows N]: run the demo's flow, or a query of Nexmark by its name.

Prints "processed" when everything there was is in, and when its standard input has ended, "drained LEDGER". A failure is one
line on stderr and exit code 1.
"""

import argparse
import json
import sys
import warnings

warnings.simplefilter("ignore")
from bench.nexmark.events import AuctionHouse  # noqa: E402
from bench.nexmark.queries import QUERIES  # noqa: E402

from riverrun.demo.shop import shop_flow  # noqa: E402
from riverrun.errors import RiverrunError  # noqa: E402
from riverrun.river import River  # noqa: E402
from riverrun.spark.run import Run  # noqa: E402

RATE = 1000  # events of Nexmark per second of event time: slow, so that windows close

arguments = argparse.ArgumentParser()
arguments.add_argument("river")
arguments.add_argument("flow")
arguments.add_argument("--views")
arguments.add_argument("--max-rows", type=int, default=500_000)
asked = arguments.parse_args()
flow = shop_flow.flow if asked.flow == "demo" else QUERIES[asked.flow].flow(AuctionHouse(RATE))

try:
    with River(asked.river, views=asked.views) as river:
        run = Run(river, flow, max_rows=asked.max_rows, send=False)
        run.process()
        print("processed", flush=True)
        sys.stdin.read()
        run.drain()
        print("drained", json.dumps(run.ledger()), flush=True)
except RiverrunError as error:
    sys.exit(f"{type(error).__name__}: {error}")
