"""follow.py DIRECTORY: read topic t as it grows, until a row has n = -1. Prints every offset as "partition offset n".

A reader that fell behind retention prints "reset", and goes on from the earliest row.
"""

import sys

from riverrun.errors import OutOfRange
from riverrun.log.catalogue import Catalogue
from riverrun.log.coordination import Coordination
from riverrun.log.spec import TopicSpec
from riverrun.position import Position
from riverrun.settings import Settings

(directory,) = sys.argv[1:]
coordination = Coordination(f"{directory}/coordination.db", create=True)
topic = Catalogue(f"{directory}/topics", Settings(), coordination).open(TopicSpec("t"))
print("ready", flush=True)
at, ended = topic.begins(), False
while not ended:
    topic.wait(Position({"t": at}), "5 s")
    end = topic.ends()
    try:
        for batch in topic.batches(at, end, ["_partition", "_offset", "n"]):
            for partition, offset, n in zip(*(column.to_pylist() for column in batch.columns), strict=True):
                print(partition, offset, n)
                at[partition] = offset + 1
                ended = ended or n == -1
        at = end
    except OutOfRange:
        print("reset")
        at = topic.begins()
print("end", flush=True)
