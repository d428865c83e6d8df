"""One index: the views of a flow, or of a rebuild of it, in a directory.

A commit is tantivy's: all of it or nothing is there afterwards, also after a kill. tantivy has no room for a note in one, so
the marker is a document of the same commit. Only one process writes at a time, for as long as a commit takes; whoever reads
sees the last commit.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import tantivy

from riverrun import durable
from riverrun.errors import Busy, Corrupt, NotFound, RiverrunError, Transient, Unavailable, from_system
from riverrun.failpoints import failpoint
from riverrun.views.derived.marker import Marker
from riverrun.views.derived.search.documents import KEY, MARKER, ROW, VIEW, WORDS, SearchedView, index_schema
from riverrun.views.derived.store import not_there
from riverrun.views.spec import ViewSpec

_NAMES = "riverrun.json"  # the views, in the order of their numbers
_MEMORY, _THREADS = 128_000_000, 2

# (terms of documents that go, documents that come)
Batch = tuple[Sequence[str], Iterable[Any]]


class WordIndex:
    """An index that is there. Several threads may read; one writes."""

    def __init__(self, directory: str) -> None:
        self.directory = directory
        self._lock = threading.Lock()
        with self.noticing():
            if not os.path.exists(f"{directory}/{_NAMES}"):
                raise NotFound(f"there is no search index in {directory}")
            with open(f"{directory}/{_NAMES}", encoding="utf-8") as file:
                self.names: list[str] = json.load(file)
            self._index = tantivy.Index.open(directory)
            self._index.register_tokenizer(WORDS, tantivy.TextAnalyzerBuilder(tantivy.Tokenizer.whitespace()).build())

    @classmethod
    def make(cls, directory: str, specs: Sequence[ViewSpec], marker: Marker) -> WordIndex:
        """An empty index for these views. It is one once its marker is there."""
        try:
            durable.make_directory(directory)
            tantivy.Index(index_schema([SearchedView(i, spec) for i, spec in enumerate(specs)]), path=directory)
            durable.write_file(f"{directory}/{_NAMES}", json.dumps([spec.name for spec in specs]))
        except OSError as error:
            raise from_system(error, f"the search index {directory} cannot be made") from error
        except ValueError as error:
            raise Unavailable(f"the search index {directory} cannot be made: {error}") from None
        made = cls(directory)
        made.write(lambda _: marker, lambda: ())
        return made

    @property
    def schema(self) -> Any:
        return self._index.schema

    def view(self, spec: ViewSpec) -> SearchedView:
        """A view, as it is in this index."""
        if spec.name not in self.names:
            raise NotFound(f"the search index {self.directory} has no view {spec.name!r}")
        return SearchedView(self.names.index(spec.name), spec)

    def searcher(self) -> Any:
        """What was committed last, and stays as it is."""
        with self.noticing(), self._lock:
            self._index.reload()
            return self._index.searcher()

    def marker(self) -> Marker:
        """What was committed with it."""
        searcher = self.searcher()
        with self.noticing():
            hits = searcher.search(tantivy.Query.term_query(self.schema, KEY, MARKER), limit=1).hits
            return Marker.decode(searcher.doc(hits[0][1]).get_first(ROW)) if hits else Marker()

    def write(self, decide: Callable[[Marker], Marker | None], batches: Callable[[], Iterable[Batch]]) -> bool:
        """One commit: `decide` says from the marker there is which one to write, None for nothing to do. Nobody else
        writes between the two."""
        with self._writing() as writer:
            after = decide(self.marker())
            if after is None:
                return False
            for gone, documents in batches():
                for key in gone:
                    writer.delete_documents_by_term(KEY, key)
                for document in documents:
                    writer.add_document(document)
            writer.delete_documents_by_term(KEY, MARKER)
            writer.add_document(_marker_document(after))
            failpoint("search.added")
            writer.commit()
            failpoint("search.committed")
        return True

    def remove_view(self, number: int) -> None:
        """Remove the rows of a view."""
        with self._writing() as writer:
            writer.delete_documents_by_term(VIEW, str(number))
            writer.commit()

    @contextmanager
    def _writing(self) -> Iterator[Any]:
        """A writer, which is the only one of all processes; what it does not commit is forgotten.

        Its merges are waited for: a thread that went on merging would put back what the next writer deletes.
        """
        with self.noticing():
            with self._lock:
                writer = self._index.writer(_MEMORY, _THREADS)
            failpoint("search.locked")
            try:
                yield writer
            except BaseException:
                writer.rollback()
                raise
            finally:
                writer.wait_merging_threads()

    @contextmanager
    def noticing(self) -> Iterator[None]:
        """What goes wrong inside, as an error of Riverrun that names the index."""
        where = f"the search index {self.directory}"
        try:
            yield
        except RiverrunError:
            raise
        except (OSError, ValueError) as error:
            if not os.path.exists(f"{self.directory}/{_NAMES}"):
                raise not_there(where) from None  # whatever it is that failed
            if isinstance(error, OSError):
                raise from_system(error, f"{where} cannot be used") from error
            said = str(error)
            if "LockBusy" in said or "Failed to acquire" in said:
                raise Busy(f"another process writes to {where}") from None
            if "No space left" in said or "StorageFull" in said:
                raise Transient(
                    f"there is no room for {where}", hint="Make room; the epoch is committed then"
                ) from None
            if "DoesNotExist" in said or "FileDoesNotExist" in said:
                raise Corrupt(f"{where} lacks files", hint="Remove it; the next run computes it from the log") from None
            raise Unavailable(f"{where} cannot be used: {said}") from None


def _marker_document(marker: Marker) -> Any:
    document = tantivy.Document()
    document.add_text(KEY, MARKER)
    document.add_bytes(ROW, marker.encode())
    return document
