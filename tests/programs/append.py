"""append.py DIRECTORY FIRST LAST FSYNC SEGMENT_BYTES [FENCE]: append numbered batches, print each number once acknowledged.

Every batch has one row for each of 8 keys, so that it spans the partitions; its sequence is its number.
"""

import sys
from datetime import UTC, datetime

from riverrun.log.catalogue import Catalogue
from riverrun.log.coordination import Coordination
from riverrun.log.spec import TopicSpec
from riverrun.settings import Settings

directory, first, last, fsync, segment_bytes, *rest = sys.argv[1:]
coordination = Coordination(f"{directory}/coordination.db", create=True)
catalogue = Catalogue(f"{directory}/topics", Settings.load(segment_bytes=segment_bytes), coordination)
topic = catalogue.open(TopicSpec("t", "k string, n bigint, at timestamp", key="k", time="at", fsync=fsync))
fence = int(rest[0]) if rest else None
for number in range(int(first), int(last)):
    rows = [{"k": f"key{i}", "n": number, "at": datetime(2026, 1, 1, tzinfo=UTC)} for i in range(8)]
    topic.append(rows, producer="writer", sequence=number, fence=fence)
    print(number, flush=True)
