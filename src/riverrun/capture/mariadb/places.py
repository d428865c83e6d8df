"""GTIDs, and places in the files of the binary log. Pure.

>>> str(parse_gtid("0-7-15")), newest("0-7-15", 0)
('0-7-15', Gtid(domain=0, server=7, number=15))
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from riverrun.errors import Unavailable

_NUMBER = re.compile(r"(\d+)$")


@dataclass(frozen=True)
class Gtid:
    """A transaction: the domain, the server that wrote it first, and its number, which rises within the domain."""

    domain: int
    server: int
    number: int

    def __str__(self) -> str:
        return f"{self.domain}-{self.server}-{self.number}"


@dataclass(frozen=True)
class BinlogPlace:
    """Where in the binary log a transaction ends. `gtid` is None before the first one; an `offset` of 0 is not known."""

    gtid: Gtid | None
    file: str
    offset: int

    @property
    def number(self) -> int:
        return self.gtid.number if self.gtid is not None else 0

    def text(self) -> str:
        """As a bookmark.

        >>> BinlogPlace.parse("0-7-15 bin.000003:4711").text()
        '0-7-15 bin.000003:4711'
        """
        return f"{self.gtid or ''} {self.file}:{self.offset}"

    @classmethod
    def parse(cls, text: str) -> BinlogPlace:
        gtid, _, place = text.partition(" ")
        file, _, offset = place.rpartition(":")
        return cls(parse_gtid(gtid) if gtid else None, file, int(offset))


def parse_gtid(text: str) -> Gtid:
    """`domain-server-number`."""
    domain, server, number = text.split("-")
    return Gtid(int(domain), int(server), int(number))


def newest(position: str, domain: int) -> Gtid | None:
    """The transaction that a position of the server's (`@@gtid_binlog_pos`) names; None: none was written yet.

    A position of several domains has no order of its own, and is refused.
    """
    found = [parse_gtid(one) for one in position.replace(" ", "").split(",") if one]
    others = sorted({one.domain for one in found} - {domain})
    if others:
        raise Unavailable(
            f"the binary log has GTIDs of several domains ({', '.join(map(str, [domain, *others]))}): they have no order"
            " among each other, and a capture needs one",
            hint="Write with one gtid_domain_id; flush binary logs delete_domain_id=(…) forgets one that is not used any more",
        )
    return found[0] if found else None


def file_number(file: str) -> int:
    """The number in the name of a file of the binary log.

    >>> file_number("bin.000012")
    12
    """
    found = _NUMBER.search(file)
    return int(found[1]) if found else 0
