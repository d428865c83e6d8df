"""Small files by name, whole or not there: in a directory, or in a bucket. What is written is there for every machine that
sees the place when `write` returns."""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress
from typing import Protocol

from riverrun import durable
from riverrun.errors import from_system


class Folder(Protocol):
    """Files of one place. Names have no slash."""

    def write(self, name: str, content: bytes) -> None:
        """Make the file, or replace it, as one step."""

    def read(self, name: str) -> bytes:
        """What was written; `FileNotFoundError` where there is nothing."""

    def names(self) -> list[str]:
        """The names of all files, in order."""

    def delete(self, names: Iterable[str]) -> None:
        """Remove files, as far as they are there."""


class LocalFolder:
    """A directory, made when something is first written to it."""

    def __init__(self, path: str) -> None:
        self._path = path

    def write(self, name: str, content: bytes) -> None:
        durable.make_directory(self._path)
        durable.write_file(f"{self._path}/{name}", content)

    def read(self, name: str) -> bytes:
        try:
            with open(f"{self._path}/{name}", "rb") as file:
                return file.read()
        except FileNotFoundError:
            raise
        except OSError as error:
            raise from_system(error, f"{self._path}/{name} cannot be read") from error

    def names(self) -> list[str]:
        with suppress(FileNotFoundError):
            return sorted(entry.name for entry in os.scandir(self._path) if entry.is_file())
        return []

    def delete(self, names: Iterable[str]) -> None:
        for name in names:
            with suppress(FileNotFoundError):
                os.unlink(f"{self._path}/{name}")


def open_folder(place: str) -> Folder:
    """The folder at a place: a path, or s3://BUCKET/PREFIX."""
    if "://" not in place:
        return LocalFolder(place)
    from riverrun.object_folder import ObjectFolder

    return ObjectFolder(place)
