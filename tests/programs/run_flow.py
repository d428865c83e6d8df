"""run_flow.py RIVER [--drain] [--follow] [--max-rows N] [--views PLACE] [--checkpoints DIR] [--flow NAME] [--changed]
[--rebuild]: run a flow of recovery_flows.py, by default the shop.

Prints "started FENCE", "epoch N" for each epoch it sees, "processed" when everything there was is in, "drained LEDGER".
With --follow it goes on until its standard input ends. A failure is one line on stderr and exit code 1.
"""

import argparse
import json
import logging
import sys
import threading
import warnings

warnings.simplefilter("ignore")
import recovery_flows  # noqa: E402

from riverrun.errors import RiverrunError  # noqa: E402
from riverrun.river import River  # noqa: E402
from riverrun.spark.run import Run  # noqa: E402

arguments = argparse.ArgumentParser()
arguments.add_argument("river")
arguments.add_argument("--drain", action="store_true")
arguments.add_argument("--follow", action="store_true")
arguments.add_argument("--max-rows", type=int, default=500_000)
arguments.add_argument("--views")
arguments.add_argument("--checkpoints")
arguments.add_argument("--flow", default="shop")
arguments.add_argument("--changed", action="store_true")
arguments.add_argument("--rebuild", action="store_true")
asked = arguments.parse_args()
flow = getattr(recovery_flows, asked.flow)
logging.basicConfig(level=logging.WARNING, format="%(name)s: %(message)s")


def say(*words: object) -> None:
    print(*words, flush=True)


def follow(run: Run) -> None:
    """Print what changes until the input ends or the run does."""
    ended = threading.Event()

    def listen() -> None:
        sys.stdin.read()
        ended.set()

    threading.Thread(target=listen, daemon=True).start()
    seen: tuple[object, ...] = ()
    while not ended.is_set():
        status = run.status()
        now = (status["epoch"], status["state"], status["reason"])
        if now != seen:
            say("epoch", status["epoch"])
            say("state", status["state"], status["reason"])
            seen = now
        if run.wait(timeout=0.05):
            return


def main() -> None:
    with River(asked.river, views=asked.views, checkpoints=asked.checkpoints) as river:
        run = Run(river, flow(3) if asked.changed else flow(), max_rows=asked.max_rows, rebuild=asked.rebuild)
        say("started", run.status()["fence"])
        if asked.follow:
            follow(run)
        else:
            run.process()
            say("processed", run.status()["epoch"])
        if asked.drain:
            run.drain()
            say("drained", json.dumps(run.ledger()))


try:
    main()
except RiverrunError as error:
    sys.exit(f"{type(error).__name__}: {error}")
