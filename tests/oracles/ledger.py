"""What a ledger entry must respect."""

from __future__ import annotations

from dataclasses import astuple

from riverrun.kernels.kernel import Counts


def balanced(counts: Counts) -> bool:
    """Every row that was read is somewhere, once; those that corrected or deleted are among the accepted ones."""
    read, *places, corrected, deleted = astuple(counts)
    return bool(read == sum(places) and max(corrected, deleted) <= counts.accepted)
