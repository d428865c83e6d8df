"""Views as a cache in Redis: a hash for each row, under `<prefix><view>:<key>`.

Guarantee: an epoch is written once, in pieces of at most 10 000 rows. Each piece is one script, which first looks at the
marker; readers may see an epoch piece by piece. The marker is outside of every view's keys and does not expire, so rows that
`ttl` or eviction took are no damage. All keys of a store are on one server: a cluster is not supported.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec
import pyarrow as pa

from riverrun.durations import micros
from riverrun.errors import Conflict, NotFound
from riverrun.failpoints import failpoint
from riverrun.store_address import StoreAddress
from riverrun.views.derived.key_text import key_text
from riverrun.views.derived.marker import PIECES, DerivedEpoch, Marker, digest
from riverrun.views.derived.reading import in_key_order
from riverrun.views.derived.redis import scripts
from riverrun.views.derived.redis.connection import connect, noticing
from riverrun.views.derived.redis.encoding import KeyedRows, decoded, encoded
from riverrun.views.derived.store import DerivedStore
from riverrun.views.epoch import Positions, this_run
from riverrun.views.settled import settled_parts
from riverrun.views.spec import ViewSpec

PIECE = 10_000  # rows in a script: all other clients wait for it
_SCAN, _READ, _MOVE = 5000, 2000, 5000  # keys in one question
_GLOB = re.compile(r"([*?\[\]\\^-])")
_Part = tuple[str, list[str], int, list[str], list[tuple[Any, ...]]]


class RedisStore(DerivedStore):
    """A database of a Redis server, or the part of it that begins with a prefix."""

    def __init__(self, address: StoreAddress) -> None:
        super().__init__(address)
        options = address.options()
        self._prefix = options.get("prefix", "")
        self._ttl = micros(options["ttl"]) // 1000 if "ttl" in options else 0
        self._client = connect(address)

    def ping(self) -> None:
        with noticing(self.address):
            self._client.ping()

    def last(self, flow: str) -> Marker | None:
        return _decode(self._read(self._marker_key(flow)))

    def raise_fence(self, flow: str, fence: int) -> None:
        key = self._marker_key(flow)
        while True:
            there = self._read(key)
            if self._write(key, there, (_decode(there) or Marker()).fenced(flow, fence), []):
                return

    def declare(self, spec: ViewSpec) -> None:
        pass  # a hash is there when it is written

    def commit(self, epoch: DerivedEpoch) -> bool:
        key = self._marker_key(epoch.flow) if epoch.token is None else self._staged_key(epoch.token)
        there = self._read(key)
        if there is None and epoch.token is not None:
            raise NotFound(f"{self.place} has no rebuild {epoch.token}; it was switched or abandoned")
        marker = _decode(there) or Marker()
        after = epoch.after(marker, self.place)
        if after is None:
            return False
        begun = f"{PIECES}{after.sequence}:{after.input}"
        if marker.work.startswith(f"{PIECES}{after.sequence}:") and marker.work != begun:
            raise Conflict(
                f"a part of epoch {after.sequence} of flow {epoch.flow!r} is in {self.place}, of other input"
            )
        between = msgspec.structs.replace(marker, fence=after.fence, run=after.run, work=begun)
        pieces = self._pieces(epoch)
        piece = next(pieces, [])
        while True:
            following = next(pieces, None)
            failpoint("redis.piece")
            written = after if following is None else between
            if not self._write(key, there, written, piece):
                return self.commit(epoch)  # somebody wrote meanwhile: the fence decides
            failpoint("redis.written")
            if following is None:
                return True
            there, piece = between.encode(), following

    def _pieces(self, epoch: DerivedEpoch) -> Iterator[list[_Part]]:
        piece: list[_Part] = []
        room = PIECE
        for name, changes in epoch.changes.items():
            spec = epoch.specs[name]
            for settled in settled_parts(spec, changes):
                for rows in encoded(spec, settled, PIECE):
                    size = len(rows.gone) + len(rows.rows)
                    if size > room and piece:
                        yield piece
                        piece, room = [], PIECE
                    piece.append(self._part(spec, rows, epoch.token))
                    room -= size
        if piece:
            yield piece

    def _part(self, spec: ViewSpec, rows: KeyedRows, token: str | None) -> _Part:
        return self._rows_prefix(spec.name, token), spec.visible, self._ttl, rows.gone, rows.rows

    def begin(self, flow: str, token: str, specs: Sequence[ViewSpec]) -> None:
        with noticing(self.address):
            for old in self._client.smembers(self._rebuilds_key(flow)):
                self.abandon(flow, old.decode())
            self._client.sadd(self._rebuilds_key(flow), token)
            self._client.set(self._staged_key(token), Marker(generation=token).encode())

    def switch(
        self, flow: str, token: str, fence: int, sequence: int, positions: Positions, specs: Sequence[ViewSpec]
    ) -> None:
        """In two phases, which the marker tells: rows that the rebuild does not have are removed, then its rows take their
        names. Nothing is removed once the second has begun: a row that has its name has left the rebuild."""
        key = self._marker_key(flow)
        there = self._read(key) or b""
        marker = (_decode(there) or Marker()).fenced(flow, fence)
        if marker.generation == token and not marker.work:
            self._forget(flow, token)
            return
        if self._read(self._staged_key(token)) is None:
            raise NotFound(f"{self.place} has no rebuild {token}; it was switched or abandoned")
        for phase, script, rows_of in (
            ("clearing", scripts.CLEAR, None),
            ("renaming", scripts.RENAME, token),
        ):
            if marker.work == f"renaming:{token}" and phase == "clearing":
                continue
            marker = msgspec.structs.replace(marker, work=f"{phase}:{token}")
            there = self._replace(key, there, marker, flow)
            failpoint(f"redis.{phase}")
            for spec in specs:
                live, staged = self._rows_prefix(spec.name, None), self._rows_prefix(spec.name, token)
                for keys in self._keys(self._rows_prefix(spec.name, rows_of), _colons(spec)):
                    if not self._run(script, key, there, live, staged, *keys):
                        raise self._overtaken(flow)
                    failpoint(f"redis.{phase}.some")
        run = marker.run or this_run()
        done = Marker(fence, run, token, sequence, digest(positions))
        self._replace(key, there, done, flow)
        failpoint("redis.switched")
        self._forget(flow, token)

    def abandon(self, flow: str, token: str) -> None:
        self._remove(f"riverrun:staged:{token}:{self._prefix}")
        self._forget(flow, token)

    def drop(self, spec: ViewSpec) -> None:
        self._remove(self._rows_prefix(spec.name, None), _colons(spec))

    def count(self, spec: ViewSpec) -> int:
        return len(self._all_keys(spec))

    def scan(self, spec: ViewSpec) -> pa.Table:
        return in_key_order(spec, self._fetch(spec, list(self._all_keys(spec))))

    def lookup(self, spec: ViewSpec, key: Sequence[pa.Array]) -> pa.Table:
        return self._fetch(spec, [key_text(spec, key).encode()])

    def close(self) -> None:
        self._client.close()

    def _fetch(self, spec: ViewSpec, keys: Sequence[bytes]) -> pa.Table:
        """The rows with these keys, as far as they are there."""
        prefix = self._rows_prefix(spec.name, None).encode()
        found: list[tuple[bytes, dict[bytes, bytes]]] = []
        with noticing(self.address):
            for start in range(0, len(keys), _READ):
                part = keys[start : start + _READ]
                pipeline = self._client.pipeline(transaction=False)
                for key in part:
                    pipeline.hgetall(prefix + key)
                found += [(key, row) for key, row in zip(part, pipeline.execute(), strict=True) if row]
        return decoded(spec, [key for key, _ in found], [row for _, row in found])

    def _all_keys(self, spec: ViewSpec) -> set[bytes]:
        return {key for keys in self._keys(self._rows_prefix(spec.name, None), _colons(spec)) for key in keys}

    def _remove(self, prefix: str, colons: int | None = None) -> None:
        for keys in self._keys(prefix, colons):
            with noticing(self.address):
                self._client.unlink(*(prefix.encode() + key for key in keys))

    def _keys(self, prefix: str, colons: int | None) -> Iterator[list[bytes]]:
        """What follows a prefix in the keys there are, some at a time; a key may come twice. With more colons in it than
        a key of the view has, it is somebody else's."""
        start = len(prefix.encode())
        with noticing(self.address):
            some: list[bytes] = []
            for key in self._client.scan_iter(match=_GLOB.sub(r"\\\1", prefix) + "*", count=_SCAN):
                if colons is not None and key.count(b":", start) != colons:
                    continue
                some.append(key[start:])
                if len(some) == _MOVE:
                    yield some
                    some = []
            if some:
                yield some

    def _forget(self, flow: str, token: str) -> None:
        with noticing(self.address):
            self._client.delete(self._staged_key(token))
            self._client.srem(self._rebuilds_key(flow), token)

    def _replace(self, key: str, there: bytes | None, marker: Marker, flow: str) -> bytes:
        if not self._write(key, there, marker, []):
            raise self._overtaken(flow)
        return marker.encode()

    def _overtaken(self, flow: str) -> Conflict:
        return Conflict(f"another run of flow {flow!r} writes to {self.place}", hint="Only one run of a flow can write")

    def _read(self, key: str) -> bytes | None:
        with noticing(self.address):
            found: bytes | None = self._client.get(key)
        return found

    def _write(self, key: str, there: bytes | None, marker: Marker, parts: list[_Part]) -> bool:
        return self._run(scripts.WRITE, key, there or b"", marker.encode(), msgspec.msgpack.encode(parts))

    def _run(self, script: str, key: str, *arguments: bytes | str) -> bool:
        with noticing(self.address):
            return bool(self._client.eval(script, 1, key, *arguments))

    def _rows_prefix(self, view: str, token: str | None) -> str:
        return f"{self._prefix}{view}:" if token is None else f"riverrun:staged:{token}:{self._prefix}{view}:"

    def _marker_key(self, flow: str) -> str:
        return f"riverrun:marker:{self._prefix}{flow}"

    def _staged_key(self, token: str) -> str:
        return f"riverrun:staging:{self._prefix}{token}"

    def _rebuilds_key(self, flow: str) -> str:
        return f"riverrun:rebuilds:{self._prefix}{flow}"


def _colons(spec: ViewSpec) -> int:
    return max(len(spec.key) - 1, 0)


def _decode(data: bytes | None) -> Marker | None:
    return Marker.decode(data) if data else None
