"""How many files this process may have open."""

from __future__ import annotations

import resource

_ENOUGH = 1 << 16  # some programs go through all numbers up to the limit


def raise_limit() -> int:
    """Raise the limit as far as the system lets us, and give it. Each topic takes a handful of descriptors, each client of
    HTTP one; the usual 1024 is there for programs that use `select`."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _ENOUGH if hard == resource.RLIM_INFINITY else min(hard, _ENOUGH)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        return wanted
    return _ENOUGH if soft == resource.RLIM_INFINITY else soft
