"""work.py RIVER GROUP ACTION [LEASE] [ATTEMPTS]: take messages until none comes for a while.

Prints "<n> <attempt>" when it has one. ACTION: "ack" and print "acked" (or "fenced"), "nack", or "hold" for ever.
"""

import sys
import time

from riverrun.errors import Fenced
from riverrun.river import River

path, group, action, *rest = sys.argv[1:]
lease, attempts = (rest + ["30 s", "5"][len(rest) :])[:2]
with River(path) as river, river.topic("t").queue(group, lease=lease, attempts=int(attempts)) as queue:
    while message := queue.receive(timeout=0.5):
        print(message.row["n"], message.attempt, flush=True)
        if action == "hold":
            time.sleep(1000)
        try:
            if action == "ack":
                message.ack()
                print("acked", message.row["n"], flush=True)
            else:
                message.nack("it failed")
        except Fenced as error:
            print("fenced", error, flush=True)
