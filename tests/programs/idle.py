"""idle.py RIVER SECONDS: wait as a consumer and as a worker of a queue; print the share of a processor used."""

import resource
import sys
import threading
import time

from riverrun.river import River


def used() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


path, span = sys.argv[1], float(sys.argv[2])
with River(path) as river:
    topic = river.topic("t")
    with topic.consumer("idle") as consumer, topic.queue("idlers") as queue:
        worker = threading.Thread(target=queue.receive, args=(span + 0.5,))
        worker.start()
        consumer.poll(0.1)
        begin, before = time.monotonic(), used()
        consumer.poll(span)
        print((used() - before) / (time.monotonic() - begin))
        worker.join()
