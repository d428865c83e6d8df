"""python -m bench [names…] [--quick] [--json]: measure this machine."""

from __future__ import annotations

import argparse
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from bench import machine, report
from bench.capture import rates as capture_rates
from bench.effort import FULL, QUICK, Effort
from bench.figure import Figure, WrongResult
from bench.flow import freshness, state
from bench.kafka import rates as kafka_rates
from bench.kernels import steps
from bench.log import append, history, latency, read, sends
from bench.nexmark import patterns, throughput
from bench.rules import rates as rule_rates
from bench.search import percolate
from bench.serve import ingest, streams
from bench.stores import rates as store_rates

# Each takes a directory of its own and gives its figures one by one.
BENCHMARKS: dict[str, Callable[[str, Effort], Iterator[Figure]]] = {
    "append": append.run,
    "sends": sends.run,
    "read": read.run,
    "history": history.run,
    "latency": latency.run,
    "kernels": steps.run,
    "state": state.run,
    "freshness": freshness.run,
    "nexmark": throughput.run,
    "patterns": patterns.run,
    "percolate": percolate.run,
    "rules": rule_rates.run,
    "http": ingest.run,
    "streams": streams.run,
    "capture": capture_rates.run,
    "stores": store_rates.run,
    "kafka": kafka_rates.run,
}


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="name", help=f"which ones: {', '.join(BENCHMARKS)} (default: all)")
    parser.add_argument("--quick", action="store_true", help="fewer cases and rounds: minutes instead of an hour")
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    parser.add_argument("--dir", help="where to put temporary data; the disk that is measured")
    chosen = parser.parse_args(arguments)
    unknown = sorted(set(chosen.names) - set(BENCHMARKS))
    if unknown:
        parser.error(f"no benchmark is called {', '.join(unknown)}; there are {', '.join(BENCHMARKS)}")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that temporary data is removed then, too
    place = chosen.dir or _results()
    try:
        with tempfile.TemporaryDirectory(prefix="scratch-", dir=place, ignore_cleanup_errors=True) as scratch:
            about = machine.facts(scratch)
            figures = list(_measure(chosen.names or list(BENCHMARKS), scratch, QUICK if chosen.quick else FULL))
    except KeyboardInterrupt:
        return 130
    except WrongResult as error:
        print(f"wrong result: {error}", file=sys.stderr)
        return 1
    print(report.as_json(about, figures) if chosen.json else report.as_table(about, figures))
    return 0


def _measure(names: Sequence[str], scratch: str, effort: Effort) -> Iterator[Figure]:
    begin = time.monotonic()
    for name in names:
        directory = f"{scratch}/{name}"
        Path(directory).mkdir()
        for figure in BENCHMARKS[name](directory, effort):
            shown = report.amount(figure.value, figure.unit)
            print(f"{time.monotonic() - begin:4.0f} s  {name}: {figure.case}: {shown}", file=sys.stderr, flush=True)
            yield figure


def _results() -> str:
    """A directory that git ignores. The system's directory for such data may be in memory, where a sync is free."""
    place = Path(__file__).parent / "results"
    place.mkdir(exist_ok=True)
    return str(place)


if __name__ == "__main__":
    sys.exit(main())
