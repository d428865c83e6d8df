"""The descriptor through which a segment is written and synced."""

from __future__ import annotations

import os

from riverrun import durable
from riverrun.log.segment import segment_path


class SegmentWriter:
    """The open file of the active segment. It is closed when nobody refers to it any more: somebody who syncs it may keep
    it while others go on with the next segment."""

    _fd = -1

    def __init__(self, directory: str, first_commit: int, create: bool) -> None:
        self.first_commit = first_commit
        flags = os.O_RDWR | (os.O_CREAT | os.O_EXCL if create else 0)
        self._fd = durable.open_file(segment_path(directory, first_commit), flags)

    @property
    def fd(self) -> int:
        return self._fd

    def __del__(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
