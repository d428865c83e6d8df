"""Where files live that can be made again, or read again from where they are kept."""

from __future__ import annotations

import os
import tempfile


def cache_directory() -> str:
    """XDG_CACHE_HOME/riverrun, or ~/.cache/riverrun; where there is no such home, as on some executors of a cluster, below the
    directory for temporary files."""
    root = os.environ.get("XDG_CACHE_HOME")
    if root:
        return os.path.join(root, "riverrun")
    home = os.path.expanduser("~")
    if os.path.isdir(home) and os.access(home, os.W_OK):
        return os.path.join(home, ".cache", "riverrun")
    return os.path.join(tempfile.gettempdir(), f"riverrun-{os.getuid()}")
