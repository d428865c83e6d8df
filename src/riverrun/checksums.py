"""CRC32C: what was stored is what is read, or it is damaged."""

from __future__ import annotations

from typing import Any

import google_crc32c
import pyarrow as pa

_BYTES = 4


def checksum(data: Any) -> int:
    """CRC32C of bytes, a buffer or a view, without a copy."""
    # The extension takes no memoryview, but an Arrow buffer around one.
    return int(google_crc32c.value(pa.py_buffer(data) if isinstance(data, memoryview) else data))


def with_checksum(content: bytes) -> bytes:
    """The content behind its own checksum.

    >>> without_checksum(with_checksum(b"tea"))
    b'tea'
    """
    return checksum(content).to_bytes(_BYTES, "little") + content


def without_checksum(stored: bytes) -> bytes | None:
    """What `with_checksum` was given; None when it is damaged.

    >>> without_checksum(with_checksum(b"tea")[:-1] + b"!") is None
    True
    """
    content = stored[_BYTES:]
    return content if stored[:_BYTES] == checksum(content).to_bytes(_BYTES, "little") else None
