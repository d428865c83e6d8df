"""Tokens of HTTP clients. Only their SHA-256 is kept: a token is long and random, so there is nothing to guess.

A line is `NAME ROLE[,ROLE] sha256:HEX`, as in `shop write sha256:9f86…`; what begins with # is a comment. `read` may see
everything, `write` may append, `admin` may do all. None of it is ever printed but the names.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from riverrun.errors import Invalid, Unavailable
from riverrun.settings import Settings

READ, WRITE, ADMIN = ROLES = ("read", "write", "admin")
_LINE = re.compile(r"([A-Za-z0-9._-]{1,200})\s+([a-z]+(?:,[a-z]+)*)\s+sha256:([0-9a-fA-F]{64})")


@dataclass(frozen=True, slots=True)
class Token:
    """Who has it, what it allows, and how it is recognised."""

    name: str
    roles: frozenset[str]
    digest: bytes = field(repr=False)


class Tokens:
    """All tokens of a server. None at all means that everybody who reaches it may do everything."""

    def __init__(self, tokens: Iterable[Token] = ()) -> None:
        self._tokens = tuple(tokens)

    def __bool__(self) -> bool:
        return bool(self._tokens)

    @classmethod
    def load(cls, settings: Settings) -> Tokens:
        """Those of the settings and of the file they name."""
        tokens = _parse(settings.tokens.split(";"), "setting tokens, entry")
        if settings.tokens_file:
            try:
                with open(settings.tokens_file, encoding="utf-8") as file:
                    tokens += _parse(file.read().splitlines(), f"{settings.tokens_file}, line")
            except (OSError, UnicodeDecodeError) as error:
                why = error.strerror if isinstance(error, OSError) else "it is not text"
                raise Unavailable(f"the tokens file {settings.tokens_file} cannot be read ({why})") from None
            if not tokens:
                raise Invalid(f"the tokens file {settings.tokens_file} has no tokens in it")
        return cls(tokens)

    def roles(self, secret: str) -> frozenset[str] | None:
        """What a token allows; None when it is none of these. Takes as long for every token, whether right or wrong."""
        digest = hashlib.sha256(secret.encode("utf-8", "surrogateescape")).digest()
        roles = None
        for token in self._tokens:
            if hmac.compare_digest(token.digest, digest):
                roles = token.roles
        return roles


def extract_token(authorization: str) -> str | None:
    """The token in an Authorization header: Bearer, or the password of Basic, which is how a browser sends one."""
    scheme, _, value = authorization.partition(" ")
    value = value.strip()
    if scheme.lower() == "bearer":
        return value or None
    if scheme.lower() == "basic":
        try:
            return base64.b64decode(value, validate=True).decode().partition(":")[2] or None
        except (binascii.Error, UnicodeDecodeError):
            return None
    return None


def line(name: str, roles: Iterable[str], secret: str) -> str:
    """The line for the tokens file."""
    return f"{name} {','.join(roles)} sha256:{hashlib.sha256(secret.encode()).hexdigest()}"


def _parse(lines: Iterable[str], place: str) -> list[Token]:
    """What is wrong is told without showing it: somebody may have put the token itself there."""
    tokens = []
    for number, text in enumerate(lines, 1):
        entry = text.strip()
        if not entry or entry.startswith("#"):
            continue
        match = _LINE.fullmatch(entry)
        if not match:
            raise Invalid(f"{place} {number}: not a token", hint="Write NAME ROLE,… sha256:HEX; see docs/http.md")
        roles = frozenset(match[2].split(","))
        if not roles <= set(ROLES):
            raise Invalid(f"{place} {number}: the roles of {match[1]} must be among {', '.join(ROLES)}")
        allowed = frozenset(ROLES) if ADMIN in roles else roles
        tokens.append(Token(match[1], allowed, bytes.fromhex(match[3])))
    return tokens
