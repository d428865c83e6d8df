"""A flow that commits epochs to a derived store, for the contract of derived stores."""

from __future__ import annotations

import itertools
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from contracts.view_flow import SCHEMA, weighted
from postgres_server import shared_server
from redis_server import RedisServer, shared_redis
from riverrun.store_address import StoreAddress
from riverrun.views import ViewSpec
from riverrun.views.columns import rows_of
from riverrun.views.derived.marker import DerivedEpoch
from riverrun.views.derived.store import DerivedStore, open_derived
from s3_server import shared_s3

_numbers = itertools.count()


@dataclass(frozen=True)
class DerivedPlace:
    """Where one derived store is. `save` and `restore` copy everything it holds, as a backup does. Between `leave` and
    `come_back` it is away: its server is stopped, or its files are elsewhere, as on a disk that was unmounted."""

    address: str
    river: Path
    save: Callable[[], Any]
    restore: Callable[[Any], None]
    leave: Callable[[], None]
    come_back: Callable[[], None]

    def open(self) -> DerivedStore:
        return open_derived(StoreAddress.parse(self.address), str(self.river))


def redis_place(directory: Path) -> DerivedPlace:
    server = shared_redis()
    prefix = f"t{next(_numbers)}:"

    def mine(client: Any) -> list[bytes]:
        return [key for key in client.scan_iter(count=1000) if prefix.encode() in key]

    def save() -> dict[bytes, bytes]:
        with server.client() as client:
            return {key: client.dump(key) for key in mine(client)}

    def restore(saved: dict[bytes, bytes]) -> None:
        with server.client() as client:
            for key in mine(client):
                client.delete(key)
            for key, dumped in saved.items():
                client.restore(key, 0, dumped)

    return DerivedPlace(f"{server.url}?prefix={prefix}", directory, save, restore, server.stop, server.start)


def files_place(address: str, directory: Path, *names: str) -> DerivedPlace:
    def save() -> Path:
        copy = directory / f"copy-{next(_numbers)}"
        copy.mkdir()
        for found in (path for name in names for path in directory.glob(f"{name}*")):
            (shutil.copytree if found.is_dir() else shutil.copy)(found, copy / found.name)
        return copy

    def restore(copy: Path) -> None:
        for found in [path for name in names for path in directory.glob(f"{name}*")]:
            shutil.rmtree(found) if found.is_dir() else found.unlink()
        for found in copy.iterdir():
            (shutil.copytree if found.is_dir() else shutil.copy)(found, directory / found.name)

    elsewhere = directory / f"elsewhere-{next(_numbers)}"

    def leave() -> None:
        elsewhere.mkdir()
        for found in [path for name in names for path in directory.glob(f"{name}*")]:
            found.rename(elsewhere / found.name)

    def come_back() -> None:
        for found in elsewhere.iterdir():
            assert not (directory / found.name).exists(), "something was put in its place"
            found.rename(directory / found.name)
        elsewhere.rmdir()

    return DerivedPlace(address, directory, save, restore, leave, come_back)


def postgres_place(directory: Path) -> DerivedPlace:
    import psycopg

    name = f"derived{next(_numbers)}"

    def run(*statements: str) -> None:
        with psycopg.connect(shared_server().url, autocommit=True) as connection:
            for statement in statements:
                connection.execute(statement)

    def save() -> str:
        copy = f"{name}copy{next(_numbers)}"
        run(f"create database {copy} template {name}")
        return copy

    def restore(copy: str) -> None:
        run(f"drop database {name} with (force)", f"create database {name} template {copy}")

    run(f"create database {name}")
    url = shared_server().url.replace("/postgres?", f"/{name}?")
    return DerivedPlace(url, directory, save, restore, shared_server().stop, shared_server().start)


def bucket_place(directory: Path) -> DerivedPlace:
    """A Delta table in a bucket."""
    from pyarrow import fs

    server = shared_s3()
    mine = f"{server.bucket}/place{next(_numbers)}"
    bucket, above = fs.FileSystem.from_uri(mine)

    def save() -> dict[str, bytes]:
        found = bucket.get_file_info(fs.FileSelector(above, allow_not_found=True, recursive=True))
        return {info.path: bucket.open_input_file(info.path).read() for info in found if info.is_file}

    def restore(saved: dict[str, bytes]) -> None:
        for path in save():
            bucket.delete_file(path)
        for path, data in saved.items():
            with bucket.open_output_stream(path) as file:
                file.write(data)

    return DerivedPlace(f"delta:{mine}/lake", directory, save, restore, server.stop, server.start)


DERIVED: dict[str, Callable[[Path], DerivedPlace]] = {
    "redis": redis_place,
    "search": lambda directory: files_place(f"search:{directory}/words", directory, "words"),
    "delta": lambda directory: files_place(f"delta:{directory}/lake", directory, "lake"),
    "sqlite": lambda directory: files_place(f"sqlite:{directory}/other.db", directory, "other.db"),
    "postgres": postgres_place,
    "bucket": bucket_place,
}


class DerivedFlow:
    """A flow whose views are in one derived store."""

    def __init__(self, store: DerivedStore, *specs: ViewSpec, name: str = "shop", fence: int = 1) -> None:
        self.store, self.name, self.fence = store, name, fence
        self.specs = {spec.name: spec for spec in specs}
        for spec in specs:
            store.declare(spec)
        store.raise_fence(name, fence)
        marker = store.last(name)
        self.sequence = marker.sequence if marker else 0
        self.generation = name

    def epoch(self, changes: dict[str, Any] | None = None, offset: int | None = None, **more: Any) -> DerivedEpoch:
        number = more.pop("sequence", self.sequence + 1)
        given = {
            "fence": self.fence,
            "generation": self.generation,
            "positions": {"orders": {0: number * 10 if offset is None else offset}},
            "whole": frozenset(self.specs),
            **more,
        }
        changes = changes or {}
        empty = {name: [] for name in self.specs if name not in changes}
        return DerivedEpoch(self.name, sequence=number, specs=self.specs, changes={**changes, **empty}, **given)

    def commit(self, changes: dict[str, Any] | None = None, offset: int | None = None, **more: Any) -> bool:
        epoch = self.epoch(changes, offset, **more)
        done = self.store.commit(epoch)
        if epoch.token is None:
            self.sequence = max(self.sequence, epoch.sequence)
        return done


def hot(**more: Any) -> ViewSpec:
    given = {"name": "hot", "flow": "shop", "schema": SCHEMA, "key": ("user",), "topics": ("orders",), **more}
    return ViewSpec(**given)


def changes(*given: tuple) -> dict[str, pa.Table]:
    return {"hot": weighted(SCHEMA, *given)}


def contents(store: DerivedStore, spec: ViewSpec) -> list[tuple]:
    return [tuple(row.values()) for row in rows_of(store.scan(spec).select(spec.visible))]


def restart(server: RedisServer) -> None:
    server.stop()
    server.start()
