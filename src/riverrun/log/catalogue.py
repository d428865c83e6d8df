"""The topics of a river directory: making, opening, listing and dropping them.

The catalogue is in the coordination database. A topic that it names must have its files: an empty one is never put in
the place of one that was lost.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from contextlib import suppress

from riverrun import durable
from riverrun.columns import check_name
from riverrun.errors import Conflict, Corrupt, Invalid, NotFound, OlderFormat, Unavailable, did_you_mean, from_system
from riverrun.failpoints import failpoint
from riverrun.log.board import mark_dropped
from riverrun.log.coordination import Coordination
from riverrun.log.embedded import EmbeddedBackend
from riverrun.log.segment_archive import archive_directory, discard_archive
from riverrun.log.spec import TopicSpec, Unset
from riverrun.log.stored_spec import StoredSpec
from riverrun.log.topic import Topic
from riverrun.log.topic_directory import FORMAT, create_topic, load_spec, written_format
from riverrun.settings import Settings


class Catalogue:
    """Topics under one directory. `open_topic` is how they reach each other, by default `open`."""

    def __init__(
        self,
        directory: str,
        settings: Settings,
        coordination: Coordination,
        open_topic: Callable[[TopicSpec], Topic] | None = None,
    ) -> None:
        self._directory = directory
        self._settings = settings
        self._coordination = coordination
        self._open_topic = open_topic or self.open

    def names(self) -> list[str]:
        with self._coordination.reading() as db:
            return [name for (name,) in db.execute("select name from topics order by name")]

    def open(self, spec: TopicSpec) -> Topic:
        """Open the topic, make it if it is not there yet, and let its schema grow if the spec adds columns."""
        path = self._path(spec.name)
        if not isinstance(spec.format, Unset) and spec.format is not None:
            raise Invalid(
                f"topic {spec.name}: format={spec.format!r} is for topics on Kafka; here rows are kept as Arrow",
                hint='Leave it out, or open the river with log="kafka://…"',
            )
        if os.path.exists(self._dropped(spec.name)):
            self._finish_drop(spec.name)
        registered = self._is_registered(spec.name)
        if not os.path.exists(f"{path}/topic.json"):
            if registered:
                raise Corrupt(
                    f"topic {spec.name} is in the catalogue, but its files are missing from {path}",
                    hint=f"Restore them from a copy, or forget it: riverrun topic drop {spec.name}",
                )
            if isinstance(spec.schema, Unset):
                raise NotFound(f"there is no topic {spec.name!r}", hint=did_you_mean(spec.name, self.names()))
            self._make(path, spec.resolve())
        if not registered:
            self._register(spec.name)
        return Topic(self._opened(path, spec), self._coordination, self._settings, self._open_topic)

    def drop(self, name: str) -> None:
        """Remove the topic, its rows, and what groups remember of it. Works on a full disk: files go first."""
        path = self._path(name)
        if not self._is_registered(name):
            raise NotFound(f"there is no topic {name!r}", hint=did_you_mean(name, self.names()))
        if os.path.exists(path):
            os.rename(path, self._dropped(name))
        failpoint("drop.renamed")
        self._finish_drop(name)

    def _finish_drop(self, name: str) -> None:
        dropped = self._dropped(name)
        was_there = os.path.exists(dropped)
        if os.path.exists(f"{dropped}/topic.json"):
            try:
                archive = archive_directory(load_spec(dropped)[0])
            except Corrupt:
                archive = None  # what a damaged topic had in its archive, nobody can tell any more
            if archive:
                discard_archive(archive)
        with suppress(FileNotFoundError):  # somebody else who opens it finishes the same
            mark_dropped(f"{dropped}/state")
            for entry in os.scandir(dropped):
                with suppress(FileNotFoundError):
                    shutil.rmtree(entry) if entry.is_dir(follow_symlinks=False) else os.unlink(entry)
        failpoint("drop.removed")
        with self._coordination.transaction() as db:
            if was_there and not os.path.exists(dropped):
                return  # somebody else has finished it; the name may be that of a new topic by now
            for table in ("owners", "starts", "offsets", "cursors", "messages"):
                db.execute(f"delete from {table} where topic = ?", (name,))
            db.execute("delete from topics where name = ?", (name,))
        failpoint("drop.forgotten")
        shutil.rmtree(dropped, ignore_errors=True)  # empty, unless somebody was just opening it

    def _dropped(self, name: str) -> str:
        # The empty directory stays until the catalogue has forgotten the topic, as the sign that it was dropped, not lost.
        return f"{self._directory}/.dropped-{name}"

    def _opened(self, path: str, spec: TopicSpec) -> EmbeddedBackend:
        backend = self._backend(path)
        grown = False
        try:
            self._check_same(path, spec, backend.spec)
            if not isinstance(spec.schema, Unset) and spec.schema != backend.spec.schema:
                grown = backend.grow(spec.schema)
        except BaseException:
            backend.close()
            raise
        if grown:
            backend.close()
            backend = self._backend(path)
        return backend

    @staticmethod
    def _check_same(path: str, spec: TopicSpec, stored: StoredSpec) -> None:
        try:
            spec.check_same(stored)
        except Conflict as error:
            if written_format(path) < FORMAT:
                raise OlderFormat(
                    f"{error.message}; it was made by an older Riverrun",
                    hint=f"If a flow makes it, drop it (riverrun topic drop {spec.name}) and rebuild the flow; else leave it"
                    " out",
                ) from None
            raise

    def _backend(self, path: str) -> EmbeddedBackend:
        try:
            return EmbeddedBackend(path, self._settings)
        except OSError as error:
            hint = "The directory must be readable and writable"
            raise from_system(error, f"topic {os.path.basename(path)}: {path} cannot be opened", hint=hint) from error

    def _make(self, path: str, spec: StoredSpec) -> None:
        try:
            if not os.path.exists(self._directory):
                durable.make_directory(self._directory)
                durable.sync_directory(os.path.dirname(self._directory))
            create_topic(path, spec)
        except OSError as error:
            raise from_system(error, f"topic {spec.name} cannot be made in {path}") from error

    def _path(self, name: str) -> str:
        check_name(name)
        path = os.path.join(self._directory, name)
        if os.path.dirname(os.path.realpath(path)) != os.path.realpath(self._directory):
            raise Unavailable(f"topic {name}: {path} leads out of the river's directory")
        return path

    def _is_registered(self, name: str) -> bool:
        with self._coordination.reading() as db:
            return db.execute("select 1 from topics where name = ?", (name,)).fetchone() is not None

    def _register(self, name: str) -> None:
        with self._coordination.transaction() as db:
            db.execute("insert or ignore into topics values (?)", (name,))
