"""consume.py RIVER GROUP [COMMITS]: print the numbers of every batch, commit, print "committed" (or "fenced" and why).

With COMMITS it ends after so many commits; without, it goes on until it is killed.
"""

import sys

from riverrun.errors import Fenced
from riverrun.river import River

path, group, *rest = sys.argv[1:]
left = int(rest[0]) if rest else -1
with River(path) as river, river.topic("t").consumer(group) as consumer:
    print("joined", flush=True)
    for batch in consumer:
        print(*batch.column("n").to_pylist(), flush=True)
        try:
            consumer.commit()
            print("committed", flush=True)
        except Fenced as error:
            print("fenced", error, flush=True)
        left -= 1
        if left == 0:
            break
