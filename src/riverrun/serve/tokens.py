"""Tokens of HTTP clients. Only their SHA-256 is kept: a token is long and random, so there is nothing to guess.

A line is `NAME ROLE[,ROLE] sha256:HEX`, as in `shop write sha256:9f86…`; what begins with # is a comment. `read` may see
everything, `write` may append, `admin` may do all. None of it is ever printed but the names. The file is read again when
it changes: a line that is no token then counts for nothing, and when none is left, nobody is let in. One that cannot be
read changes nothing.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import logging
import os
import re
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from riverrun.errors import Invalid, Unavailable
from riverrun.settings import Settings

log = logging.getLogger("riverrun.serve")

READ, WRITE, ADMIN = ROLES = ("read", "write", "admin")
_LOOK = 1.0  # seconds between two looks whether the file has changed
_LINE = re.compile(r"([A-Za-z0-9._-]{1,200})\s+([a-z]+(?:,[a-z]+)*)\s+sha256:([0-9a-fA-F]{64})")


@dataclass(frozen=True, slots=True)
class Token:
    """Who has it, what it allows, and how it is recognised."""

    name: str
    roles: frozenset[str]
    digest: bytes = field(repr=False)


class Tokens:
    """All tokens of a server. None at all from the beginning means that everybody who reaches it may do everything."""

    def __init__(self, tokens: Iterable[Token] = (), settings: Settings | None = None) -> None:
        self._tokens = tuple(tokens)
        self._are_needed = bool(self._tokens)
        self._settings = settings
        self._file = _identify(settings)
        self._looked = time.monotonic()

    def __bool__(self) -> bool:
        """Whether one is needed. That stays so when the last one is removed."""
        return self._are_needed

    @classmethod
    def load(cls, settings: Settings) -> Tokens:
        """Those of the settings and of the file they name."""
        fresh = cls(settings=settings)  # first what the file is: should it change now, it is read again
        fresh._tokens = _read(settings, _refuse)
        fresh._are_needed = bool(fresh._tokens)
        if settings.tokens_file and not fresh:
            raise Invalid(f"the tokens file {settings.tokens_file} has no tokens in it")
        return fresh

    def find(self, secret: str) -> Token | None:
        """The token; None when it is none of these. Takes as long for every one, whether right or wrong."""
        self._refresh()
        digest = hashlib.sha256(secret.encode("utf-8", "surrogateescape")).digest()
        found = None
        for token in self._tokens:
            if hmac.compare_digest(token.digest, digest):
                found = token
        return found

    def still_has(self, token: Token) -> bool:
        """Whether a token that was found before is one still, and allows as much."""
        self._refresh()
        return any(one.digest == token.digest and one.roles >= token.roles for one in self._tokens)

    def _refresh(self) -> None:
        """Read the file again if it has changed. One that cannot be read changes nothing."""
        if self._settings is None or time.monotonic() < self._looked + _LOOK:
            return
        self._looked = time.monotonic()
        file = _identify(self._settings)
        if file == self._file:
            return
        self._file = file
        try:
            self._tokens = _read(self._settings, _pass_over)
        except Unavailable as error:
            log.warning("%s; the tokens from before stay", error.message)
            return
        if not self._tokens:
            log.warning("the tokens file %s has no tokens in it: nobody is let in", self._settings.tokens_file)


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


def _identify(settings: Settings | None) -> tuple[int, ...] | None:
    """What is another when the tokens file is."""
    if settings is None or not settings.tokens_file:
        return None
    try:
        found = os.stat(settings.tokens_file)
    except OSError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns


def _refuse(error: Invalid) -> None:
    raise error


def _pass_over(error: Invalid) -> None:
    log.warning("%s; it counts for nothing", error.message)


def _read(settings: Settings, mistaken: Callable[[Invalid], None]) -> tuple[Token, ...]:
    """All that there are; `mistaken` is told of what is none."""
    tokens = _parse(settings.tokens.split(";"), "setting tokens, entry", mistaken)
    if settings.tokens_file:
        try:
            with open(settings.tokens_file, encoding="utf-8") as file:
                tokens += _parse(file.read().splitlines(), f"{settings.tokens_file}, line", mistaken)
        except (OSError, UnicodeDecodeError) as error:
            why = error.strerror if isinstance(error, OSError) else "it is not text"
            raise Unavailable(f"the tokens file {settings.tokens_file} cannot be read ({why})") from None
    return tuple(tokens)


def _parse(lines: Iterable[str], place: str, mistaken: Callable[[Invalid], None]) -> list[Token]:
    tokens = []
    for number, text in enumerate(lines, 1):
        entry = text.strip()
        if entry and not entry.startswith("#"):
            try:
                tokens.append(_parse_entry(entry, f"{place} {number}"))
            except Invalid as error:
                mistaken(error)
    return tokens


def _parse_entry(entry: str, place: str) -> Token:
    """What is wrong is told without showing it: somebody may have put the token itself there."""
    match = _LINE.fullmatch(entry)
    if not match:
        raise Invalid(f"{place}: not a token", hint="Write NAME ROLE,… sha256:HEX; see docs/http.md")
    roles = frozenset(match[2].split(","))
    if not roles <= set(ROLES):
        raise Invalid(f"{place}: the roles of {match[1]} must be among {', '.join(ROLES)}")
    return Token(match[1], frozenset(ROLES) if ADMIN in roles else roles, bytes.fromhex(match[3]))
