"""make.py RIVER NUMBER: once RIVER.go is there, make the river and a topic, and append the number."""

import os
import sys
import time

from riverrun.river import River

path, number = sys.argv[1:]
print("ready", flush=True)
while not os.path.exists(f"{path}.go"):
    time.sleep(0.001)
with River(path) as river:
    river.topic("orders", "n bigint").append({"n": int(number)})
