"""Who a request is from, as far as that is known: what it may do, and whom its limits are counted for."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from starlette.requests import Request
from starlette.types import Scope


@dataclass(frozen=True, slots=True)
class Caller:
    """`token` is the name of the token that was sent, "" where there was none or none is asked for."""

    token: str
    roles: Collection[str]
    peer: str

    @property
    def account(self) -> str:
        """Whom limits are counted for: the token, whichever machine sends it, or else the machine."""
        return f"token {self.token}" if self.token else self.peer


def note_caller(scope: Scope, caller: Caller) -> None:
    """Let the app know who asks."""
    scope.setdefault("state", {})["caller"] = caller


def caller_of(request: Request) -> Caller:
    """Who asks."""
    caller: Caller = request.state.caller
    return caller
