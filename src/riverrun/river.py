"""A river: one deployment — where its log, views and checkpoints live.

with River("./river") as river:
    orders = river.topic("orders", "user string, amount double, at timestamp", key="user", time="at")
    orders.append({"user": "ada", "amount": 9.5, "at": datetime.now(UTC)})
"""

from __future__ import annotations

import fnmatch
import os
import threading
import weakref
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Literal, Self

from riverrun import known_topics
from riverrun.calls import answering
from riverrun.durations import Duration, seconds
from riverrun.errors import Closed, Invalid, Unavailable, from_system, not_installed
from riverrun.habits import RIVER_METHODS
from riverrun.log.captures import Captures
from riverrun.log.opened_log import open_log
from riverrun.log.readers import Groups
from riverrun.log.redelivery import Redelivery
from riverrun.log.spec import UNSET, TopicSpec, Unset
from riverrun.log.stored_spec import StoredSpec
from riverrun.log.topic import Start, Topic
from riverrun.object_folder import bucket_address
from riverrun.river_directory import open_directory
from riverrun.runtime.home import place_in_bucket
from riverrun.settings import Settings, places

if TYPE_CHECKING:
    from riverrun.capture import Capture
    from riverrun.flow import Flow
    from riverrun.log.consumer import Consumer
    from riverrun.spark.run import Run
    from riverrun.views import Store, View

DEFAULT = "./river"


