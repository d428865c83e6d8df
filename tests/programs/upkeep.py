"""upkeep.py DIRECTORY seal|retain|compact: do it once for topic t, and print what it gives."""

import sys

from riverrun.log.catalogue import Catalogue
from riverrun.log.coordination import Coordination
from riverrun.log.sealing import seal
from riverrun.log.spec import TopicSpec
from riverrun.settings import Settings

directory, what = sys.argv[1:]
coordination = Coordination(f"{directory}/coordination.db", create=True)
settings = Settings.load(segment_bytes="32 KiB", tombstone_grace="0 s")
topic = Catalogue(f"{directory}/topics", settings, coordination).open(TopicSpec("t"))
topic.backend.upkeep.stop()  # nothing in the background: the failpoint belongs to what follows
if what == "seal":
    with topic.backend.upkeep.alone():
        print(seal(topic.backend))
else:
    print({"retain": topic.enforce_retention, "compact": topic.compact}[what]())
topic.close()
