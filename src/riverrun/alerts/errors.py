"""Why a message could not be handed over."""

from __future__ import annotations

from riverrun.errors import RiverrunError


class Undelivered(RiverrunError):
    """An address did not take a message. `final`: it never will, so trying again is no use."""

    def __init__(self, message: str, *, final: bool = False) -> None:
        super().__init__(message)
        self.final = final
