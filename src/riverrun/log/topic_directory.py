"""The directory of a topic: what it is (`topic.json`), and every version of its schema (`schema/1`, `schema/2`, …)."""

from __future__ import annotations

import json
import os
import shutil
import uuid

from riverrun import durable
from riverrun.errors import Corrupt, Invalid, NewerFormat
from riverrun.log.journal import Journal
from riverrun.log.segment_archive import archive_directory, claim_archive
from riverrun.log.spec import TopicSpec
from riverrun.log.stored_spec import StoredSpec

_FORMAT = 1
_RESTORE = "Restore the topic's directory from a copy"


def create_topic(directory: str, spec: StoredSpec) -> None:
    """Make a topic: complete under its name, or not there. Somebody else making it at the same time is no error."""
    parent, name = os.path.split(directory)
    fresh = f"{parent}/.new-{name}-{uuid.uuid4().hex[:8]}"
    archive = archive_directory(spec)
    if archive:
        claim_archive(archive, directory)
    durable.make_directory(f"{fresh}/schema")
    try:
        Journal.create(fresh, spec.partitions)
        add_schema(fresh, 1, spec.schema)
        durable.write_file(f"{fresh}/topic.json", json.dumps({"format": _FORMAT, **spec.options()}, indent=1))
        durable.rename(fresh, directory)
    except OSError:
        shutil.rmtree(fresh, ignore_errors=True)
        if not os.path.exists(f"{directory}/topic.json"):
            raise


def add_schema(directory: str, version: int, schema: str) -> None:
    """Put the next version beside the others."""
    durable.write_file(f"{directory}/schema/{version}", schema)


def load_spec(directory: str) -> tuple[StoredSpec, dict[int, str]]:
    """The stored spec and every version of its schema. Raises Corrupt or NewerFormat."""
    path = f"{directory}/topic.json"
    try:
        options = json.loads(_read(path))
        versions = {int(v): _read(f"{directory}/schema/{v}") for v in os.listdir(f"{directory}/schema") if v.isdigit()}
        written, newest = options.pop("format"), max(versions)
    except (OSError, ValueError, KeyError) as error:
        raise Corrupt(f"{path} cannot be read: {error}", hint=_RESTORE) from None
    if written > _FORMAT:
        raise NewerFormat(f"{path} was written by a newer Riverrun (format {written})", hint="Upgrade Riverrun")
    try:
        return TopicSpec(schema=versions[newest], **options).resolve(), versions
    except (Invalid, TypeError, ValueError) as error:
        raise Corrupt(f"{path} does not describe a topic: {error}", hint=_RESTORE) from None


def _read(path: str) -> str:
    with open(path, encoding="utf-8") as file:
        return file.read()
