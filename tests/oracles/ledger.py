"""What a ledger entry must respect."""

from __future__ import annotations

from dataclasses import astuple

from riverrun.kernels.kernel import Counts


def balanced(counts: Counts) -> bool:
    """Every row that was read is somewhere, once."""
    read, *places = astuple(counts)
    return bool(read == sum(places))
