"""What a ledger entry must respect."""

from __future__ import annotations

from riverrun.kernels.kernel import Counts


def balanced(counts: Counts) -> bool:
    """Every row that was read is somewhere, once; those that corrected or deleted are among the accepted ones."""
    refused = counts.late_dropped + counts.late_aside + counts.duplicates + counts.quarantined
    return counts.read == counts.accepted + refused and max(counts.corrected, counts.deleted) <= counts.accepted
