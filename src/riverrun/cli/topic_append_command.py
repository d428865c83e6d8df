"""`riverrun topic append`: a file or stdin into a topic, batch by batch, with progress."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from riverrun import figures
from riverrun.cli.options import DEFAULT_RIVER, JsonOption, RiverOption, TopicArgument, open_river
from riverrun.cli.output import console, note, print_json, print_line
from riverrun.durations import show
from riverrun.errors import Invalid

if TYPE_CHECKING:
    from riverrun.intake.chunk import Bad, Chunk
    from riverrun.log.topic import Topic

_BY_SUFFIX = {".ndjson": "ndjson", ".jsonl": "ndjson", ".json": "ndjson", ".csv": "csv", ".parquet": "parquet"}
_FORMATS = ("ndjson", "csv", "parquet")
_SHOWN = 3  # bad lines that --skip-bad describes


def append(
    name: TopicArgument,
    file: Annotated[str, typer.Argument(metavar="FILE", help="What to read; - is stdin.")] = "-",
    format: Annotated[
        str | None,
        typer.Option(metavar="KIND", help="ndjson, csv or parquet; from the file's name if left out, stdin is ndjson."),
    ] = None,
    batch: Annotated[int, typer.Option(metavar="ROWS", min=1, help="Rows of one atomic append.")] = 10_000,
    producer: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Run again with the same name and input, it goes on where it stopped."),
    ] = None,
    skip_bad: Annotated[bool, typer.Option("--skip-bad", help="Pass over bad lines and count them.")] = False,
    json: JsonOption = False,
    river: RiverOption = DEFAULT_RIVER,
) -> None:
    """Append the rows of a file or of stdin. The first bad line stops it; everything before that line is appended."""
    kind = _kind(file, format)
    with open_river(river) as opened, _open_input(file) as fd:
        topic = opened.topic(name)
        load = Load(topic, producer, skip_bad)
        with _progress(fd, quiet=json) as tell:
            for chunk in _chunks(kind, fd, batch, topic, file):
                load.take(chunk)
                tell(load)
                if load.stopped:
                    break
        report = load.report()
    if json:
        print_json(report)
    elif not load.stopped:
        spent = (
            f"{figures.size(load.bytes)} in {show(int(load.seconds * 1e6))}, {figures.rate(load.rows, load.seconds)}"
        )
        print_line(f"appended {figures.rows(load.rows)} to {name} ({spent})")
        if load.resumed:
            print_line(f"{figures.rows(load.resumed)} of producer {producer} were there already")
        if load.skipped:
            examples = "; ".join(map(str, load.examples))
            note(f"skipped {load.skipped} bad: {examples}{' …' if load.skipped > len(load.examples) else ''}")
        print_line(f"position {report['position']}")
    if load.stopped:
        before = load.rows + load.resumed
        so_far = f"the {before} rows before it are in {name}" if before else "nothing was appended"
        raise Invalid(f"{_shown(file)}, {load.stopped} ({so_far}; --skip-bad passes over bad lines)")


class Load:
    """One run of `append`: what was taken, skipped, and where it stopped.

    With a producer, the sequence of an append is the number of input records up to its end, so a second run of the same
    input passes over what is there, however the input was cut into batches.
    """

    def __init__(self, topic: Topic, producer: str | None, skip_bad: bool) -> None:
        self._topic = topic
        self._producer = producer
        self._skip_bad = skip_bad
        self._begun = time.monotonic()
        self._done = (topic.last_sequence(producer) or 0) if producer else 0
        self.rows = self.resumed = self.skipped = self.bytes = 0
        self.examples: list[Bad] = []
        self.stopped: Bad | None = None
        self._latest = topic.latest

    @property
    def seconds(self) -> float:
        return time.monotonic() - self._begun

    def take(self, chunk: Chunk) -> None:
        """Append what of the chunk is not there yet."""
        from riverrun.intake.chunk import sift, until_bad

        self.bytes = chunk.bytes
        there = min(max(self._done - (chunk.behind - chunk.size), 0), chunk.size)
        self.resumed += there
        if there == chunk.size:
            return
        if self._skip_bad:
            rows, bad = sift(chunk, self._topic, there)
            self.skipped += len(bad)
            self.examples += bad[: _SHOWN - len(self.examples)]
            self._append(rows, chunk.behind)
        else:
            rows, self.stopped = until_bad(chunk, self._topic, there)
            self._append(rows, self.stopped.record if self.stopped else chunk.behind)

    def report(self) -> dict[str, object]:
        return {
            "topic": self._topic.name,
            "rows": self.rows,
            "skipped": self.skipped,
            "resumed": self.resumed,
            "bytes": self.bytes,
            "seconds": round(self.seconds, 6),
            "position": str(self._latest),
        }

    def _append(self, rows: object, record: int) -> None:
        count = getattr(rows, "num_rows", 0)
        if count:
            sequence = record if self._producer else None
            self._latest = self._topic.append(rows, producer=self._producer, sequence=sequence)
            self.rows += count


def _kind(file: str, given: str | None) -> str:
    if given is not None:
        if given not in _FORMATS:
            raise Invalid(f"not a format: {given!r}", hint=f"It may be {', '.join(_FORMATS)}")
        return given
    if file == "-":
        return "ndjson"
    suffix = os.path.splitext(file)[1].lower()
    if suffix not in _BY_SUFFIX:
        os.stat(file)  # that it is missing is worth more to know
        hint = (
            "Give --format ndjson|csv|parquet; compressed text goes through a pipe: zcat FILE | riverrun topic append …"
        )
        raise Invalid(f"{file}: the name does not say what is in it", hint=hint)
    return _BY_SUFFIX[suffix]


def _chunks(kind: str, fd: int, size: int, topic: Topic, file: str) -> Iterator[Chunk]:
    # A row may be longer in its file than the record it becomes: escapes take up to six bytes a character.
    longest = 8 * topic.settings.max_record_bytes
    try:
        if kind == "csv":
            from riverrun.intake.delimited import delimited

            yield from delimited(fd, size, longest, topic.schema)
        elif kind == "parquet":
            from riverrun.intake.parquet import parquet

            yield from parquet(fd, size)
        else:
            from riverrun.intake.ndjson import ndjson

            yield from ndjson(fd, size, longest, topic.schema)
    except Invalid as error:
        raise Invalid(f"{_shown(file)}, {error.message}", hint=error.hint) from None


@contextmanager
def _open_input(file: str) -> Iterator[int]:
    if file == "-":
        yield sys.stdin.fileno()
        return
    with open(file, "rb", buffering=0) as opened:
        yield opened.fileno()


@contextmanager
def _progress(fd: int, quiet: bool) -> Iterator[Callable[[Load], None]]:
    """A bar on stderr where a person looks; nothing elsewhere."""
    if quiet or not sys.stderr.isatty():
        yield lambda load: None
        return
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

    total = os.fstat(fd).st_size or None
    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console(stderr=True), transient=True) as progress:
        task = progress.add_task("reading", total=total)

        def tell(load: Load) -> None:
            done = f"{figures.rows(load.rows)}, {figures.rate(load.rows, load.seconds)}, {figures.size(load.bytes)}"
            progress.update(task, completed=load.bytes, description=done)

        yield tell


def _shown(file: str) -> str:
    return "stdin" if file == "-" else file
