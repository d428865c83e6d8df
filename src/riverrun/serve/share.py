"""A limit that many share, of which nobody gets all."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable
from typing import TypeVar

T = TypeVar("T")


class Share:
    """Counts what is taken, in all and for each account, which may take half (and `least`, if that is more). Used from
    the event loop only."""

    def __init__(self, limit: int, least: int = 1) -> None:
        self.limit = limit
        self.each = max(limit // 2, least)
        self.taken = 0
        self._accounts: Counter[str] = Counter()

    def fits(self, account: str, size: int = 1) -> bool:
        """Whether so much more can be taken."""
        return self.taken + size <= self.limit and self._accounts[account] + size <= self.each

    def take(self, account: str, size: int = 1) -> None:
        """Count it."""
        self.taken += size
        self._accounts[account] += size

    def give_back(self, account: str, size: int = 1) -> None:
        """It is over."""
        self.taken -= size
        self._accounts[account] -= size
        if self._accounts[account] <= 0:
            del self._accounts[account]


class Ticket:
    """One of what is shared, taken before anything is done for it, until it is given back."""

    def __init__(self, share: Share, account: str) -> None:
        self._share = share
        self._account: str | None = account
        share.take(account)

    def give_back(self) -> None:
        """It is free. A second time does nothing."""
        if self._account is not None:
            self._share.give_back(self._account)
            self._account = None

    async def through(self, opening: Awaitable[T]) -> T:
        """What this gives; when it fails, it is given back again."""
        try:
            return await opening
        except BaseException:
            self.give_back()
            raise
