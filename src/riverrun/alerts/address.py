"""An address as people may see it. What is secret in one never leaves it but towards the service itself.

>>> address = Address("jsons://ada:s3cret@example.com/hook/t0ken?+Auth=abcd")
>>> str(address), address.scrub("no answer from https://example.com/hook/t0ken")
('jsons://example.com', 'no answer from https://example.com/…/…')
>>> str(Address("tgram://1234:bot-token/5678"))
'tgram://…'
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from urllib.parse import parse_qsl, unquote, urlsplit

_HIDDEN = "…"
_SHORTEST = 4  # what is shorter is no secret, and hiding it would garble every text

# Where the part after the scheme is the name of a machine. With many services it is a token.
_NAMES_A_HOST = {
    *("json", "jsons", "xml", "xmls", "form", "forms", "mailto", "mailtos"),
    *("apprise", "apprises", "gotify", "gotifys", "mmost", "mmosts"),
}


@dataclass(frozen=True)
class Address:
    """Where messages go. Its text and its repr are the scheme and, where there is one, the host."""

    url: str = field(repr=False)

    def __str__(self) -> str:
        return f"{self.scheme}://{self.host or _HIDDEN}"

    def __repr__(self) -> str:
        return f"<address {self}>"

    @property
    def scheme(self) -> str:
        return self.url.partition("://")[0].strip().lower()

    def scrub(self, text: str) -> str:
        """The text without anything that only this address knows."""
        return self._secrets.sub(_HIDDEN, text) if self._secrets.pattern else text

    @cached_property
    def host(self) -> str | None:
        """The machine's name, when the address surely has one."""
        rest = self.url.partition("://")[2]
        authority, _, path = rest.partition("/")
        if self.scheme not in _NAMES_A_HOST or "@" in path.partition("?")[0]:
            return None  # an unescaped slash in a password would make a part of it look like a host
        found = re.fullmatch(r"(?:.*@)?(\[[0-9a-fA-F:.]+\]|[A-Za-z0-9._-]+)(?::\d+)?", authority.partition("?")[0])
        return found[1].lower() if found else None

    @cached_property
    def _secrets(self) -> re.Pattern[str]:
        whole = {part for raw in self._pieces() for part in (raw, unquote(raw))}
        # Errors show control characters in their own way, and then what is around them has to be known.
        parts = whole | {piece for part in whole for piece in re.split(r"[\s\x00-\x1f]+", part)}
        parts = {part for part in parts if len(part) >= _SHORTEST}
        parts -= {self.host or "", self.scheme}
        longest_first = sorted(parts, key=lambda part: (-len(part), part))
        return re.compile("|".join(map(re.escape, longest_first)), re.IGNORECASE)

    def _pieces(self) -> Iterator[str]:
        yield self.url
        rest = self.url.partition("://")[2]
        yield from re.split(r"[/?&#@:,\s]", rest)
        yield from re.split(r"[/?&#=+@]", rest)
        yield rest.rpartition("@")[0]
        try:
            split = urlsplit(self.url)
        except ValueError:
            return
        yield from split.path.split("/")
        yield from (value for _, value in parse_qsl(split.query))
        yield from (split.password or "", split.username or "", split.query, split.fragment)


def redact(text: str, addresses: tuple[Address, ...]) -> str:
    """The text without anything that one of the addresses knows."""
    for address in addresses:
        text = address.scrub(text)
    return text
