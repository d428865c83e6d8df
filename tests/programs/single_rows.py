"""single_rows.py DIRECTORY NAME COUNT: append COUNT single rows with the key NAME, as fast as possible."""

import sys
from datetime import UTC, datetime

from riverrun.log.catalogue import Catalogue
from riverrun.log.coordination import Coordination
from riverrun.log.spec import TopicSpec
from riverrun.settings import Settings

directory, name, count = sys.argv[1:]
coordination = Coordination(f"{directory}/coordination.db", create=True)
topic = Catalogue(f"{directory}/topics", Settings.load(segment_bytes=65536), coordination).open(TopicSpec("t"))
for number in range(int(count)):
    topic.append({"k": name, "n": number, "at": datetime(2026, 1, 1, tzinfo=UTC)})
