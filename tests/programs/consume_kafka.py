"""Joins a group of a topic on Kafka, tells its first rows, and holds them: consume_kafka.py RIVER URL TOPIC GROUP."""

from __future__ import annotations

import sys
import time

from riverrun.river import River

path, url, topic, group = sys.argv[1:]
with River(path, log=url) as river, river.topic(topic).consumer(group) as consumer:
    batch = consumer.poll()
    print(0 if batch is None else batch.num_rows, flush=True)
    time.sleep(600)