@answering("river", RIVER_METHODS)
class River:
    """Opens topics and views and closes everything it opened. An absent or empty directory becomes a new river.

    `log` is where topics are: in the directory, or `kafka://host:9092` (docs/kafka.md). `views` is where views are kept: a
    SQLite file in the directory, or postgresql://…; `views_read` is that database for a login that may only read views,
    which queries then use. `checkpoints` is where flows' state is: a directory, which all machines of a cluster must see, or
    `s3://bucket/prefix` (docs/scale.md). `master` is Spark's, by default this machine; `environment` is an archive of Python for
    its executors, which `riverrun pack` makes.
    """

    def __init__(
        self,
        path: str | os.PathLike[str] | None = None,
        *,
        log: str | None = None,
        views: str | None = None,
        views_read: str | None = None,
        checkpoints: str | None = None,
        master: str | None = None,
        environment: str | None = None,
        settings: Settings | None = None,
    ) -> None:
        where = places()
        self.settings = settings or Settings.load()
        self.path = os.path.abspath(path or where.get("river", DEFAULT))
        self.views_address = views or where.get("views") or f"{self.path}/views.db"
        self.views_read = views_read or where.get("views_read")
        place = checkpoints or where.get("checkpoints") or f"{self.path}/flows"
        self.bucket = _bucket(place)  # where flows' state is, if in no directory
        self.checkpoints = os.path.abspath(place) if self.bucket is None else _copies(self.path, self.bucket)
        self.master = master or where.get("master")
        self.environment = environment or where.get("environment")
        # A run opens topics while the same river is served. A store that is away keeps nobody from the topics.
        self._opening, self._opening_store = threading.RLock(), threading.Lock()
        self._store: Store | None = None
        self._topics: dict[str, Topic] = {}
        self._replaced: list[Topic] = []  # handles from before a topic's schema grew; people may still use them
        self._runs: weakref.WeakSet[Run] = weakref.WeakSet()
        self._captures: weakref.WeakSet[Capture] = weakref.WeakSet()
        self._closed = False
        self._coordination = open_directory(self.path)
        self.log_with_secrets = log or where.get("log")  # for processes that open the same log
        try:
            if self.bucket is not None:
                place_in_bucket(self.checkpoints, self.bucket)
            self._log = open_log(self.log_with_secrets, self.path, self.settings, self._coordination, self._open)
        except BaseException:
            self._coordination.close()
            raise
        self.log_address = self._log.address  # without what is secret in it; None: topics are in the directory
        known_topics.opened(self)

    @classmethod
    def from_config(cls, file: str | os.PathLike[str] = "riverrun.toml") -> Self:
        """A river as a settings file says; RIVERRUN_* of the environment wins."""
        where = places(file)
        parts = {name: place for name, place in where.items() if name != "river"}
        return cls(where.get("river"), **parts, settings=Settings.load(file))

    def __repr__(self) -> str:
        return f"River({self.path!r})"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close every topic that was opened here; a second close does nothing."""
        if not self._closed:
            for capture in list(self._captures):
                capture.stop()
            for run in list(self._runs):
                run.stop()  # while it can still read and write what is left to do
            with self._opening, self._opening_store:
                self._closed = True
                topics, store = [*self._replaced, *self._topics.values()], self._store
            self._coordination.close()  # before topics, so that consumers and workers leave while they are there
            for topic in topics:
                topic.close()
            self._log.close()
            if store is not None:
                store.close()

    def topic(
        self,
        name: str | TopicSpec | StoredSpec,
        schema: str | None = None,
        *,
        key: str | Sequence[str] | Unset | None = UNSET,
        time: str | Unset | None = UNSET,
        producers: str | Unset | None = UNSET,
        partitions: int | Unset = UNSET,
        retention: Duration | Unset | None = UNSET,
        retention_bytes: int | str | Unset | None = UNSET,
        compact: bool | Unset = UNSET,
        fsync: Duration | Unset = UNSET,
        compression: Literal["lz4"] | Unset | None = UNSET,
        archive: str | os.PathLike[str] | Unset | None = UNSET,
        naive: Literal["utc"] | Unset | None = UNSET,
        times: Literal["ms", "s"] | Unset | None = UNSET,
        versions: bool | Unset = UNSET,
        format: Literal["json", "avro", "arrow"] | Unset | None = UNSET,
    ) -> Topic:
        """Create or open a topic. What is left out is no mismatch; anything that contradicts the topic is an error.

        `key` has the columns by which rows are spread over the partitions, and of which compaction keeps the newest;
        `time` is the column with the event time (else the time of receipt), `producers` the one that tells apart who
        is late. A `TopicSpec`, or the `spec` of another topic, says all of it.

        Defaults of a new topic: partitions=4, retention="7 days" (None keeps for ever), compact=False, fsync="batch"
        ("os", or an interval such as "200 ms"), no compression ("lz4"), no archive. Times without a zone are refused,
        unless naive="utc" says that they are UTC, and numbers for times, unless times="ms" or "s" says what they count.
        With versions=True, the rows of a key are counted and found by it: `append(expect=)`, `version`, `read(key=)`; then
        nothing is ever removed. `format` is for Kafka: what the values of messages are, "json" if left out.
        """
        spec = TopicSpec(
            name.name if isinstance(name, TopicSpec | StoredSpec) else name,
            UNSET if schema is None else schema,
            key=key,
            time=time,
            producers=producers,
            partitions=partitions,
            retention=retention,
            retention_bytes=retention_bytes,
            compact=compact,
            fsync=fsync,
            compression=compression,
            archive=archive,
            naive=naive,
            times=times,
            versions=versions,
            format=format,
        )
        if isinstance(name, TopicSpec | StoredSpec):
            if said := ", ".join(option for option in spec.declared() if option != "name"):
                raise Invalid(f"topic {spec.name}: {said} is for its TopicSpec to say", hint="Give the spec alone")
            spec = name if isinstance(name, TopicSpec) else TopicSpec.of(name)
        return self._open(spec)

    @contextmanager
    def briefly(self, name: str) -> Iterator[Topic]:
        """A topic for a moment: the one that is open, else opened now and closed at the end. For who looks at all topics:
        an open one takes descriptors."""
        self._check_open()
        opened = self._topics.get(name)
        if opened is not None and opened.backend.is_open:
            yield opened
            return
        with self._log.catalogue.open(TopicSpec(name)) as topic:
            yield topic

    def topic_spec(self, name: str) -> StoredSpec | None:
        """What a topic is; None where there is none of this name. For flows that leave a schema out."""
        if self._closed or name not in self._log.catalogue.names():
            return None
        with self.briefly(name) as topic:
            return topic.spec

    def topics(self, pattern: str = "*") -> list[str]:
        """Names of the topics, in order; `pattern` as in a shell."""
        self._check_open()
        return [name for name in self._log.catalogue.names() if fnmatch.fnmatchcase(name, pattern)]

    def drop_topic(self, name: str) -> None:
        """Remove a topic and all its rows."""
        with self._opening:
            self._check_open()
            opened = self._topics.pop(name, None)
            if opened is not None:
                opened.close()
            self._log.catalogue.drop(name)

    def consumer(
        self, group: str, topics: str | list[str] = "*", start: Start = "committed", timeout: Duration | None = None
    ) -> Consumer:
        """Join a group that follows every topic matching the pattern (or the names), new ones too."""
        patterns = [topics] if isinstance(topics, str) else list(topics)

        def matching() -> dict[str, Topic]:
            found = {name for pattern in patterns for name in self.topics(pattern)}
            return {name: self._open(TopicSpec(name)) for name in sorted(found)}

        return self._log.readers.consumer(group, matching, start, seconds(timeout))

    @property
    def groups(self) -> Groups:
        """The consumer groups of this river."""
        self._check_open()
        return self._log.readers.groups(lambda name: self._open(TopicSpec(name)))

    @property
    def dead_letters(self) -> Redelivery:
        """The dead letters of queues and alerts: how many wait, and sending them again."""
        self._check_open()
        return Redelivery(self._coordination, self.topics, lambda name: self._open(TopicSpec(name)), self.briefly)

    def run(
        self,
        flow: Flow,
        start: Start = None,
        suffix: str = "",
        rebuild: bool = False,
        alerts_from: Start = None,
    ) -> Run:
        """Run a flow in the background, from where it stopped. Its views exist when this returns.

        `start` ("earliest", a time, a position) and `suffix` replay it into other outputs, beside the running one. Of a
        flow that has changed, and with `rebuild` of any, the views are computed from the log again first.

        `alerts_from` ("latest" is now) is for a flow whose views are not there, because it is new, or its store was lost
        or replaced: what lies before it gets into the views, and neither into topics nor to the addresses of alerts. Left
        out, a new flow begins with everything, and one that has run before with what its topics do not have yet.
        """
        self._check_open()
        try:
            from riverrun.spark.run import Run
        except ImportError as error:
            raise not_installed("a flow", error, "spark") from None
        run = Run(self, flow, start=start, suffix=suffix, rebuild=rebuild, alerts_from=alerts_from)
        self._runs.add(run)
        return run

    def capture(
        self,
        address: str,
        tables: Sequence[str],
        name: str,
        *,
        snapshot: Literal["initial", "never", "always"] = "initial",
        form: Literal["rows", "debezium"] = "rows",
        keys: Mapping[str, Sequence[str]] | None = None,
        publication: str | None = None,
        decimal: str | None = None,
        resnapshot: Sequence[str] = (),
    ) -> Capture:
        """The changes of a database's tables as topics `<name>.<schema>.<table>` (of SQLite `<name>.<table>`), exactly once; see
        docs/databases.md.

        Nothing happens before `run()`, which goes on until `stop()`, or `with capture:`, which does it in the background.
        `snapshot` says whether what tables have already is read first ("initial"), never, or at every start; `keys` names
        columns that tell rows apart where a table has no primary key, `resnapshot` tables to read again.
        """
        self._check_open()
        self._check_embedded("capture")
        try:
            from riverrun.capture import Capture
        except ImportError as error:
            raise not_installed("a capture", error, "capture") from None
        made = Capture(
            self,
            Captures(self._coordination),
            address,
            tables,
            name,
            snapshot=snapshot,
            form=form,
            keys=keys,
            publication=publication,
            decimal=decimal,
            resnapshot=resnapshot,
        )
        self._captures.add(made)
        return made

    def captures(self) -> list[dict[str, Any]]:
        """What every capture of this river has last told, whichever process runs it."""
        self._check_open()
        return Captures(self._coordination).list()

    def view(self, name: str) -> View:
        """A view, to read."""
        store = self.store
        from riverrun.views import View

        return View(store, name, self._rebuild)

    def _rebuild(self, view: str, flow: str, timeout: Duration | None) -> None:
        for run in list(self._runs):
            if run.name == flow and not run.wait(0):
                return run.rebuild(timeout)
        raise Unavailable(
            f"view {view!r} can only be rebuilt by a run of its flow {flow!r}, and there is none here",
            hint=f"Call river.run(flow, rebuild=True), or: riverrun view rebuild {view} FLOW.py",
        )

    @property
    def store(self) -> Store:
        """Where the views are kept."""
        with self._opening_store:
            self._check_open()
            if self._store is None:
                try:
                    from riverrun.views import open_store
                    from riverrun.views.derived.routed import RoutedStore
                except ImportError as error:
                    raise not_installed("the view store", error, "spark") from None
                except OSError as error:  # modules are files, too
                    raise from_system(error, "the view store cannot be opened") from error
                home = open_store(self.views_address, read=self.views_read)
                self._store = RoutedStore(home, self.path, self.views_address)
            return self._store

    def lag(self, group: str) -> dict[str, Any]:
        """The lag of a group, in rows and in seconds, by topic and partition."""
        return self.groups.lag(group)

    def _open(self, spec: TopicSpec) -> Topic:
        with self._opening:
            self._check_open()
            opened = self._topics.get(spec.name)
            if opened is not None and opened.backend.is_open:
                spec.check_same(opened.spec)
                if spec.schema in (UNSET, opened.spec.schema):
                    return opened
            topic = self._log.catalogue.open(spec)
            if opened is not None:
                self._replaced.append(opened)
            self._topics[spec.name] = topic
            return topic

    def _check_open(self) -> None:
        if self._closed:
            raise Closed(f"{self!r} is closed")

    def _check_embedded(self, what: str) -> None:
        if self.log_address is not None:
            from riverrun.log.kafka.refusals import refusal

            raise refusal(what, "the log of this river")


def _bucket(place: str) -> str | None:
    if "://" not in place:
        return None
    try:
        return bucket_address(place)
    except Invalid as error:
        raise Invalid(f"checkpoints: {error.message}", hint=error.hint) from None


def _copies(path: str, bucket: str) -> str:
    """Where a river has Spark's checkpoints of flows whose state is in a bucket."""
    return f"{path}/checkpoints/{bucket.removeprefix('s3://')}"
