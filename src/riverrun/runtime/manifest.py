"""The manifest: which state files make up each node's state after an epoch. The home store decides which one counts."""

from __future__ import annotations

from typing import Any

import msgspec

from riverrun.errors import Conflict


class Manifest(msgspec.Struct):
    """State after an epoch: node id → shard → entry, with what it was computed for."""

    epoch: int
    shards: int
    nodes: dict[str, dict[str, Any]]
    fingerprints: dict[str, str]
    final: bool = False

    def encode(self) -> bytes:
        return msgspec.msgpack.encode(self)

    @classmethod
    def decode(cls, data: bytes) -> Manifest:
        return msgspec.msgpack.decode(data, type=cls)


def load(home: str, epoch: int) -> dict[str, dict[str, Any]]:
    raise Conflict(f"no manifest for epoch {epoch} in {home}")
