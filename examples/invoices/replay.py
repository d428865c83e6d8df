"""replay.py [RIVER]: the same invoices once more from the beginning of the log, beside the running flow's."""

import sys

import riverrun as rr
from flow import flow

with rr.River(*sys.argv[1:] or ["river"]) as river:
    with river.run(flow, start="earliest", suffix="-replay") as run:
        run.process()
    for name in ("invoices", "taxes"):
        before, again = river.view(name).rows(), river.view(f"{name}-replay").rows()
        print(f"{name}: {len(again)} rows,", "the same" if again == before else "DIFFERENT")
