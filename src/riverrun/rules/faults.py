"""What goes wrong with a rule: it is told in words, and the flow goes on without the rule."""

from __future__ import annotations

import polars as pl

from riverrun.errors import RiverrunError

FAULTS = (Exception, pl.exceptions.PanicException)
"""What reading a rule, searching with it or computing its measures may raise."""

_LONGEST = 300  # characters that are told


def fault_of(error: BaseException) -> str:
    """What went wrong, as one text. What the machine lacks is no fault of a rule, and is raised again."""
    if isinstance(error, RiverrunError):
        return reason_of(error)
    if isinstance(error, OSError | MemoryError):
        raise error
    said = " ".join(str(error).split())[:_LONGEST]
    return f"{type(error).__name__}: {said}" if said else type(error).__name__


def reason_of(error: RiverrunError) -> str:
    """Why a rule cannot be read, as one text."""
    return f"{error.message}. {error.hint}" if error.hint else error.message
