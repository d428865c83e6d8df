"""Compressed bodies, unpacked part by part."""

from __future__ import annotations

import zlib

from riverrun.errors import Invalid

PACKINGS = {"gzip": 31, "x-gzip": 31, "deflate": 15}
_MEMBERS = 1000  # a gzip file may be several, one behind the other; each costs something, however small it is


class Unpacking:
    """A body in one of `PACKINGS`. `is_complete` when nothing is missing."""

    def __init__(self, packing: str) -> None:
        self._packing = packing
        self._member = zlib.decompressobj(PACKINGS[packing])
        self._members = 1

    @property
    def is_complete(self) -> bool:
        return self._member.eof

    def unpack(self, part: bytes, room: int) -> bytes:
        """What is in the next part; more than `room` bytes, and perhaps not all of them, when there are more."""
        plain = bytearray()
        while part and len(plain) <= room:
            if self._member.eof:
                self._begin_another()
            try:
                plain += self._member.decompress(part, room - len(plain) + 1)
            except zlib.error:
                raise Invalid("the body is not what Content-Encoding says") from None
            part = self._member.unused_data
        return bytes(plain)

    def _begin_another(self) -> None:
        if self._packing == "deflate":
            raise Invalid("there is something behind the end of the compressed body")
        self._members += 1
        if self._members > _MEMBERS:
            raise Invalid(f"the body has more than {_MEMBERS} parts of gzip")
        self._member = zlib.decompressobj(PACKINGS[self._packing])
