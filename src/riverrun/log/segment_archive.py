"""A topic's archive: a directory elsewhere, to which retention moves segments, and from which they are read on."""

from __future__ import annotations

import os
import shutil

from riverrun import durable
from riverrun.errors import Conflict
from riverrun.log.segment import index_path, list_segments
from riverrun.log.segments import Entry
from riverrun.log.stored_spec import StoredSpec

_OWNER = "owner"


def archive_directory(spec: StoredSpec) -> str | None:
    """The directory for this topic, if it has an archive."""
    return None if spec.archive is None else f"{spec.archive}/{spec.name}"


def claim_archive(archive: str, directory: str) -> None:
    """For a new topic: take the archive, or refuse it if another topic's rows are in it or will be.

    Segments have the same names in every topic, so two of them in one archive would be taken for one another.
    """
    mine = os.path.realpath(directory)
    durable.make_directory(archive)
    path = f"{archive}/{_OWNER}"
    try:
        with open(path, encoding="utf-8") as file:
            owner = file.read()
    except FileNotFoundError:
        owner = ""
    if owner not in ("", mine) or list_segments(archive):
        raise Conflict(
            f"the archive {archive} belongs to {owner or 'another topic'}",
            hint="Give another archive, or move that directory away",
        )
    durable.write_file(path, mine)


def archive_segment(entry: Entry, archive: str) -> None:
    """Copy a segment and its index; each is complete under its name, or not there."""
    durable.make_directory(archive)
    for path in (index_path(entry.path), entry.path):
        if os.path.exists(path):
            durable.copy_file(path, f"{archive}/{os.path.basename(path)}")


def discard_archive(archive: str) -> None:
    """The topic is dropped, and its rows with it, wherever they are."""
    shutil.rmtree(archive, ignore_errors=True)
