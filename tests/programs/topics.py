"""One topic in a directory, for programs that a test runs."""

from __future__ import annotations

from riverrun.log.catalogue import Catalogue
from riverrun.log.coordination import Coordination
from riverrun.log.spec import TopicSpec
from riverrun.log.topic import Topic
from riverrun.settings import Settings


def open_topic(path: str) -> Topic:
    settings = Settings.load(environ={}, producer_memory=1000)
    catalogue = Catalogue(f"{path}/topics", settings, Coordination(f"{path}/coordination.db", create=True))
    return catalogue.open(TopicSpec("t", "k string, n bigint", partitions=1, fsync="os"))
