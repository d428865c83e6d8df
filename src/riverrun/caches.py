"""Where files live that can be made again, or read again from where they are kept."""

from __future__ import annotations

import os
import stat
import tempfile

from riverrun import durable
from riverrun.errors import Unavailable


def cache_directory() -> str:
    """XDG_CACHE_HOME/riverrun, or ~/.cache/riverrun; where there is no such home, as on some executors of a cluster, below the
    directory for temporary files, where it must not be somebody else's: what is in it is believed."""
    root = os.environ.get("XDG_CACHE_HOME")
    if root:
        return os.path.join(root, "riverrun")
    home = os.path.expanduser("~")
    if os.path.isdir(home) and os.access(home, os.W_OK):
        return os.path.join(home, ".cache", "riverrun")
    return _own(os.path.join(tempfile.gettempdir(), f"riverrun-{os.getuid()}"))


def _own(path: str) -> str:
    """A directory that anybody could have made before: it is made now, or is this user's."""
    try:
        os.mkdir(path, durable.DIRECTORY_MODE)
    except FileExistsError:
        found = os.lstat(path)
        if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o022:
            raise Unavailable(
                f"{path} is to be the cache, and others can write there", hint="Remove it, or set XDG_CACHE_HOME"
            ) from None
    except OSError:
        pass  # on a disk that is full or read only there is no cache: who needs it is told by what it does there
    return path
